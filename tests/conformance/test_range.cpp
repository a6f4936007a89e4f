// Range search against the oracle: every row whose returned value is within the radius and no other, in the total
// order, whatever the instruction set, threads, memory and layout; radii on a returned value and beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "conformance/lists.hpp"

namespace conformance {
namespace {
using vicinal::CsrNeighbors;
using vicinal::ErrorCode;
using vicinal::RangeOptions;

const double infinite = INFINITY;

RangeOptions ask(Metric metric) {
  RangeOptions options;
  options.search.metric = metric;
  options.search.degenerate = vicinal::Degenerate::one;  // one-column rows are constant
  return options;
}
oracle::Lists expected(const Table& corpus, const Table& queries, double radius, const RangeOptions& options) {
  return oracle::range(corpus.rows(), queries.rows(), radius, spec(options.search));
}
/// The returned value at `rank` of the first query (the last, where there are fewer).
double value_at(const Table& corpus, const Table& queries, std::int64_t rank, const RangeOptions& options) {
  const oracle::Rows c = corpus.rows(), q = queries.rows();
  const oracle::SearchSpec asked = spec(options.search);
  const auto all = oracle::ranked(oracle::Keys(c, q, asked), c.n, 0, asked);
  return all[static_cast<std::size_t>(std::min(rank, c.n - 1))].key;
}

class Range : public testing::TestWithParam<Kind> {
 protected:
  Rng rng{500 + static_cast<std::uint64_t>(GetParam().metric) * 7 + static_cast<std::uint64_t>(GetParam().dtype)};
  Table table(std::int64_t n, std::int64_t d) { return mixed_table(rng, GetParam().dtype, n, d); }
  RangeOptions options = ask(GetParam().metric);
  bool larger_is_nearer = GetParam().metric == Metric::inner_product;
};

TEST_P(Range, EverySettingHasTheBitsOfTheOracle) {
  const Table corpus = table(710, 37), queries = table(9, 37);
  for (const std::int64_t rank : {4, 300}) {
    const double radius = value_at(corpus, queries, rank, options);
    const oracle::Lists want = expected(corpus, queries, radius, options);
    ASSERT_FALSE(want.error);
    ASSERT_GT(want.ids.size(), static_cast<std::size_t>(rank));
    for (const Setting& setting : every_setting())
      EXPECT_EQ(check_range(setting, corpus.points(), queries.points(), radius, options, want), "")
          << setting.text() << " radius " << radius;
    for (const std::string& filter : filters())
      EXPECT_EQ(check_range({"auto", filter}, corpus.points(), queries.points(), radius, options, want), "") << filter;
    const Setting exhaustive{"auto", "auto", 2, Memory::third, vicinal::Proof::exhaustive};
    EXPECT_EQ(check_range(exhaustive, corpus.points(), queries.points(), radius, options, want), "") << "exhaustive";
  }
}

// Inclusive on the returned value, compared as fp64: the next double decides, however narrow the returned type is.
TEST_P(Range, RadiusOnAReturnedValueAndBesideIt) {
  const Table corpus = table(400, 11), queries = table(5, 11);
  for (const std::int64_t rank : {0, 1, 17, 100, 399}) {
    const double at = value_at(corpus, queries, rank, options);
    const double narrow_up = std::nextafter(static_cast<float>(at), INFINITY);
    const double narrow_down = std::nextafter(static_cast<float>(at), -INFINITY);
    for (const double radius : {at, std::nextafter(at, infinite), std::nextafter(at, -infinite), narrow_up, narrow_down,
                                at / 2 + narrow_up / 2, at / 2 + narrow_down / 2}) {
      const oracle::Lists want = expected(corpus, queries, radius, options);
      for (const std::string& filter : filters())
        EXPECT_EQ(check_range({rng.pick(instruction_sets()), filter}, corpus.points(), queries.points(), radius,
                              options, want),
                  "")
            << "rank " << rank << " radius " << radius << " filter " << filter;
    }
  }
}

TEST_P(Range, RadiiWithoutANumberOfTheirOwn) {
  const Table corpus = table(150, 7), queries = table(4, 7);
  for (const double radius : {0.0, -0.0, -1e-300, -1.0, -5e3, infinite, -infinite, 5e-324, 1e308}) {
    const oracle::Lists want = expected(corpus, queries, radius, options);
    EXPECT_EQ(check_range(corpus.points(), queries.points(), radius, options, want), "") << "radius " << radius;
    EXPECT_TRUE(larger_is_nearer || radius >= 0 || want.ids.empty());
    EXPECT_TRUE(radius != (larger_is_nearer ? -infinite : infinite) || want.ids.size() == 600u);
  }
  EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), queries.points(), std::nan(""), options); }).code,
            ErrorCode::invalid_argument);
}

