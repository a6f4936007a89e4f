// From canonical sums to canonical values (semantics C4): the last few correctly rounded operations of each metric.
// The sums themselves, in 32 lanes, belong to the backend (src/cpu/kernels.hpp).
#pragma once
#include <cmath>

#include "core/both.hpp"
#include "vicinal/metric.hpp"

namespace vicinal {

/// sum: of the metric's own kind, q.r for cosine and correlation (of the shifted rows). qq, rr: their self products.
VICINAL_HOST_DEVICE inline double canonical_value(Metric metric, double sum, double qq, double rr) noexcept {
  switch (metric) {
    case Metric::euclidean: return std::sqrt(sum);
    case Metric::cosine:
    case Metric::correlation: {
      const double value = 1.0 - sum / std::sqrt(qq * rr);
      return value < 0.0 ? 0.0 : (value > 2.0 ? 2.0 : value);
    }
    default: return sum;
  }
}

}  // namespace vicinal
