// Queries of very different sizes in one call: bytes pack them in the order of their largest elements, and neighbours
// share a step.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance/lists.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;
using vicinal::KnnOptions;
using vicinal::Neighbors;

/// n rows of Gaussian elements, or of whole numbers, times size(row).
template <class Size>
Table rows_of(Rng& rng, DType type, std::int64_t n, std::int64_t d, bool whole, const Size& size) {
  std::vector<double> values(static_cast<std::size_t>(n * d));
  for (std::int64_t i = 0; i < n; ++i) {
    const double factor = size(i);
    for (std::int64_t j = 0; j < d; ++j)
      values[static_cast<std::size_t>(i * d + j)] =
          factor * (whole ? static_cast<double>(rng.between(0, 100)) : rng.gauss());
  }
  return {type, n, d, values};
}

struct Sizes {
  const char* name;
  double (*of)(Rng& rng, std::int64_t row);
};
const Sizes all_sizes[] = {
    {"of one size", [](Rng&, std::int64_t) { return 1.0; }},
    {"lognormal", [](Rng& rng, std::int64_t) { return std::exp(rng.gauss()); }},
    {"every power of two", [](Rng&, std::int64_t row) { return std::ldexp(1.0, static_cast<int>(row * 7 % 41) - 20); }},
    {"one in thirteen large", [](Rng&, std::int64_t row) { return row % 13 == 4 ? 1000.0 : 1.0; }},
    {"from large to small, some zero",
     [](Rng&, std::int64_t row) { return row % 17 == 16 ? 0.0 : std::ldexp(1.0, -static_cast<int>(row / 9)); }},
    {"almost beyond floats", [](Rng&, std::int64_t row) { return row % 29 == 3   ? 1e30
                                                                 : row % 31 == 5 ? 1e-30
                                                                                 : 1; }},
};

TEST(QuerySizes, ListsHaveEqualBitsInTheOrderThatWasAsked) {
  Rng rng(seed_or(61)), share(62);
  const std::vector<Metric> metrics{Metric::sqeuclidean, Metric::cosine, Metric::inner_product, Metric::correlation};
  for (const Sizes& sizes : all_sizes)
    for (const bool whole : {false, true})
      for (const std::int64_t count : {13, 14, 15, 29, 150, 400}) {
        if (!in_share(share, 0.3)) continue;
        const Metric metric = rng.pick(metrics);
        const std::int64_t d = rng.pick(std::vector<std::int64_t>{16, 33, 100, 300}), n = rng.between(300, 900);
        const DType type = whole && sizes.of == all_sizes[0].of ? DType::u8 : DType::f32;
        const Table corpus = rows_of(rng, type, n, d, whole, [](std::int64_t) { return 1.0; });
        const Table queries = rows_of(rng, type, count, d, whole, [&](std::int64_t row) { return sizes.of(rng, row); });
        KnnOptions options{.k = rng.pick(std::vector<std::int64_t>{1, 10, 100}), .metric = metric};
        options.degenerate = vicinal::Degenerate::one;
        options.distance_type = vicinal::DistanceType::f64;
        KnnOptions every_pair = options;
        every_pair.proof = vicinal::Proof::exhaustive;
        const Neighbors want = vicinal::knn(corpus.points(), queries.points(), every_pair);
        for (int i = 0; i < 3; ++i) {
          options.run.filter = rng.pick(std::vector<std::string>{"auto", "int8", "int8", "rotated", "projected"});
          options.run.instruction_set = rng.pick(instruction_sets());
          options.run.threads = static_cast<int>(rng.between(1, 3));
          const std::string text = std::string(sizes.name) + (whole ? " whole " : " ") + metric_name(metric) +
                                   " Q=" + std::to_string(count) + " n=" + std::to_string(n) +
                                   " d=" + std::to_string(d) + " k=" + std::to_string(options.k) + " " +
                                   options.run.filter + " " + options.run.instruction_set;
          EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
          if (!in_share(share, 0.5)) continue;
          const Corpus kept(corpus.points(), {.metric = metric, .degenerate = options.degenerate, .run = options.run});
          EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << text << " kept";
        }
      }
}

