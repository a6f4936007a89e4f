// From canonical sums to canonical values (semantics C4): the last few correctly rounded operations of each metric.
// The sums themselves, in 32 lanes, belong to the backend (src/cpu/isa/kernels.hpp), their steps to core/sums.hpp.
#pragma once
#include <cmath>

#include "core/both.hpp"
#include "core/metric.hpp"

namespace vicinal {

/// A row without a direction (semantics C7), zero for cosine or constant for correlation, has this for its product with
/// itself. Kernels compare by themselves: a function of one comparison gives them other machine code.
inline constexpr double degenerate_self = -1;
constexpr bool is_degenerate_self(double self) noexcept { return self < 0; }
/// Self products outside this range would overflow or underflow in cosine and correlation of f64 rows (C6).
inline constexpr double least_self = 0x1p-500, most_self = 0x1p500;
constexpr bool norm_in_range(double self) noexcept { return self >= least_self && self <= most_self; }

/// The canonical value of a sum. For cosine and correlation that is q.r (of the shifted rows), and qq and rr are the
/// rows' self products. Loops over rows look the metric's row up once: a lookup a row takes 3 % of one query's time.
VICINAL_HOST_DEVICE inline double canonical_value(const MetricRow& row, double sum, double qq, double rr) noexcept {
  switch (row.finish) {
    case Finish::itself: return sum;
    case Finish::root: return std::sqrt(sum);
    case Finish::cosine: break;
  }
  const double value = 1.0 - sum / std::sqrt(qq * rr);
  return value < 0.0 ? 0.0 : (value > 2.0 ? 2.0 : value);
}
VICINAL_HOST_DEVICE inline double canonical_value(Metric metric, double sum, double qq, double rr) noexcept {
  return canonical_value(row_of(metric), sum, qq, rr);
}

}  // namespace vicinal
