// Dynamic time warping of series of one length: the cheapest monotone way from (0, 0) to (d - 1, d - 1) at |q_i - x_j|
// a step, with |i - j| at most the window (Sakoe and Chiba 1978); window 0: no limit. No metric. Several rows side by
// side, since one way waits for itself at every step: row r of `lanes` has element j at x[j * lanes + r]. The bits do
// not depend on `lanes`.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/both.hpp"

namespace vicinal::measures {

/// costs: (cols + 1) * lanes numbers of scratch.
template <int lanes>
VICINAL_HOST_DEVICE void dtw(const double* q, const double* x, std::int64_t cols, std::int64_t window, double* costs,
                             double* out) noexcept {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::int64_t reach = window > 0 && window < cols ? window : cols;
  // row[j * lanes + r] is the cost of the cheapest way to (i, j); before the first column nothing is.
  double* const row = costs + lanes;
  for (std::int64_t j = -1; j < cols; ++j)
    for (int r = 0; r < lanes; ++r) row[j * lanes + r] = infinite;
  for (std::int64_t i = 0; i < cols; ++i) {
    const std::int64_t first = i > reach ? i - reach : 0, last = i + reach < cols ? i + reach : cols - 1;
    double corner[lanes], left[lanes];  // of (i - 1, j - 1) and (i, j - 1)
    for (int r = 0; r < lanes; ++r) {
      corner[r] = i == 0 ? 0 : row[(first - 1) * lanes + r];
      left[r] = infinite;
    }
    for (std::int64_t j = first; j <= last; ++j) {
      const double* const at = x + j * lanes;
      double* const here = row + j * lanes;
      for (int r = 0; r < lanes; ++r) {
        const double above = here[r];
        double least = corner[r] < above ? corner[r] : above;
        least = left[r] < least ? left[r] : least;
        corner[r] = above;
        left[r] = least + std::fabs(q[i] - at[r]);
        here[r] = left[r];
      }
    }
  }
  for (int r = 0; r < lanes; ++r) out[r] = row[(cols - 1) * lanes + r];
}

}  // namespace vicinal::measures