TEST_P(Range, TheKthValueAsRadiusContainsTheKNearest) {
  const Table corpus = table(600, 13), queries = table(6, 13);
  for (const std::int64_t k : {1, 10, 64, 300}) {
    vicinal::KnnOptions search = options.search;
    search.k = k;
    const vicinal::Neighbors nearest = vicinal::knn(corpus.points(), queries.points(), search);
    for (std::int64_t i = 0; i < queries.n; ++i) {
      const double radius = nearest.distance(i, k - 1);
      const CsrNeighbors got = vicinal::range_search(corpus.points(), queries.points().slice(i, 1), radius, options);
      ASSERT_GE(got.count(0), k);
      for (std::int64_t j = 0; j < k; ++j) {
        ASSERT_EQ(got.id(0, j), nearest.id(i, j)) << "query " << i << " rank " << j;
        ASSERT_EQ(got.distance(0, j), nearest.distance(i, j));
      }
      for (std::int64_t j = k; j < got.count(0); ++j) ASSERT_EQ(got.distance(0, j), radius) << "only ties follow";
    }
  }
}

TEST_P(Range, EveryLayoutAndOutputType) {
  const Table corpus = table(300, 19), queries = table(7, 19);
  for (const auto type : {vicinal::DistanceType::automatic, vicinal::DistanceType::f32, vicinal::DistanceType::f64}) {
    if (GetParam().metric == Metric::hamming && type != vicinal::DistanceType::automatic) continue;
    options.search.distance_type = type;
    const double radius = value_at(corpus, queries, 60, options);
    const oracle::Lists want = expected(corpus, queries, radius, options);
    EXPECT_EQ(check_range(corpus.points(), queries.points(), radius, options, want), "");
    for (const Layout layout : all_layouts) {
      const Arranged c(corpus, layout), q(queries, layout);
      const Setting setting{rng.pick(instruction_sets()), filters().front(), rng.pick(all_threads),
                            rng.pick(all_memory), vicinal::Proof::certified};
      for (const auto& [left, right] :
           {std::pair{c.points, q.points}, std::pair{c.points, queries.points()}, std::pair{corpus.points(), q.points}})
        EXPECT_EQ(check_range(setting, left, right, radius, options, want), "")
            << layout_name(layout) << " " << setting.text();
    }
  }
}

TEST_P(Range, PartsPutTogetherAreTheWhole) {
  const Table corpus = table(500, 10), queries = table(8, 10);
  const double radius = value_at(corpus, queries, 150, options);
  const oracle::Lists want = expected(corpus, queries, radius, options);
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    std::vector<std::vector<oracle::Entry>> entries(8);
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t first = corpus.n * p / parts, last = corpus.n * (p + 1) / parts;
      options.search.first_id = first;
      options.search.run.threads = rng.pick(all_threads);
      const CsrNeighbors part =
          vicinal::range_search(corpus.points().slice(first, last - first), queries.points(), radius, options);
      for (std::int64_t i = 0; i < 8; ++i)
        for (std::int64_t j = 0; j < part.count(i); ++j)
          entries[static_cast<std::size_t>(i)].push_back({part.distance(i, j), part.id(i, j)});
    }
    oracle::Lists joined;
    for (auto& row : entries) {
      std::sort(row.begin(), row.end(), [&](const oracle::Entry& a, const oracle::Entry& b) {
        if (a.key != b.key) return larger_is_nearer ? a.key > b.key : a.key < b.key;
        return a.id < b.id;
      });
      for (const oracle::Entry& entry : row) joined.append(entry);
      joined.end_row();
    }
    EXPECT_EQ(joined.offsets, want.offsets) << parts << " parts";
    EXPECT_EQ(joined.ids, want.ids) << parts << " parts";
    EXPECT_EQ(joined.keys, want.keys) << parts << " parts";
  }
}

