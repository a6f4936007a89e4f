// Eligible rows: a search with any filter is the search of the eligible rows alone, under the ids of the whole corpus.
// The filters are chosen at random and against the search: what it would find first may not be in the answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <regex>
#include <tuple>

#include "conformance/families.hpp"
#include "conformance/lists.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;
using vicinal::KnnOptions;
using Labels = vicinal::Eligible::Labels;

KnnOptions ask(Metric metric, std::int64_t k) {
  KnnOptions options;
  options.metric = metric;
  options.k = k;
  options.degenerate = vicinal::Degenerate::one;
  return options;
}

class EligibleRows : public testing::TestWithParam<Kind> {
 protected:
  Rng rng{600 + static_cast<std::uint64_t>(GetParam().metric) * 7 + static_cast<std::uint64_t>(GetParam().dtype)};
  Table table(std::int64_t n, std::int64_t d) { return mixed_table(rng, GetParam().dtype, n, d); }

  static std::string check_all(const Table& corpus, const Table& queries, const KnnOptions& options,
                               const oracle::Answer& want, const Setting& setting) {
    const vicinal::Points c = corpus.points(), q = queries.points();
    const KnnOptions applied = apply(
        setting, options, [&](const KnnOptions& probe) { return vicinal::plan(shape_of(c), shape_of(q), probe); });
    return check(c, q, applied, want);
  }
};

TEST_P(EligibleRows, EveryConditionInEverySetting) {
  const Table corpus = table(710, 21), queries = table(9, 21);
  // A third of the settings for each condition, another third for each kind: all pairs meet somewhere.
  std::size_t turn = static_cast<std::size_t>(GetParam().metric) + static_cast<std::size_t>(GetParam().dtype);
  const std::vector<Setting> settings = every_setting();
  for (const Condition condition : all_conditions) {
    KnnOptions options = ask(GetParam().metric, 17);
    options.pad = true;
    options.first_id = rng.pick(std::vector<std::int64_t>{0, 7, std::int64_t{1} << 40});
    const Filter filter = make_filter(rng, condition, corpus.n, queries.n, options.first_id);
    oracle::SearchSpec asked = spec(options);
    filter.put(options, asked);
    const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), asked);
    for (std::size_t i = 0; i < settings.size(); ++i)
      if ((i + i / 3 + i / 9 + turn) % 3 == 0) {
        EXPECT_EQ(check_all(corpus, queries, options, want, settings[i]), "")
            << filter.name << " " << settings[i].text();
      }
    ++turn;
    for (const std::string& precision : filters())
      EXPECT_EQ(check_all(corpus, queries, options, want, {"auto", precision}), "") << filter.name << " " << precision;
    EXPECT_EQ(check_all(corpus, queries, options, want, {"auto", "auto", 2, Memory::ample, vicinal::Proof::exhaustive}),
              "")
        << filter.name << " exhaustive";
  }
}

TEST_P(EligibleRows, APreparedCorpusFiltersToo) {
  const Table corpus = table(600, 12), queries = table(7, 12);
  const vicinal::CorpusOptions kept{.metric = GetParam().metric, .degenerate = vicinal::Degenerate::one};
  const vicinal::Corpus prepared(corpus.points(), kept);
  vicinal::CorpusOptions tight = kept;
  tight.memory.host = 1 << 20;
  const vicinal::Corpus streamed(corpus.points(), tight);
  const auto plain = prepared.knn(queries.points(), ask(GetParam().metric, 20));
  for (int round = 0; round < 3; ++round)
    for (const Condition condition : all_conditions) {
      KnnOptions options = ask(GetParam().metric, rng.log_between(1, 100));
      options.pad = true;
      options.first_id = rng.pick(std::vector<std::int64_t>{0, 500});
      options.run.threads = rng.pick(all_threads);
      const Filter filter = make_filter(rng, condition, corpus.n, queries.n, options.first_id);
      oracle::SearchSpec asked = spec(options);
      filter.put(options, asked);
      const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), asked);
      EXPECT_EQ(difference(prepared.knn(queries.points(), options), want), "") << filter.name;
      EXPECT_EQ(difference(streamed.knn(queries.points(), options), want), "") << filter.name << " streamed";
      const std::int64_t cells = queries.n * options.k;
      vicinal::Neighbors into(queries.n, options.k, want.type, true);
      prepared.knn_into(into.view(), queries.points(), options);
      std::vector<std::int64_t> ids(into.ids(), into.ids() + cells);
      EXPECT_EQ(ids, want.ids) << filter.name << " into";
      EXPECT_EQ(std::vector<std::int64_t>(into.counts(), into.counts() + queries.n), want.counts) << filter.name;
    }
  // A filter is of its own search: nothing of it stays.
  EXPECT_EQ(difference(prepared.knn(queries.points(), ask(GetParam().metric, 20)), plain), "");
}

