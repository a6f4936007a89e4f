// Kullback-Leibler divergence of a row from the query: sum x ln(x / q), 0 ln 0 = 0; infinite where q is 0 and x is not.
// No metric.
#pragma once
#include <limits>

#include "core/measures/math.hpp"

namespace vicinal::measures {

VICINAL_HOST_DEVICE inline double kullback_leibler(const double* q, const double* x, std::int64_t cols,
                                                   std::int64_t /*window*/) noexcept {
  return lane_sum(cols, [&](std::int64_t i) {
    if (!(x[i] > 0)) return 0.0;
    return q[i] > 0 ? x[i] * (log(x[i]) - log(q[i])) : std::numeric_limits<double>::infinity();
  });
}

}  // namespace vicinal::measures