TEST(QuerySizes, RangesHaveEqualIds) {
  Rng rng(seed_or(63));
  for (const Sizes& sizes : all_sizes) {
    const Table corpus = rows_of(rng, DType::f32, 900, 40, false, [](std::int64_t) { return 1.0; });
    const Table queries =
        rows_of(rng, DType::f32, 120, 40, false, [&](std::int64_t row) { return sizes.of(rng, row); });
    vicinal::RangeOptions options;
    options.search.metric = Metric::euclidean;
    options.search.run.filter = "canonical";
    const double radius = 7.5;
    const vicinal::CsrNeighbors want = vicinal::range_search(corpus.points(), queries.points(), radius, options);
    ASSERT_GT(want.entries(), 100) << sizes.name;
    for (const char* const filter : {"int8", "rotated"}) {
      options.search.run.filter = filter;
      const vicinal::CsrNeighbors got = vicinal::range_search(corpus.points(), queries.points(), radius, options);
      ASSERT_EQ(got.entries(), want.entries()) << sizes.name << " " << filter;
      for (std::int64_t i = 0; i < want.entries(); ++i)
        ASSERT_EQ(got.ids()[i], want.ids()[i]) << sizes.name << " " << filter;
    }
  }
}

// Of bytes that have the step of a query eight times as large nothing is left, and nearly every row would be a candidate.
TEST(QuerySizes, ALargeQueryTakesNothingFromTheOthers) {
  Rng rng(64);
  constexpr std::int64_t n = 20000, d = 64, count = 280;
  const auto any = [](std::int64_t) { return 1.0; };
  const Table corpus = rows_of(rng, DType::f32, n, d, false, any);
  for (const std::string& set : instruction_sets()) {
    KnnOptions options{.k = 10, .metric = Metric::sqeuclidean};
    options.run.filter = "int8";
    options.run.instruction_set = set;
    options.run.threads = 1;
    const Corpus kept(corpus.points(), {.metric = options.metric, .run = options.run});
    const auto candidates = [&](const Table& queries) { return kept.knn(queries.points(), options).stats.candidates; };
    Rng same(65), again(65);
    const std::int64_t alike = candidates(rows_of(same, DType::f32, count, d, false, any)),
                       mixed = candidates(rows_of(again, DType::f32, count, d, false,
                                                  [](std::int64_t row) { return row % 13 == 7 ? 8.0 : 1.0; }));
    EXPECT_LT(mixed, alike + alike / 2) << set;
  }
}

// A query that bytes cannot filter at all has no say in the step of the others, of few queries either.
TEST(QuerySizes, AQueryWithoutAFilterTakesNothingFromItsPanel) {
  Rng rng(66);
  const auto any = [](std::int64_t) { return 1.0; };
  const Table corpus = rows_of(rng, DType::f32, 20000, 64, false, any);
  KnnOptions options{.k = 10, .metric = Metric::sqeuclidean};
  options.distance_type = vicinal::DistanceType::f64;
  options.run.filter = "int8";
  options.run.threads = 1;
  const Corpus kept(corpus.points(), {.metric = options.metric, .run = options.run});
  for (const std::int64_t count : {12, 40}) {
    const Table queries =
        rows_of(rng, DType::f32, count, 64, false, [](std::int64_t row) { return row == 3 ? 1e30 : 1.0; });
    const std::int64_t alike = kept.knn(queries.points().slice(4, count - 4), options).stats.candidates,
                       mixed = kept.knn(queries.points(), options).stats.candidates;
    EXPECT_LT(mixed, 2 * alike) << count;
  }
}

}  // namespace
}  // namespace conformance
