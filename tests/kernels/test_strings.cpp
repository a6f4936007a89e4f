// The kernels of strings on the emulator, against full tables of edits: first limits that k words keep, lists of everything within
// them, and the k first. Words and queries of every class of length, lists too short for what is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda/strings/sequence.hpp"
#include "kernels/emulated.hpp"
#include "oracle/strings.hpp"

namespace {

using namespace vicinal::cuda;
using oracle::Text;

/// One side in the kernels' form: by length, ties by row; codes from 1.
struct PreparedMatrix {
  std::vector<Text> texts;  // in the order of positions
  std::vector<std::uint8_t> codes;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint32_t> rows;

  explicit PreparedMatrix(const std::vector<Text>& given) {
    for (std::size_t row = 0; row < given.size(); ++row) rows.push_back(static_cast<std::uint32_t>(row));
    std::stable_sort(rows.begin(), rows.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return given[a].size() < given[b].size(); });
    for (const std::uint32_t row : rows) {
      texts.push_back(given[row]);
      for (const char32_t c : given[row]) codes.push_back(static_cast<std::uint8_t>(c - U'a' + 1));
      offsets.push_back(static_cast<std::int64_t>(codes.size()));
    }
    codes.push_back(0);  // an address for a side without letters
  }
  CodedStrings view() const {
    return {codes.data(), offsets.data(), rows.data(), static_cast<std::int64_t>(rows.size())};
  }
  std::int64_t up_to(std::size_t letters) const {
    return std::partition_point(texts.begin(), texts.end(), [&](const Text& text) { return text.size() <= letters; }) -
           texts.begin();
  }
};

StringsCuts cuts_of(const PreparedMatrix& words, const PreparedMatrix& queries) {
  return {words.up_to(16),      words.up_to(32),
          words.up_to(64),      words.view().count,
          queries.up_to(32),    queries.up_to(64),
          queries.view().count, queries.texts.empty() ? 0 : static_cast<std::int64_t>(queries.texts.back().size())};
}

std::mt19937 random_bits(11);
int between(int low, int high) { return low + static_cast<int>(random_bits() % static_cast<unsigned>(high - low + 1)); }

Text random_text(int low, int high, int symbols) {
  Text text(static_cast<std::size_t>(between(low, high)), U'a');
  for (char32_t& c : text) c = static_cast<char32_t>(U'a' + static_cast<unsigned>(between(0, symbols - 1)));
  return text;
}

/// Random words, near copies, duplicates.
std::vector<Text> some(std::size_t count, int low, int high, int symbols) {
  std::vector<Text> texts;
  while (texts.size() < count) {
    Text text = texts.empty() || between(0, 2) > 0
                    ? random_text(low, high, symbols)
                    : texts[static_cast<std::size_t>(between(0, static_cast<int>(texts.size()) - 1))];
    if (!text.empty() && between(0, 1) == 0)
      text[static_cast<std::size_t>(between(0, static_cast<int>(text.size()) - 1))] = U'a';
    texts.push_back(text);
  }
  return texts;
}

struct Case {
  PreparedMatrix words, queries;
  std::vector<std::int32_t> limits;
  std::vector<std::uint32_t> counts;
  std::vector<std::int64_t> begin;
  std::vector<unsigned long long> found;
  StringsArgs args;