// The rows that a search meets first, and that fill its lists and tighten its thresholds, are the ones that may not be.
TEST_P(EligibleRows, TheNearestRowsMayNotBeInTheAnswer) {
  const Table corpus = table(900, 10), queries = table(5, 10);
  KnnOptions options = ask(GetParam().metric, 12);
  const oracle::Rows c = corpus.rows(), q = queries.rows();
  const oracle::Keys keys(c, q, spec(options));
  for (const std::size_t barred : {1, 12, 100, 880}) {
    std::vector<bool> rows(900, true);
    const auto order = oracle::ranked(keys, c.n, 0, spec(options));
    for (std::size_t j = 0; j < barred; ++j) rows[static_cast<std::size_t>(order[j].id)] = false;
    const Filter filter = only_rows(rows);
    oracle::SearchSpec asked = spec(options);
    filter.put(options, asked);
    const oracle::Answer want = oracle::knn(c, q, asked);
    for (const std::string& set : instruction_sets())
      for (const int threads : all_threads)
        EXPECT_EQ(check_all(corpus, queries, options, want,
                            {set, filters().front(), threads, rng.pick(all_memory), vicinal::Proof::certified}),
                  "")
            << barred << " nearest barred, " << set << " threads " << threads;
  }
}

// The same rows cut out, searched alone and given their old ids.
TEST_P(EligibleRows, AreTheSearchOfARowsTakenOut) {
  const Table corpus = table(640, 15), queries = table(6, 15);
  const std::size_t bytes = corpus.bytes.size() / 640;
  for (const double share : {0.01, 0.1, 0.5, 0.99}) {
    Table alone = corpus;
    std::vector<bool> rows(640);
    std::vector<std::int64_t> old_id;
    alone.bytes.clear();
    for (std::size_t i = 0; i < 640; ++i) {
      rows[i] = i == 639 || rng.chance(share);
      if (!rows[i]) continue;
      old_id.push_back(static_cast<std::int64_t>(i));
      alone.bytes.insert(alone.bytes.end(), corpus.bytes.begin() + static_cast<std::ptrdiff_t>(i * bytes),
                         corpus.bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
    }
    alone.n = static_cast<std::int64_t>(old_id.size());
    KnnOptions options = ask(GetParam().metric, std::min<std::int64_t>(alone.n, 25));
    const auto cut = vicinal::knn(alone.points(), queries.points(), options);
    const Filter filter = only_rows(rows);
    options.eligible = filter.view();
    const auto got = vicinal::knn(corpus.points(), queries.points(), options);
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t j = 0; j < options.k; ++j) {
        ASSERT_EQ(got.id(i, j), old_id[static_cast<std::size_t>(cut.id(i, j))]) << "share " << share;
        ASSERT_EQ(got.distance(i, j), cut.distance(i, j)) << "share " << share;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EligibleRows, testing::ValuesIn(all_kinds()), [](const auto& kind) {
  return metric_name(kind.param.metric) + "_" + vicinal::dtype_name(kind.param.dtype);
});

// Tables for the refusals: ten rows, three queries.
class EligibleErrors : public testing::Test {
 protected:
  Rng rng{650};
  Table corpus = mixed_table(rng, DType::f32, 10, 4), queries = mixed_table(rng, DType::f32, 3, 4);
  Refusal refused(const KnnOptions& options) {
    const Refusal whole = refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); });
    const vicinal::Corpus prepared(corpus.points(), {.metric = options.metric});
    const Refusal kept = refusal([&] { prepared.knn(queries.points(), options); });
    EXPECT_EQ(whole.code, kept.code) << whole.message << " / " << kept.message;
    vicinal::RangeOptions range;
    range.search = options;
    const Refusal within = refusal([&] { vicinal::range_search(corpus.points(), queries.points(), 1e9, range); });
    if (options.k <= 1) {
      EXPECT_EQ(whole.code, within.code) << whole.message << " / " << within.message;
    }
    return whole;
  }
  static bool says(const Refusal& got, const std::string& pattern) {
    return std::regex_search(got.message, std::regex(pattern)) && got.message.find('\n') == std::string::npos;
  }
};

