// What a canonical value says of the true distance: an interval, rounded outward, of a quantity that obeys the triangle
// inequality. euclidean is such a quantity itself, sqeuclidean the square of one; of cosine and correlation it is the
// chord between unit vectors, sqrt(2 v). Metrics without one (inner_product) say nothing.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

struct Interval {
  double low, high;
};

class TrueDistance {
 public:
  TrueDistance() = default;  // nothing is known
  /// cols: terms of a canonical sum.
  /// mass: of the heaviest row, for emd.
  TrueDistance(Metric metric, std::int64_t cols, double mass = 0) noexcept {
    // Of canonical sums of terms that are not negative: (d / 32 + 8) 2^-53 of the sum (docs/exactness.md); a root and
    // the operations below add a few. Twice that is taken.
    sum_ = (static_cast<double>(cols) / 16 + 64) * 0x1p-53;
    triangle_ = row_of(metric).triangle;
    if (triangle_ == Triangle::chord) absolute_ = (static_cast<double>(cols) / 8 + 24) * 0x1p-53;
    if (metric == Metric::jensen_shannon) sum_ += 0x1p-44;  // terms are good to a part in 2^46
    // Running sums may lose what is small beside the mass.
    if (metric == Metric::emd) absolute_ = static_cast<double>(cols) * static_cast<double>(cols) * mass * 0x1p-50;
  }
  bool known() const noexcept { return triangle_ != Triangle::none; }
  /// `type`: what the value was rounded to after it was canonical.
  Interval of(double value, DistanceType type) const noexcept {
    const double relative = sum_ + (type == DistanceType::f32 ? 0x1.01p-24 : 0);
    const double least = absolute_ + (type == DistanceType::f32 ? 0x1p-149 : 0x1p-500);
    const double low = std::max(0.0, value - value * relative - least), high = value + value * relative + least;
    switch (triangle_) {
      case Triangle::distance: return {low, high};
      case Triangle::square: return {down(std::sqrt(low)), up(std::sqrt(high))};
      case Triangle::chord: return {down(std::sqrt(2 * low)), up(std::sqrt(2 * high))};
      case Triangle::none: break;
    }
    return {0, std::numeric_limits<double>::infinity()};
  }
  static double down(double x) noexcept { return x - x * 0x1p-50; }
  static double up(double x) noexcept { return x + x * 0x1p-50; }

 private:
  Triangle triangle_ = Triangle::none;
  double sum_ = 0, absolute_ = 0;
};

}  // namespace vicinal
