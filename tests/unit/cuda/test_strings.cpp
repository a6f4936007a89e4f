// A whole search of strings by the device's code, on the emulator: src/cuda/strings/search.hpp with memory of the host, held against
// the CPU's search, entry by entry. Lists that are too long, batches, graphs, ranges, and what is left to the host.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "backend/backend.hpp"
#include "cuda/strings/search.hpp"
#include "unit/cuda/emulated_device.hpp"
#include "vicinal/search.hpp"

namespace {

using namespace vicinal;
using emulated::Device;

std::vector<std::string> some(unsigned seed, std::size_t count, unsigned low, unsigned high, unsigned symbols) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  while (texts.size() < count) {
    std::string text(low + random() % (high - low + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % symbols);
    texts.push_back(random() % 3 == 0 && !texts.empty() ? texts[random() % texts.size()] : text);
  }
  return texts;
}
StringList listed(const std::vector<std::string>& texts) {
  return {std::vector<std::string_view>(texts.begin(), texts.end()), Encoding::utf8};
}

struct Ask {
  std::int64_t k = 0, first_id = 0, batch = 4096, most_entries = 1 << 20, most = INT64_MAX;
  std::optional<double> radius = {};
  bool graph = false;
  Metric metric = Metric::levenshtein;
};
struct Candidate {
  std::vector<std::vector<Entry>> rows;
  std::int64_t entries = 0, by_host = 0;
};

Candidate by_device(const StringList& corpus, const StringList& queries, const Ask& ask) {
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Alphabet alphabet;
  const auto lengths = alphabet.read(corpus.view(), "corpus", 1 << 20, thread_pool);
  const auto query_lengths = alphabet.read(queries.view(), "query", 1 << 20, thread_pool);
  const StringSet words(corpus.view(), lengths, alphabet, thread_pool),
      asked(queries.view(), query_lengths, alphabet, thread_pool);
  const RowFilter filter(Eligible{}, corpus.rows(), 0, ask.graph);
  const StringSearchSpec spec{.corpus = words,
                              .queries = asked,
                              .alphabet = alphabet,
                              .metric = ask.metric,
                              .k = ask.k,
                              .first_id = ask.first_id,
                              .filter = filter,
                              .radius = ask.radius,
                              .most = ask.most};
  StringSearchSpec shorter = spec, longer = spec;
  longer.first_query = shorter.last_query = cuda::share_of_strings(spec).end;
  Device device;
  Candidate found;
  found.rows.resize(static_cast<std::size_t>(queries.rows()));
  found.by_host = queries.rows() - longer.first_query;
  std::vector<int> answers(found.rows.size());
  const StringAnswer answer = [&](std::int64_t row, std::span<const Entry> entries) {
    found.rows[static_cast<std::size_t>(row)].assign(entries.begin(), entries.end());
    ++answers[static_cast<std::size_t>(row)];
  };
  if (shorter.last_query > 0)
    found.entries = cuda::StringsSearch<Device>(device, shorter, thread_pool, ask.batch, ask.most_entries).run(answer);
  EXPECT_TRUE(device.held.empty());
  if (found.by_host > 0) {  // as src/pipeline/strings.cpp goes on
    Plan plan;
    plan.instruction_set = cpu_backend().device().facts().instruction_sets.front();
    plan.threads = 1;
    cpu_backend().strings()->shape_strings(
        plan, {.rows = corpus.rows(), .queries = queries.rows(), .alphabet = alphabet.size()}, ask.metric, ask.k,
        ask.radius.has_value());
    Stats stats;
    found.entries += cpu_backend().strings()->search_strings(longer, plan, answer, thread_pool, stats);
  }
  if (found.entries <= ask.most) {
    EXPECT_EQ(answers, std::vector<int>(answers.size(), 1));
  }
  return found;
}

void check(const std::vector<std::string>& corpus, const std::vector<std::string>& queries, const Ask& ask) {
  const StringList c = listed(corpus), q = listed(queries);
  KnnOptions options;
  options.metric = Metric::levenshtein;
  options.first_id = ask.first_id;
  options.k = ask.k;
  const Candidate got = by_device(c, q, ask);
  const auto same = [&](const auto& want, std::int64_t row, std::int64_t count) {
    const std::vector<Entry>& entries = got.rows[static_cast<std::size_t>(row)];
    ASSERT_EQ(static_cast<std::int64_t>(entries.size()), count) << "row " << row;
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(entries[static_cast<std::size_t>(i)].id, want.id(row, i)) << "row " << row << " rank " << i;
      ASSERT_EQ(entries[static_cast<std::size_t>(i)].key, want.distance(row, i)) << "row " << row << " rank " << i;
    }
  };
  if (ask.radius) {
    const CsrNeighbors want = range_search(c.view(), q.view(), *ask.radius, {.search = options});
    EXPECT_EQ(got.entries, want.entries());
    for (std::int64_t row = 0; row < want.rows(); ++row) same(want, row, want.count(row));
  } else {
    const Neighbors want = ask.graph ? knn_graph(c.view(), {.search = options}) : knn(c.view(), q.view(), options);
    for (std::int64_t row = 0; row < want.rows(); ++row) same(want, row, ask.k);
  }
}