TEST_F(EligibleErrors, KBeyondTheEligibleRows) {
  KnnOptions options = ask(Metric::euclidean, 5);
  options.eligible.first = 4, options.eligible.last = 7;
  Refusal got = refused(options);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "k=5 exceeds 4 eligible rows.*pad")) << got.message;
  options.k = 4;
  EXPECT_FALSE(refused(options).code);
  const std::vector<std::int64_t> ids = {9, 2, 2, 77, 1000000};
  options.eligible = {};
  options.eligible.ids = ids;
  options.k = 3;
  got = refused(options);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "k=3 exceeds 2 eligible rows.*pad")) << got.message;
  options.eligible = {};
  options.eligible.first = 70;
  options.k = 1;
  got = refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); });
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "k=1 exceeds 0 eligible rows.*pad")) << got.message;
}

TEST_F(EligibleErrors, RangesOfIdsThatAreNone) {
  for (const auto& [first, last] : {std::pair{8, 3}, std::pair{-1, 5}}) {
    KnnOptions options = ask(Metric::euclidean, 1);
    options.eligible.first = first;
    options.eligible.last = last;
    EXPECT_EQ(refused(options).code, ErrorCode::invalid_argument) << first << " to " << last;
  }
}

TEST_F(EligibleErrors, AQueryWhoseLabelLeavesItFewerThanK) {
  const std::vector<std::int64_t> of_rows = {1, 1, 1, 1, 1, 1, 2, 2, 2, -5}, of_queries = {1, 2, -5};
  KnnOptions options = ask(Metric::euclidean, 3);
  options.eligible.labels = Labels::same;
  options.eligible.corpus_labels = of_rows;
  options.eligible.query_labels = of_queries;
  const Refusal got = refused(options);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "k=3 exceeds 1 eligible row.*pad")) << got.message;
  options.pad = true;
  const auto padded = vicinal::knn(corpus.points(), queries.points(), options);
  ASSERT_NE(padded.counts(), nullptr);
  EXPECT_EQ(padded.counts()[0], 3);
  EXPECT_EQ(padded.counts()[1], 3);
  EXPECT_EQ(padded.counts()[2], 1);
  EXPECT_EQ(padded.id(2, 0), 9);
  EXPECT_EQ(padded.id(2, 1), -1);
  options.pad = false;
  options.eligible.labels = Labels::other;
  EXPECT_FALSE(refused(options).code);
  options.k = 5;
  EXPECT_TRUE(says(refused(options), "k=5 exceeds 4 eligible rows.*pad"));
}

TEST_F(EligibleErrors, NegativeIdsShortBitmapsAndLabelsOfAnotherLength) {
  KnnOptions options = ask(Metric::euclidean, 1);
  const std::vector<std::int64_t> negative = {3, -1, 4};
  options.eligible.ids = negative;
  Refusal got = refused(options);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "-1")) << got.message;

  // A mask in integers would name rows 0 and 1; two ids are ids, and parts of the rows decide as all of them do.
  corpus = mixed_table(rng, DType::f32, 5120, 4);
  std::vector<std::int64_t> zeros_and_ones(2560, 1);
  zeros_and_ones[7] = 0;
  for (const char* device : {"cpu", "cpu,cpu"})
    for (const auto& [ids, wrong] : {std::pair{std::vector<std::int64_t>{0, 1}, false},
                                     {{1, 0, 1}, true},
                                     {{1, 0, 2}, false},
                                     {zeros_and_ones, true}}) {
      options.run.device = device;
      options.eligible = {};
      options.eligible.ids = ids;
      got = refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); });
      EXPECT_EQ(got.code == ErrorCode::invalid_argument, wrong) << device << " " << ids.size() << ": " << got.message;
      EXPECT_EQ(says(got, "all 0 or 1: a mask has bools"), wrong) << got.message;
    }
  options.run.device = "cpu";

  corpus = mixed_table(rng, DType::f32, 200, 4);
  const std::vector<std::uint64_t> words(3, ~std::uint64_t{0});  // 192 rows of 200
  options.eligible = {};
  options.eligible.bitmap = words;
  got = refused(options);
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_TRUE(says(got, "(3|192) .*(4|200) |(4|200) .*(3|192) ")) << got.message << ": both lengths";
  options.eligible.bitmap = std::span<const std::uint64_t>{};
  EXPECT_EQ(refused(options).code, ErrorCode::invalid_argument);

  const std::vector<std::int64_t> rows(200, 1), few(199, 1), many(201, 1), three(3, 1), two(2, 1), four(4, 1);
  for (const auto& [of_rows, of_queries] :
       {std::pair{&few, &three}, std::pair{&many, &three}, std::pair{&rows, &two}, std::pair{&rows, &four}}) {
    options.eligible = {};
    options.eligible.labels = Labels::same;
    options.eligible.corpus_labels = *of_rows;
    options.eligible.query_labels = *of_queries;
    got = refused(options);
    EXPECT_EQ(got.code, ErrorCode::invalid_argument);
    const bool rows_wrong = of_rows->size() != 200;
    EXPECT_TRUE(says(got, std::to_string(rows_wrong ? of_rows->size() : of_queries->size()))) << got.message;
    EXPECT_TRUE(says(got, rows_wrong ? "200" : "3")) << got.message;
  }
  options.eligible.corpus_labels = {};
  EXPECT_EQ(refused(options).code, ErrorCode::invalid_argument) << "a rule without labels";
}

