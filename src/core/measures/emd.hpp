// Earth mover's distance of histograms on a line, of equal mass, one unit from column to column: the sum of |what has
// to be carried over each border|, which is the running sum of differences. In order of columns: running sums have no
// lanes.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/both.hpp"

namespace vicinal::measures {

VICINAL_HOST_DEVICE inline double emd(const double* q, const double* x, std::int64_t cols,
                                      std::int64_t /*window*/) noexcept {
  double carried = 0, sum = 0;
  for (std::int64_t i = 0; i + 1 < cols; ++i) {
    carried += q[i] - x[i];
    sum += std::fabs(carried);
  }
  return sum;
}

}  // namespace vicinal::measures
