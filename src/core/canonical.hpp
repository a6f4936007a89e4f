// From canonical sums to canonical values (semantics C4): the last few correctly rounded operations of each metric.
// The sums themselves, in 32 lanes, belong to the backend (src/cpu/isa/kernels.hpp), their steps to core/sums.hpp.
#pragma once
#include <cmath>

#include "core/both.hpp"
#include "core/metric.hpp"

namespace vicinal {

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