TEST(CudaStrings, NearestInBatchesAndLists) {
  const auto words = some(1, 600, 0, 12, 6), queries = some(2, 50, 0, 12, 7);
  check(words, queries, {.k = 5, .first_id = 1000});
  check(words, queries, {.k = 5, .batch = 7});
  check(words, queries, {.k = 5, .batch = 50, .most_entries = 300});   // six places a list: most are too long
  check(words, queries, {.k = 40, .batch = 50, .most_entries = 900});  // fewer places than k
  check(words, queries, {.k = 600, .batch = 20, .most_entries = 5000});
}

TEST(CudaStrings, LongOnesAndGraphs) {
  check(some(3, 60, 0, 180, 3), some(4, 9, 0, 300, 3), {.k = 4});
  const auto rows = some(5, 200, 3, 8, 3);
  check(rows, rows, {.k = 3, .graph = true});
  check(std::vector<std::string>(70, "same"), {"same", "sane"}, {.k = 9, .batch = 2, .most_entries = 40});
}

TEST(CudaStrings, Ranges) {
  const auto words = some(6, 400, 0, 20, 4), queries = some(7, 30, 0, 20, 4);
  for (const double radius : {-1.0, 0.0, 1.0, 2.5, 9.0, 1e300})
    check(words, queries, {.batch = 11, .most_entries = 100, .radius = radius});
  const Candidate many = by_device(listed(words), listed(queries), {.most = 10, .radius = 3});
  EXPECT_GT(many.entries, 10);
}

TEST(CudaStrings, QueriesThatAreTooLongAreLeftToTheHost) {
  auto queries = some(8, 12, 0, 60, 3);
  for (const unsigned length : {1023u, 1024u, 1025u, 1100u})
    queries.push_back(some(length, 1, length, length, 3).front());
  const auto words = some(9, 40, 0, 90, 3);
  check(words, queries, {.k = 4, .first_id = 10});
  check(words, queries, {.batch = 5, .radius = 1000});
  EXPECT_EQ(by_device(listed(words), listed(queries), {.k = 4}).by_host, 2);
}

TEST(CudaStrings, WhatIsLeftToTheHostAltogether) {
  const StringList words = listed({"one", "two", "three"});
  EXPECT_EQ(by_device(words, words, {.k = 1}).by_host, 0);
  EXPECT_EQ(by_device(words, words, {.k = 1, .metric = Metric::normalized_levenshtein}).by_host, 3);
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(0xC4 + i / 64);
    all += static_cast<char>(0x80 + i % 64);
  }
  check({all, "one", "two"}, {"ones", "w", all}, {.k = 2});
  EXPECT_EQ(by_device(listed({all}), words, {.k = 1}).by_host, 3);
}

}  // namespace
