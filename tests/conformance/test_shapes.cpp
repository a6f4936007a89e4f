// Shapes around every edge: a seeded sample of (n, Q, d, k) near 0..130, powers of two, the panel and tile sizes of
// common kernels, and k at its limits; and two cases of realistic size. Bits against the oracle.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

std::int64_t edge(Rng& rng, int largest_power) {
  if (rng.chance(0.5)) return rng.between(1, 130);
  return (std::int64_t{1} << rng.between(7, largest_power)) + rng.between(-1, 1);
}

TEST(Shapes, SampledAroundEveryEdge) {
  const std::uint64_t seed = seed_or(7001);
  const std::vector<std::int64_t> wide = {96, 127, 128, 129, 255, 256, 257, 300, 384, 512, 513, 768, 784, 1024, 1536};
  for (std::int64_t trial = 0; trial < scaled(1000); ++trial) {
    Rng rng(seed * 7919 + static_cast<std::uint64_t>(trial));
    const Kind kind = rng.pick(all_kinds());
    std::int64_t n = edge(rng, 13), q = rng.chance(0.05)   ? edge(rng, 11)
                                        : rng.chance(0.03) ? 0
                                                           : rng.log_between(1, 130);
    const std::int64_t d = rng.chance(0.75) ? rng.between(1, 70) : rng.pick(wide);
    while (n * q * d > 1500000) (q > 3 ? q : n) = (q > 3 ? q : n) / 2 + rng.between(0, 1);
    const std::vector<std::int64_t> ks = {1, 2, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 1000, n - 1, n};
    vicinal::KnnOptions options;
    options.metric = kind.metric;
    options.k = std::clamp<std::int64_t>(rng.pick(ks), 1, n);
    options.degenerate = vicinal::Degenerate::one;  // one-column rows are constant
    const Table corpus = mixed_table(rng, kind.dtype, n, d), queries = mixed_table(rng, kind.dtype, q, d);
    const Setting setting = random_setting(rng);
    const auto want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
    ASSERT_EQ(
        check(corpus.points(), queries.points(), apply(setting, options, corpus.points(), queries.points()), want), "")
        << "seed " << seed << " trial " << trial << " n=" << n << " Q=" << q << " d=" << d << " k=" << options.k << " "
        << kind.text() << " " << setting.text();
  }
}

TEST(Shapes, EverySmallCountOfRowsAndQueries) {
  Rng rng(71);
  const Table corpus = mixed_table(rng, DType::f32, 130, 5), queries = mixed_table(rng, DType::f32, 130, 5);
  for (std::int64_t n = 1; n <= 130; ++n)
    for (const std::int64_t q : {std::int64_t{0}, std::int64_t{1}, n}) {
      vicinal::KnnOptions options;
      options.k = std::min<std::int64_t>(n, 1 + n % 40);
      const auto want = oracle::knn(oracle::decode_rows(DType::f32, corpus.bytes.data(), n, 5),
                                    oracle::decode_rows(DType::f32, queries.bytes.data(), q, 5), spec(options));
      ASSERT_EQ(check(corpus.points().slice(0, n), queries.points().slice(0, q), options, want), "")
          << "n=" << n << " Q=" << q;
    }
}

TEST(Shapes, EveryDimensionUpToSeventy) {
  for (std::int64_t d = 1; d <= 70; ++d)
    for (const vicinal::MetricInfo& info : vicinal::metrics()) {
      if (!info.vectors) continue;
      Rng rng(static_cast<std::uint64_t>(d));
      const DType type = info.metric == Metric::hamming ? DType::u8 : rng.pick(all_dtypes);
      const Table corpus = mixed_table(rng, type, 300, d), queries = mixed_table(rng, type, 5, d);
      vicinal::KnnOptions options;
      options.metric = info.metric;
      options.k = 33;
      options.degenerate = vicinal::Degenerate::one;
      const auto want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
      for (const std::string& set : instruction_sets()) {
        options.run.instruction_set = set;
        options.run.filter = filters().front();
        ASSERT_EQ(check(corpus.points(), queries.points(), options, want), "")
            << info.name << " d=" << d << " " << vicinal::dtype_name(type) << " " << set;
      }
    }
}

// The case that float expansion loses: 128-d normal data moved by 1,000.
TEST(Shapes, GaussianMovedByOneThousand) {
  Rng rng(72);
  const Table corpus = gaussian(rng, DType::f32, 20000, 128, 1000, 1),
              queries = gaussian(rng, DType::f32, 50, 128, 1000, 1);
  for (const Metric metric : {Metric::euclidean, Metric::sqeuclidean, Metric::cosine}) {
    vicinal::KnnOptions options;
    options.metric = metric;
    options.k = 100;
    options.run.filter = filters().front();
    EXPECT_EQ(
        check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))),
        "")
        << metric_name(metric);
  }
}

// Descriptors as SIFT makes them: u8, sparse, clipped, of about equal norm.
TEST(Shapes, ImageDescriptors) {
  Rng rng(73);
  const auto descriptors = [&](std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n * 128));
    for (double& v : values) v = rng.chance(0.4) ? 0 : std::min(255.0, std::abs(rng.gauss()) * 45);
    return Table(DType::u8, n, 128, values);
  };
  const Table corpus = descriptors(20000), queries = descriptors(50);
  for (const Metric metric : {Metric::euclidean, Metric::l1, Metric::hamming}) {
    vicinal::KnnOptions options;
    options.metric = metric;
    options.k = 100;
    options.run.filter = filters().front();
    EXPECT_EQ(
        check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))),
        "")
        << metric_name(metric);
  }
}

}  // namespace
}  // namespace conformance