// Data are checked whole: a row that may not be in the answer may not be nonsense either.
TEST_F(EligibleErrors, NaNInARowThatMayNotBeInTheAnswer) {
  corpus.set(8, 1, std::nan(""));
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::l1})
    for (const std::string& precision : filters()) {
      KnnOptions options = ask(metric, 2);
      options.run.filter = precision;
      options.eligible.last = 5;
      const Refusal got = refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); });
      EXPECT_EQ(got.code, ErrorCode::invalid_value) << metric_name(metric) << " " << precision;
      EXPECT_TRUE(says(got, "corpus row 8, column 1 is NaN")) << got.message;
      vicinal::RangeOptions range;
      range.search = options;
      EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), queries.points(), 1, range); }).code,
                ErrorCode::invalid_value);
      vicinal::GraphOptions graph;
      graph.search = options;
      EXPECT_EQ(refusal([&] { vicinal::knn_graph(corpus.points(), graph); }).code, ErrorCode::invalid_value);
    }
}

// A value beyond its type is an error of what is returned, and these rows are not.
TEST_F(EligibleErrors, OverflowOfRowsThatMayNotBeInTheAnswer) {
  corpus.set(3, 0, 1e30);
  KnnOptions options = ask(Metric::sqeuclidean, 9);
  std::vector<bool> rows(10, true);
  rows[3] = false;
  const Filter filter = only_rows(rows);
  options.eligible = filter.view();
  EXPECT_FALSE(refused(options).code);
  options.eligible = {};
  options.k = 10;
  EXPECT_EQ(refused(options).code, ErrorCode::range_error);
}

TEST(EligibleFamilies, HostileDataWithHostileFilters) {
  const std::uint64_t seed = seed_or(20250711);
  std::int64_t cases = 0;
  for (std::size_t number = 0; number < families().size() * static_cast<std::size_t>(scaled(12)); ++number) {
    Rng rng(seed * 1000003 + number);
    const Family& family = families()[number % families().size()];
    const Kind kind = rng.pick(all_kinds());
    Scene s;
    s.dtype = kind.dtype, s.metric = kind.metric;
    s.n = rng.log_between(1, 1500), s.q = rng.log_between(1, 8), s.d = rng.log_between(1, 80);
    while (s.n * s.q * s.d > 150000) (s.q > 2 ? s.q : s.d > 2 ? s.d : s.n) /= 2;
    s.k = rng.log_between(1, s.n);
    s.resize(s.d);
    family.fill(rng, s);
    Table corpus, queries;
    std::tie(corpus, queries) = to_tables(s);
    KnnOptions options = ask(kind.metric, s.k);
    options.pad = true;
    oracle::SearchSpec asked = spec(options);
    const oracle::Rows c = corpus.rows(), q = queries.rows();
    const oracle::Keys keys(c, q, asked);
    Filter filter = make_filter(rng, rng.pick(all_conditions), corpus.n, queries.n);
    if (!keys.error && rng.chance(0.5)) {  // the nearest of query 0 barred; or all but the last in order
      const auto order = oracle::ranked(keys, c.n, 0, asked);
      const auto barred = rng.chance(0.3) ? c.n - 1 : rng.between(0, std::min(c.n - 1, 2 * s.k));
      std::vector<bool> rows(order.size(), true);
      for (std::int64_t j = 0; j < barred; ++j)
        rows[static_cast<std::size_t>(order[static_cast<std::size_t>(j)].id)] = false;
      filter = only_rows(rows);
    }
    filter.put(options, asked);
    const Setting setting = random_setting(rng);
    const KnnOptions applied = apply(setting, options, [&](const KnnOptions& probe) {
      return vicinal::plan(shape_of(corpus.points()), shape_of(queries.points()), probe);
    });
    ++cases;
    ASSERT_EQ(check(corpus.points(), queries.points(), applied, oracle::knn(c, q, asked)), "")
        << "family " << family.name << ", seed " << seed << ", case " << number << ", " << filter.name
        << ", n=" << corpus.n << " Q=" << queries.n << " d=" << corpus.d << " k=" << s.k << ", " << kind.text() << ", "
        << setting.text();
  }
  std::printf("%lld cases of hostile data with filters\n", static_cast<long long>(cases));
}

}  // namespace
}  // namespace conformance
