// What a canonical value says of the true distance: an interval, rounded outward, of a quantity that obeys the triangle
// inequality. euclidean is such a quantity itself, sqeuclidean the square of one; of cosine and correlation it is the chord
// between unit vectors, sqrt(2 v). Metrics without one (inner_product) say nothing.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "vicinal/metric.hpp"
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
    // Of canonical sums of terms that are not negative: (d / 32 + 8) 2^-53 of the sum (docs/exactness.md); a root and the
    // operations below add a few. Twice that is taken.
    sum_ = (static_cast<double>(cols) / 16 + 64) * 0x1p-53;
    switch (metric) {
      case Metric::sqeuclidean: form_ = Form::square; break;
      case Metric::cosine:
      case Metric::correlation:
        form_ = Form::chord;
        absolute_ = (static_cast<double>(cols) / 8 + 24) * 0x1p-53;
        break;
      case Metric::jensen_shannon:  // terms are good to a part in 2^46
        form_ = Form::itself;
        sum_ += 0x1p-44;
        break;
      case Metric::emd:  // running sums may lose what is small beside the mass
        form_ = Form::itself;
        absolute_ = static_cast<double>(cols) * static_cast<double>(cols) * mass * 0x1p-50;
        break;
      case Metric::inner_product:
      case Metric::kullback_leibler:
      case Metric::dtw: form_ = Form::none; break;
      default: form_ = Form::itself;
    }
  }
  bool known() const noexcept { return form_ != Form::none; }
  /// `type`: what the value was rounded to after it was canonical.
  Interval of(double value, DistanceType type) const noexcept {
    const double relative = sum_ + (type == DistanceType::f32 ? 0x1.01p-24 : 0);
    const double least = absolute_ + (type == DistanceType::f32 ? 0x1p-149 : 0x1p-500);
    const double low = std::max(0.0, value - value * relative - least), high = value + value * relative + least;
    switch (form_) {
      case Form::itself: return {low, high};
      case Form::square: return {down(std::sqrt(low)), up(std::sqrt(high))};
      case Form::chord: return {down(std::sqrt(2 * low)), up(std::sqrt(2 * high))};
      default: return {0, std::numeric_limits<double>::infinity()};
    }
  }
  static double down(double x) noexcept { return x - x * 0x1p-50; }
  static double up(double x) noexcept { return x + x * 0x1p-50; }

 private:
  enum class Form : std::uint8_t { none, itself, square, chord } form_ = Form::none;
  double sum_ = 0, absolute_ = 0;
};

}  // namespace vicinal
