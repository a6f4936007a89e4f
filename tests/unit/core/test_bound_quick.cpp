// Bounds of bytes in single precision keep every row that those of double precision keep, at the edge of their roundings and where sums end.
// tests/mutants/run.py breaks src/core/bound_quick.hpp line by line and expects this file to notice.
#include "core/bound_quick.hpp"

#include <gtest/gtest.h>

#include "bytes_at_theta.hpp"

namespace vicinal {
namespace {

TEST(Bound, QuickSeedsAndLimitsKeepARowAtTheta) {
  each_pair_of_bytes([](const BoundModel& model, const Int8Pair& p, Real least) {
    const ThresholdCoeffsF32 line = threshold_coeffs_f32(threshold_coeffs(model, p.theta, p.query_square, p.q));
    const auto inverse = static_cast<float>(1 / p.unit);
    for (const float most : {0x1p24F, most_quick_threshold}) {
      if (!(fabsl(least) < most)) continue;  // sums are smaller
      const std::int32_t seed = quick_bias(p.term, inverse, most),
                         limit = quick_threshold(line, up32(p.r.e), up32(p.r.n), inverse, most);
      ASSERT_GE(least + seed, limit) << metric_info(model.metric).name << " theta " << p.theta << " unit " << p.unit
                                     << " most " << most;
      const Real size = (fabsl(p.term) + fabsl(static_cast<Real>(line.base)) + static_cast<Real>(line.by_e) * p.r.e +
                         static_cast<Real>(line.by_n) * (p.r.n + p.r.e)) /
                        p.unit;
      if (size < most / 4) {
        ASSERT_LT(least + seed - 4 - size * 0x1p-18L, limit) << metric_info(model.metric).name;
      }
    }
  });
  const float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  for (const float most : {0x1p24F, most_quick_threshold})
    for (const float inverse : {1e-3F, 1.0F, 1e3F}) {
      const auto top = static_cast<std::int64_t>(most);
      const std::int64_t none = quick_threshold({infinity, infinity, 0}, 0, 1, inverse, most),
                         high = quick_threshold({-1e30F, 0, 0}, 1, 1, inverse, most);
      EXPECT_EQ(quick_threshold({std::nanf(""), 0, 0}, 1, 1, inverse, most), none);
      EXPECT_EQ(quick_threshold({largest, 0, 0}, 1, 1, inverse, most), none);  // as if nothing were known
      EXPECT_EQ(high, top);
      // With any product: a masked row is below each threshold, one that is there not below the least, and what stands for anything below none.
      EXPECT_LT(quick_bias(infinity, inverse, most) + top, none);
      for (const float term : {largest, 1e30F, 0.0F, -1e30F})
        EXPECT_GE(quick_bias(term, inverse, most) - top, none) << term;
      for (const float term : {-infinity, std::nanf("")})
        EXPECT_GE(quick_bias(term, inverse, most) - top, high) << term;
      // Words of 32 bits hold them, and two are less than 2^31 apart, of sums four bits longer too.
      const std::int64_t lowest = quick_bias(infinity, inverse, most) - top,
                         highest = quick_bias(-infinity, inverse, most) + top;
      EXPECT_GE(lowest, std::numeric_limits<std::int32_t>::min());
      EXPECT_LE((highest - lowest) * (most < most_quick_threshold ? 16 : 1), std::numeric_limits<std::int32_t>::max());
    }
}

// Sums of differences in whole steps against limits of theirs: none that is within the bound is beyond the limit.
TEST(Bound, LimitOfDifferencesKeepsEverySumWithinTheBound) {
  Random random;
  for (int i = 0; i < 200000; ++i) {
    const auto step = static_cast<float>(random.magnitude(-40, 40));
    const auto inverse = static_cast<float>(1 / static_cast<double>(step));
    const auto sum = static_cast<std::int32_t>(random.magnitude(0, 22));
    const float t = step * static_cast<float>(sum);
    ASSERT_GE(difference_limit(t, inverse), sum) << step;
    ASSERT_LE(difference_limit(t, inverse), sum * (1 + 0x1p-18)) << step;
  }
  EXPECT_EQ(difference_limit(0, 1), 0);
  EXPECT_EQ(difference_limit(-1, 1), -1);
  for (const float bound : {INFINITY, NAN, 1e30F}) EXPECT_EQ(difference_limit(bound, 1), INT32_MAX);
}

}  // namespace
}  // namespace vicinal
