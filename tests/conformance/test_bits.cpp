// Packed bits: counts in tiles against every pair ranked one by one (filter "canonical"), which the other suites hold against the oracle. Rows
// are of few kinds, so that the k-th place is shared by many rows and ids decide, in every order in which rows can be met.
#include <gtest/gtest.h>

#include "conformance/lists.hpp"

namespace conformance {
namespace {
using vicinal::KnnOptions;

/// Rows of `kinds` patterns, each with at most `noise` bits changed.
Table few_kinds(Rng& rng, std::int64_t n, std::int64_t d, std::int64_t kinds, std::int64_t noise) {
  std::vector<double> patterns(static_cast<std::size_t>(kinds * d)), values(static_cast<std::size_t>(n * d));
  for (double& x : patterns) x = static_cast<double>(rng.between(0, 255));
  const std::int64_t order = rng.between(0, 2);  // kinds in runs that rise, in runs that fall, or mixed
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t run = i * kinds / n;
    const std::int64_t kind = order == 0 ? run : order == 1 ? kinds - 1 - run : rng.between(0, kinds - 1);
    for (std::int64_t j = 0; j < d; ++j)
      values[static_cast<std::size_t>(i * d + j)] = patterns[static_cast<std::size_t>(kind * d + j)];
    for (std::int64_t b = rng.between(0, noise); b > 0; --b) {
      double& x = values[static_cast<std::size_t>(i * d + rng.between(0, d - 1))];
      x = static_cast<double>(static_cast<int>(x) ^ 1 << rng.between(0, 7));
    }
  }
  return {DType::u8, n, d, values};
}

struct BitCase {
  Table corpus, queries;
  KnnOptions options;
  Filter filter;
  BitCase(Rng& rng, std::int64_t most_rows, std::int64_t most_cols)
      : corpus(few_kinds(rng, rng.log_between(1, most_rows), rng.log_between(1, most_cols), rng.log_between(1, 30),
                         rng.pick<std::int64_t>({0, 1, 3}))),
        queries(few_kinds(rng, rng.log_between(1, 60), corpus.d, 9, 2)) {
    for (std::int64_t i = 0; i < queries.n; ++i)  // many queries are near rows
      if (rng.chance(0.7)) {
        const std::int64_t row = rng.between(0, corpus.n - 1);
        std::copy_n(corpus.bytes.begin() + row * corpus.d, corpus.d, queries.bytes.begin() + i * corpus.d);
      }
    options.metric = Metric::hamming;
    options.k = rng.chance(0.1) ? corpus.n : rng.log_between(1, std::min<std::int64_t>(corpus.n, 300));
    options.pad = true;
    options.first_id = rng.pick<std::int64_t>({0, 0, 1000, std::int64_t{1} << 40});
    filter = make_filter(rng, rng.chance(0.5) ? Condition::none : rng.pick(all_conditions), corpus.n, queries.n,
                         options.first_id);
    options.eligible = filter.view();
  }
  KnnOptions ranked() const {
    KnnOptions one_by_one = options;
    one_by_one.run.filter = "canonical";
    return one_by_one;
  }
};

Setting any_setting(Rng& rng) {
  return {rng.pick(instruction_sets()), "auto", rng.pick(all_threads), rng.pick(all_memory), vicinal::Proof::certified};
}

TEST(Bits, TilesHaveTheBitsOfPairsRankedOneByOne) {
  for (std::int64_t number = 0; number < scaled(400); ++number) {
    Rng rng(seed_or(4600) + static_cast<std::uint64_t>(number));
    const bool wide = rng.chance(0.3);  // so wide that rows are met in several segments
    const BitCase one(rng, wide ? 6000 : 3000, wide ? 700 : 70);
    const Setting setting = any_setting(rng);
    SCOPED_TRACE("seed " + std::to_string(seed_or(4600) + static_cast<std::uint64_t>(number)) + ": " +
                 std::to_string(one.corpus.n) + " x " + std::to_string(one.corpus.d) + ", " +
                 std::to_string(one.queries.n) + " queries, k " + std::to_string(one.options.k) + ", " +
                 setting.text());
    const Arranged corpus(one.corpus, rng.pick(all_layouts)), queries(one.queries, rng.pick(all_layouts));
    const vicinal::Points rows = rng.chance(0.5) ? one.corpus.points() : corpus.points;
    const vicinal::Points asked = rng.chance(0.5) ? one.queries.points() : queries.points;
    const vicinal::Neighbors want = vicinal::knn(one.corpus.points(), one.queries.points(), one.ranked());
    ASSERT_EQ(difference(vicinal::knn(rows, asked, apply(setting, one.options, rows, asked)), want), "");
    KnnOptions search = one.options;
    search.run.threads = setting.threads;
    search.run.instruction_set = setting.instruction_set;
    const vicinal::Corpus kept(rows, {.metric = Metric::hamming, .run = search.run});
    ASSERT_EQ(difference(kept.knn(asked, search), want), "") << "kept";
    search.run.filter = "canonical";
    ASSERT_EQ(difference(kept.knn(asked, search), want), "") << "kept, ranked one by one";
  }
}

// Lists longer than 64 are limited by a histogram of counts, of rows of up to 512 bytes; one query alone has rows counted where they lie.
TEST(Bits, BothSidesOfWhatAHistogramServes) {
  for (const std::int64_t cols : {8, 511, 512, 513})
    for (const std::int64_t kinds : {1, 5}) {
      Rng rng(4800 + static_cast<std::uint64_t>(cols + kinds));
      const Table corpus = few_kinds(rng, 1300, cols, kinds, 2), queries = few_kinds(rng, 9, cols, 3, 1);
      for (const std::int64_t count : {1, 9})
        for (const std::int64_t k : {64, 65, 66, 1300}) {
          const vicinal::Points asked = queries.points().slice(0, count);
          KnnOptions ranked{.k = k, .metric = Metric::hamming}, counted = ranked;
          ranked.run.filter = "canonical";
          const vicinal::Neighbors want = vicinal::knn(corpus.points(), asked, ranked);
          for (const int threads : {1, 3}) {
            SCOPED_TRACE(std::to_string(cols) + " bytes, " + std::to_string(kinds) + " kinds, " +
                         std::to_string(count) + " queries, k " + std::to_string(k) + ", " + std::to_string(threads) +
                         " threads");
            counted.run.threads = threads;
            EXPECT_EQ(difference(vicinal::knn(corpus.points(), asked, counted), want), "");
            const vicinal::Corpus kept(corpus.points(), {.metric = Metric::hamming, .run = counted.run});
            EXPECT_EQ(difference(kept.knn(asked, counted), want), "") << "kept";
          }
        }
    }
}

// One query reads rows in runs of 1 MB, here 8,192 of 128 bytes: splits of less than one run, of one, and of some and a part.
TEST(Bits, OneQueryOnBothSidesOfARun) {
  for (const std::int64_t rows : {8191, 8192, 8193, 16384, 32769, 33000}) {
    Rng rng(4900 + static_cast<std::uint64_t>(rows));
    const Table corpus = few_kinds(rng, rows, 128, 900, 3);
    const vicinal::Points query = corpus.points().slice(rows - 1, 1);  // what is left out most easily is the last row
    for (const std::int64_t k : {10, 70}) {
      KnnOptions ranked{.k = k, .metric = Metric::hamming}, counted = ranked;
      ranked.run.filter = "canonical";
      const vicinal::Neighbors want = vicinal::knn(corpus.points(), query, ranked);
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, k " + std::to_string(k) + ", " + std::to_string(threads) +
                     " threads");
        counted.run.threads = threads;
        EXPECT_EQ(difference(vicinal::knn(corpus.points(), query, counted), want), "");
        const vicinal::Corpus kept(corpus.points(), {.metric = Metric::hamming, .run = counted.run});
        EXPECT_EQ(difference(kept.knn(query, counted), want), "") << "kept";
      }
    }
  }
}

