// From canonical sums to canonical values (semantics C4): the last few correctly rounded operations of each metric.
// The sums themselves, in 32 lanes, belong to the backend (src/cpu/isa/kernels.hpp), their steps to core/sums.hpp.
#pragma once
#include <cmath>

#include "core/both.hpp"
#include "core/metric.hpp"

namespace vicinal {

/// sum: of the metric's own kind, q.r for cosine and correlation (of the shifted rows). qq, rr: their self products.
VICINAL_HOST_DEVICE inline double canonical_value(Metric metric, double sum, double qq, double rr) noexcept {
  switch (row_of(metric).finish) {
    case Finish::itself: return sum;
    case Finish::root: return std::sqrt(sum);
    case Finish::cosine: break;
  }
  const double value = 1.0 - sum / std::sqrt(qq * rr);
  return value < 0.0 ? 0.0 : (value > 2.0 ? 2.0 : value);
}

}  // namespace vicinal
