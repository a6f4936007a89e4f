// Jensen-Shannon distance: sqrt(1/2 sum p ln(2 p / (p + q)) + 1/2 sum q ln(2 q / (p + q))), a metric (Endres and
// Schindelin 2003). With s = p + q and u = (p - q) / s a term is s / 4 ((1 + u) ln(1 + u) + (1 - u) ln(1 - u)), which
// is never negative; near u = 0, where logarithms cancel, it is the series u^2 / (1 * 1) + u^4 / (2 * 3) + u^6 / (3 *
// 5) + ...
#pragma once
#include <cmath>

#include "core/measures/math.hpp"

namespace vicinal::measures {

VICINAL_HOST_DEVICE inline double divergence_of(double u) noexcept {
  const double z = u * u;
  if (z < 0x1p-4) {
    double sum = 0;
    for (int k = 14; k >= 1; --k) sum = (sum + 1.0 / (k * (2 * k - 1))) * z;
    return sum;
  }
  const double plus = 1 + u, minus = 1 - u;
  return (plus > 0 ? plus * log(plus) : 0) + (minus > 0 ? minus * log(minus) : 0);
}

VICINAL_HOST_DEVICE inline double jensen_shannon(const double* q, const double* x, std::int64_t cols,
                                                 std::int64_t /*window*/) noexcept {
  return std::sqrt(lane_sum(cols, [&](std::int64_t i) {
    const double both = q[i] + x[i];
    return both > 0 ? 0.25 * (both * divergence_of((q[i] - x[i]) / both)) : 0.0;
  }));
}

}  // namespace vicinal::measures