TEST(Bits, RangesAndGraphsHaveThem) {
  for (std::int64_t number = 0; number < scaled(150); ++number) {
    Rng rng(seed_or(4700) + static_cast<std::uint64_t>(number));
    const BitCase one(rng, 2000, 70);
    const Setting setting = any_setting(rng);
    SCOPED_TRACE("seed " + std::to_string(seed_or(4700) + static_cast<std::uint64_t>(number)) + ": " +
                 std::to_string(one.corpus.n) + " x " + std::to_string(one.corpus.d) + ", k " +
                 std::to_string(one.options.k) + ", " + setting.text());
    KnnOptions search = one.options, ranked = one.ranked();
    search.run.instruction_set = setting.instruction_set;
    search.run.threads = setting.threads;
    search.pad = ranked.pad = false;
    const double radius = rng.pick<double>({-1, 0, 0.5, 3, 4.0 * static_cast<double>(one.corpus.d), 1e30});
    const auto found = vicinal::range_search(one.corpus.points(), one.queries.points(), radius, {.search = search});
    const auto want = vicinal::range_search(one.corpus.points(), one.queries.points(), radius, {.search = ranked});
    ASSERT_TRUE(std::equal(found.offsets(), found.offsets() + found.rows() + 1, want.offsets()));
    ASSERT_TRUE(std::equal(found.ids(), found.ids() + found.entries(), want.ids()));
    for (std::int64_t row = 0; row < found.rows(); ++row)
      for (std::int64_t i = 0; i < found.count(row); ++i) ASSERT_EQ(found.distance(row, i), want.distance(row, i));
    search.eligible = ranked.eligible = {};
    search.first_id = ranked.first_id = 0;
    search.pad = ranked.pad = true;
    const bool self = rng.chance(0.5);
    ASSERT_EQ(difference(vicinal::knn_graph(one.corpus.points(), {.search = search, .include_self = self}),
                         vicinal::knn_graph(one.corpus.points(), {.search = ranked, .include_self = self})),
              "");
  }
}

TEST(Bits, PlansSayHowBitsAreCounted) {
  const vicinal::Shape rows{100'000, 32, DType::u8}, queries{50, 32, DType::u8};
  KnnOptions options{.k = 5, .metric = Metric::hamming};
  EXPECT_NE(vicinal::plan(rows, queries, options).text().find("differing bits"), std::string::npos);
  options.run.filter = "canonical";
  EXPECT_EQ(vicinal::plan(rows, queries, options).text().find("differing bits"), std::string::npos);
}

}  // namespace
}  // namespace conformance
