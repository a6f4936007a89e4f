// Ground truth of a base in parts: the bytes of knn over the concatenated base, for every metric and element type, any cut, tiers and setting.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/settings.hpp"

namespace conformance {
namespace {

TEST(GroundTruth, IsKnnOverTheConcatenatedBase) {
  Rng rng(seed_or(417));
  for (const Kind& kind : all_kinds()) {
    for (std::int64_t turn = 0; turn < scaled(3); ++turn) {
      SCOPED_TRACE(kind.text());
      const std::int64_t n = rng.log_between(2, 700), d = rng.log_between(1, 40), q = rng.between(1, 12);
      const Table base = mixed_table(rng, kind.dtype, n, d), queries = mixed_table(rng, kind.dtype, q, d);
      vicinal::KnnOptions options;
      options.metric = kind.metric;
      options.k = rng.log_between(1, n);
      options.pad = true;
      options.degenerate = vicinal::Degenerate::one;
      options.first_id = rng.between(0, 5);
      std::vector<vicinal::Points> parts;
      for (std::int64_t first = 0; first < n;) {
        const std::int64_t rows = std::min(rng.log_between(1, n), n - first);
        parts.push_back(base.points().slice(first, rows));
        first += rows;
      }
      std::vector<std::int64_t> tiers{rng.between(1, n)};
      if (tiers.back() < n) tiers.push_back(n);
      const Setting setting = random_setting(rng);
      const vicinal::GroundTruth truth = vicinal::ground_truth(
          parts, queries.points(),
          {.search = apply(setting, options, base.points(), queries.points()), .tiers = tiers, .verified_queries = 2});
      ASSERT_EQ(truth.tiers.size(), tiers.size());
      for (std::size_t i = 0; i < tiers.size(); ++i) {
        const vicinal::Neighbors whole = vicinal::knn(base.points().slice(0, tiers[i]), queries.points(), options);
        EXPECT_EQ(difference(truth.tiers[i].nearest, whole), "") << setting.text();
      }
    }
  }
}

}  // namespace
}  // namespace conformance