TEST_P(Range, NoQueriesAndNoRowsAreEmptyAnswers) {
  const Table corpus = table(20, 4), queries = table(5, 4);
  for (const double radius : {-1.0, 0.0, 3.0, infinite, -infinite}) {
    const CsrNeighbors none = vicinal::range_search(corpus.points(), queries.points().slice(0, 0), radius, options);
    EXPECT_EQ(none.rows(), 0);
    EXPECT_EQ(none.entries(), 0);
    const CsrNeighbors empty = vicinal::range_search(corpus.points().slice(0, 0), queries.points(), radius, options);
    ASSERT_EQ(empty.rows(), 5);
    EXPECT_EQ(empty.entries(), 0);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(empty.count(i), 0);
  }
}

TEST_P(Range, EveryConditionOnTheRows) {
  for (const Condition condition : all_conditions)
    for (const std::int64_t n : {1, 65, 700}) {
      options.search.first_id = rng.pick(std::vector<std::int64_t>{0, 1000, std::int64_t{1} << 40});
      const Table corpus = table(n, rng.between(1, 20)), queries = table(6, corpus.d);
      const double radius = value_at(corpus, queries, rng.between(0, n), options);
      const Filter filter = make_filter(rng, condition, n, 6, options.search.first_id);
      oracle::SearchSpec asked = spec(options.search);
      filter.put(options.search, asked);
      const Setting setting = random_setting(rng);
      EXPECT_EQ(check_range(setting, corpus.points(), queries.points(), radius, options,
                            oracle::range(corpus.rows(), queries.rows(), radius, asked)),
                "")
          << filter.name << " n=" << n << " radius " << radius << " " << setting.text();
    }
}

INSTANTIATE_TEST_SUITE_P(All, Range, testing::ValuesIn(all_kinds()), [](const auto& kind) {
  return metric_name(kind.param.metric) + "_" + vicinal::dtype_name(kind.param.dtype);
});

TEST(RangeShapes, SampledAroundEveryEdge) {
  const std::uint64_t seed = seed_or(7201);
  const std::vector<std::int64_t> edges = {1,   2,   31,  32,  33,  63,  64,  65,  127,
                                           128, 129, 255, 256, 257, 511, 512, 513, 1025},
                                  ds = {1, 2, 3, 4, 5, 6, 7, 8, 31, 32, 33, 128, 784};
  for (std::int64_t trial = 0; trial < scaled(300); ++trial) {
    Rng rng(seed * 7919 + static_cast<std::uint64_t>(trial));
    const Kind kind = rng.pick(all_kinds());
    std::int64_t n = 0, q = 0, d = 0;
    do n = rng.pick(edges), q = rng.chance(0.7) ? rng.between(1, 12) : rng.pick(edges), d = rng.pick(ds);
    while (n * q * d > 2000000);
    const Table corpus = mixed_table(rng, kind.dtype, n, d), queries = mixed_table(rng, kind.dtype, q, d);
    const RangeOptions options = ask(kind.metric);
    const double radius = value_at(corpus, queries, rng.log_between(1, n), options);
    const Setting setting = random_setting(rng);
    ASSERT_EQ(check_range(setting, corpus.points(), queries.points(), radius, options,
                          expected(corpus, queries, radius, options)),
              "")
        << "seed " << seed << " trial " << trial << " n=" << n << " Q=" << q << " d=" << d << " radius " << radius
        << " " << kind.text() << " " << setting.text();
  }
}

