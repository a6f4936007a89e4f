// Hellinger distance: sqrt(1/2 sum (sqrt p - sqrt q)^2), with the difference of roots as (p - q) / (sqrt p + sqrt q).
#pragma once
#include <cmath>

#include "core/measures/math.hpp"

namespace vicinal::measures {

VICINAL_HOST_DEVICE inline double hellinger(const double* q, const double* x, std::int64_t cols,
                                            std::int64_t /*window*/) noexcept {
  return std::sqrt(0.5 * lane_sum(cols, [&](std::int64_t i) {
                     const double roots = std::sqrt(q[i]) + std::sqrt(x[i]);
                     const double difference = roots > 0 ? (q[i] - x[i]) / roots : 0.0;
                     return difference * difference;
                   }));
}

}  // namespace vicinal::measures
