// reach_of, the inverse of a metric's finish, by which a k-d tree and the exact int8 filter leave rows out: no row whose key is within a key has a
// larger sum.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/canonical.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"

namespace key {
namespace {

using namespace vicinal;

/// Metrics whose value is the sum or its root, in ascending order: those that reach_of is asked for.
bool is_reached(Metric metric) {
  const MetricRow row = row_of(metric);
  return row.filter == FilterRows::plain && row.finish != Finish::cosine && row.direction == Direction::ascending;
}

TEST(ReachOf, NoSumWithinAKeyIsGreater) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-120, 120);
  int metrics_seen = 0;
  for (const MetricInfo& info : metrics()) {
    if (!is_reached(info.metric)) continue;
    ++metrics_seen;
    for (const DistanceType type : {DistanceType::f32, DistanceType::f64}) {
      for (int i = 0; i < 20000; ++i) {
        const double sum = i == 0 ? 0.0 : std::exp2(exponent(random));
        const double key = fold_key(canonical_value(info.metric, sum, 0, 0), type, false);
        const double reach = reach_of(info.metric, type, key);
        ASSERT_GE(reach, sum) << info.name << " " << distance_type_name(type);
        // And not so much that it would exclude nothing: some units in the last place of the type.
        ASSERT_LE(reach, sum * (1 + (type == DistanceType::f64 ? 0x1p-47 : 0x1p-20)) + 0x1p-148)
            << info.name << " " << distance_type_name(type);
      }
    }
  }
  EXPECT_EQ(metrics_seen, 4);  // sqeuclidean, euclidean, l1, linf
}

}  // namespace
}  // namespace key