// Results far larger than the memory that finds them.
TEST(RangeLarge, EveryRowOfManyQueriesInLittleMemory) {
  Rng rng(81), share(25);
  for (const Kind kind : {Kind{Metric::euclidean, DType::f32}, Kind{Metric::inner_product, DType::f64},
                          Kind{Metric::l1, DType::i8}, Kind{Metric::hamming, DType::u8}}) {
    const Table corpus = mixed_table(rng, kind.dtype, 3000, 12), queries = mixed_table(rng, kind.dtype, 300, 12);
    const RangeOptions options = ask(kind.metric);
    const double all = kind.metric == Metric::inner_product ? -infinite : infinite;
    const oracle::Lists want = expected(corpus, queries, all, options);
    ASSERT_EQ(want.ids.size(), 900000u);
    for (const Memory memory : all_memory)
      for (const int threads : all_threads) {
        if (!in_share(share, 0.15)) continue;
        EXPECT_EQ(check_range({"auto", filters().front(), threads, memory, vicinal::Proof::certified}, corpus.points(),
                              queries.points(), all, options, want),
                  "")
            << kind.text() << " " << memory_name(memory) << " threads " << threads;
      }
  }
}

TEST(RangeLarge, OneQueryTakesAllAndItsNeighboursNothing) {
  Rng rng(82);
  const Table corpus = gaussian(rng, DType::f32, 4000, 16, 0, 0.01);
  Table queries = gaussian(rng, DType::f32, 40, 16, 500, 1);
  for (std::int64_t j = 0; j < 16; ++j) queries.set(23, j, 0);
  const RangeOptions options = ask(Metric::euclidean);
  for (const Memory memory : all_memory)
    EXPECT_EQ(check_range({"auto", filters().front(), 2, memory, vicinal::Proof::certified}, corpus.points(),
                          queries.points(), 1.0, options, expected(corpus, queries, 1.0, options)),
              "")
        << memory_name(memory);
}

TEST(RangeLarge, TheLeastOfThePlanIsEnoughAndLessIsRefused) {
  Rng rng(88);
  const Table corpus = mixed_table(rng, DType::f32, 3000, 12), queries = mixed_table(rng, DType::f32, 100, 12);
  RangeOptions options = ask(Metric::euclidean);
  for (const std::int64_t rank : {10, 2500}) {
    options.search.memory.host = 0;
    const double radius = value_at(corpus, queries, rank, options);
    const vicinal::Plan plan = vicinal::plan_range(shape_of(corpus.points()), shape_of(queries.points()), options);
    options.search.memory.host = plan.minimum_bytes;
    EXPECT_EQ(
        check_range(corpus.points(), queries.points(), radius, options, expected(corpus, queries, radius, options)),
        "");
    options.search.memory.host = plan.minimum_bytes - 1;
    const Refusal got = refusal([&] { vicinal::range_search(corpus.points(), queries.points(), radius, options); });
    EXPECT_EQ(got.code, ErrorCode::memory_budget) << got.message;
    EXPECT_NE(got.message.find(std::to_string(plan.minimum_bytes)), std::string::npos) << got.message;
  }
}

TEST(RangeErrors, MoreThanTheLimitIsRefusedWithTheExactNeed) {
  Rng rng(83);
  const Table corpus = mixed_table(rng, DType::f32, 900, 6), queries = mixed_table(rng, DType::f32, 30, 6);
  RangeOptions options = ask(Metric::euclidean);
  const double radius = value_at(corpus, queries, 333, options);
  const oracle::Lists want = expected(corpus, queries, radius, options);
  const auto need = static_cast<std::int64_t>(want.ids.size());
  ASSERT_GT(need, 1000);
  for (const std::int64_t limit : {std::int64_t{1}, need / 2, need - 1}) {
    options.max_results = limit;
    for (const int threads : all_threads) {
      options.search.run.threads = threads;
      const Refusal got = refusal([&] { vicinal::range_search(corpus.points(), queries.points(), radius, options); });
      EXPECT_EQ(got.code, ErrorCode::capacity_exceeded) << got.message;
      EXPECT_NE(got.message.find(std::to_string(need)), std::string::npos) << got.message << ", need " << need;
      EXPECT_NE(got.message.find(std::to_string(limit)), std::string::npos) << got.message;
    }
  }
  for (const std::int64_t limit : {need, need + 1, std::int64_t{0}}) {
    options.max_results = limit;
    EXPECT_EQ(check_range(corpus.points(), queries.points(), radius, options, want), "") << "limit " << limit;
  }
  options.max_results = -1;
  EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), queries.points(), radius, options); }).code,
            ErrorCode::invalid_argument);
}