  Case(const std::vector<Text>& corpus, const std::vector<Text>& asked, int symbols, std::int64_t room,
       bool without_self = false)
      : words(corpus), queries(asked), limits(asked.size(), 0), counts(asked.size(), 0),
        found(asked.size() * static_cast<std::size_t>(room) + 1, 0) {
    for (std::size_t i = 0; i <= asked.size(); ++i) begin.push_back(static_cast<std::int64_t>(i) * room);
    args = {.corpus = words.view(),
            .queries = queries.view(),
            .symbols = symbols + 1,
            .without_self = without_self,
            .thresholds = limits.data(),
            .counts = counts.data(),
            .begin = begin.data(),
            .matches = found.data()};
  }
  void near() {
    emulated::Launch launch;
    run_strings_near(launch, args, cuts_of(words, queries));
  }
  std::vector<unsigned long long> best(std::int64_t k) {
    std::vector<unsigned long long> keys(queries.rows.size() * static_cast<std::size_t>(k), 7);
    emulated::Launch launch;
    run_strings_select(launch, args, k, keys.data());
    return keys;
  }
  /// Every word within `limit` of the query at this position, in order.
  std::vector<unsigned long long> within(std::size_t query, std::int64_t limit) const {
    std::vector<unsigned long long> keys;
    for (std::size_t word = 0; word < words.texts.size(); ++word) {
      if (args.without_self && words.rows[word] == queries.rows[query]) continue;
      const std::int64_t distance = oracle::levenshtein(words.texts[word], queries.texts[query]);
      if (distance <= limit) keys.push_back(static_cast<unsigned long long>(distance) << row_bits | words.rows[word]);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  std::vector<unsigned long long> list(std::size_t query) const {
    const auto first = found.begin() + begin[query];
    std::vector<unsigned long long> keys(
        first, first + std::min<std::int64_t>(counts[query], begin[query + 1] - begin[query]));
    std::sort(keys.begin(), keys.end());
    return keys;
  }
};

struct Shape {
  std::size_t words, queries;
  int low, high, symbols;
};
const Shape shapes[] = {{700, 70, 0, 14, 5},   {300, 9, 25, 40, 4}, {270, 5, 50, 80, 3},
                        {60, 4, 100, 300, 20}, {40, 3, 0, 300, 2},  {1, 1, 0, 0, 1}};

TEST(StringKernels, ListsHoldWhatIsWithinTheLimit) {
  for (const Shape& shape : shapes)
    for (const int limit : {-1, 0, 2, 7, 40, 1 << 30}) {
      Case run(some(shape.words, shape.low, shape.high, shape.symbols),
               some(shape.queries, shape.low, shape.high, shape.symbols), shape.symbols,
               static_cast<std::int64_t>(shape.words));
      std::fill(run.limits.begin(), run.limits.end(), limit);
      run.limits[0] = 1;  // limits are the query's own
      run.near();
      for (std::size_t query = 0; query < shape.queries; ++query)
        ASSERT_EQ(run.list(query), run.within(query, run.limits[query]))
            << "lengths " << shape.low << " to " << shape.high << ", limit " << limit << ", query " << query
            << ", VICINAL_SIMT_SEED=" << simt::seed();
    }
}

TEST(StringKernels, NearestByAFirstLimit) {
  for (const Shape& shape : shapes)
    for (const std::int64_t k : {1, 5, 40}) {
      if (k >= static_cast<std::int64_t>(shape.words)) continue;
      const std::vector<Text> words = some(shape.words, shape.low, shape.high, shape.symbols);
      const bool graph = k == 5;
      Case run(words, graph ? words : some(shape.queries, shape.low, shape.high, shape.symbols), shape.symbols,
               static_cast<std::int64_t>(shape.words), graph);
      emulated::Launch launch;
      run_strings_thresholds(launch, run.args, k);
      run.near();
      const std::vector<unsigned long long> best = run.best(k);
      for (std::size_t query = 0; query < std::min<std::size_t>(run.queries.rows.size(), 40); ++query) {
        std::vector<unsigned long long> want = run.within(query, INT32_MAX);
        want.resize(static_cast<std::size_t>(k));
        const auto first = best.begin() + static_cast<std::ptrdiff_t>(query) * k;
        ASSERT_EQ(std::vector<unsigned long long>(first, first + k), want)
            << "lengths " << shape.low << " to " << shape.high << ", k " << k << ", query " << query
            << ", VICINAL_SIMT_SEED=" << simt::seed();
      }
    }
}

TEST(StringKernels, WhatFindsNoRoomIsCounted) {
  const std::vector<Text> words(300, U"same");
  Case run(words, {U"same", U"sane"}, 26, 10);
  run.limits = {0, 1};
  run.args.thresholds = run.limits.data();
  run.near();
  EXPECT_EQ(run.counts, (std::vector<std::uint32_t>{300, 300}));
  for (std::size_t query = 0; query < 2; ++query)
    for (const unsigned long long key : run.list(query)) EXPECT_EQ(key >> row_bits, query);
  const std::vector<unsigned long long> untouched(6, 7);
  EXPECT_EQ(run.best(3), untouched);  // the host's
}

TEST(StringKernels, WhatTheyCannotTake) {
  EXPECT_EQ(strings_refusal(256, 10, 1024, 5000), nullptr);
  EXPECT_NE(strings_refusal(257, 10, 10, 10), nullptr);
  EXPECT_NE(strings_refusal(20, 10, 1025, 10), nullptr);
  EXPECT_NE(strings_refusal(20, std::int64_t{1} << 32, 10, 10), nullptr);
}

}  // namespace