// What is in the data is said whatever the radius would have found.
TEST(RangeErrors, DataAreCheckedForEveryRadius) {
  Rng rng(84);
  const Table good = mixed_table(rng, DType::f32, 70, 6), few = mixed_table(rng, DType::f32, 5, 6);
  Table corpus = good, queries = few;
  corpus.set(61, 3, std::nan(""));
  queries.set(2, 0, infinite);
  for (const double radius : {-1.0, 0.0, 2.0, infinite, -infinite})
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::l1}) {
      const auto bad = refusal([&] { vicinal::range_search(corpus.points(), few.points(), radius, ask(metric)); });
      EXPECT_EQ(bad.code, ErrorCode::invalid_value) << "radius " << radius;
      EXPECT_NE(bad.message.find("corpus row 61, column 3 is NaN"), std::string::npos) << bad.message;
      const auto worse = refusal([&] { vicinal::range_search(good.points(), queries.points(), radius, ask(metric)); });
      EXPECT_EQ(worse.code, ErrorCode::invalid_value) << "radius " << radius;
      EXPECT_NE(worse.message.find("query row 2, column 0"), std::string::npos) << worse.message;
    }
}

TEST(RangeErrors, DegenerateRowsAreRefusedOrAtOne) {
  Rng rng(85);
  for (const Metric metric : {Metric::cosine, Metric::correlation})
    for (const DType type : all_dtypes) {
      Table corpus = mixed_table(rng, type, 200, 7), queries = mixed_table(rng, type, 4, 7);
      for (std::int64_t i = 0; i < 200; i += 3)
        for (std::int64_t j = 0; j < 7; ++j) corpus.set(i, j, metric == Metric::cosine ? 0 : 3);
      for (std::int64_t j = 0; j < 7; ++j) queries.set(2, j, metric == Metric::cosine ? 0 : 5);
      RangeOptions options = ask(metric);
      for (const double radius : {0.0, 0.5, std::nextafter(1.0, 0.0), 1.0, 2.0})
        for (const std::string& filter : filters())
          EXPECT_EQ(check_range({"auto", filter}, corpus.points(), queries.points(), radius, options,
                                expected(corpus, queries, radius, options)),
                    "")
              << metric_name(metric) << " " << vicinal::dtype_name(type) << " radius " << radius;
      options.search.degenerate = vicinal::Degenerate::error;
      EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), queries.points(), 0.5, options); }).code,
                ErrorCode::invalid_value);
    }
}

TEST(RangeErrors, OnlyAValueThatWouldBeReturnedCanBeTooLarge) {
  Rng rng(86);
  Table corpus = gaussian(rng, DType::f32, 300, 8), queries = gaussian(rng, DType::f32, 5, 8);
  for (std::int64_t i = 100; i < 200; ++i) corpus.set(i, 2, 1e30);
  for (const double radius : {3.0, 1e30, 3e38, 1e300, infinite})
    for (const std::string& filter : filters()) {
      const RangeOptions options = ask(Metric::sqeuclidean);
      const oracle::Lists want = expected(corpus, queries, radius, options);
      EXPECT_EQ(want.error.has_value(), std::isinf(radius));
      EXPECT_EQ(check_range({"auto", filter}, corpus.points(), queries.points(), radius, options, want), "")
          << "radius " << radius << " " << filter;
    }
}

TEST(RangeErrors, KAndPadAreNotUsedAndShapesAreChecked) {
  Rng rng(87);
  const Table corpus = mixed_table(rng, DType::f32, 50, 4), queries = mixed_table(rng, DType::f32, 5, 4);
  for (const std::int64_t k : {-3, 0, 1, 1000}) {
    RangeOptions options = ask(Metric::euclidean);
    options.search.k = k;
    options.search.pad = k == 1;
    EXPECT_EQ(check_range(corpus.points(), queries.points(), 5, options, expected(corpus, queries, 5, options)), "")
        << "k=" << k;
  }
  vicinal::Points narrow = queries.points();
  narrow.cols = 3;
  EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), narrow, 5, ask(Metric::euclidean)); }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(refusal([&] { vicinal::range_search(corpus.points(), queries.points(), 5, ask(Metric::hamming)); }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace conformance
