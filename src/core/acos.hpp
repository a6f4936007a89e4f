// An arc cosine of our own, since libraries differ by units in the last place. Plain operations of IEEE binary64, each
// rounded once, so that host and device agree.
#pragma once
#include <cmath>

#include "core/both.hpp"

namespace vicinal {

/// arcsin(z) / z - 1 for u = z^2 in [0, 1/4]: u times the polynomial through the function at 12 Chebyshev nodes.
VICINAL_HOST_DEVICE inline double arcsine_tail(double u) noexcept {
  constexpr double terms[] = {0x1.555555555554fp-3, 0x1.3333333336da5p-4, 0x1.6db6db684b6a1p-5,  0x1.f1c71f95269afp-6,
                              0x1.6e8b2b3b10be4p-6, 0x1.1c593c7b1d958p-6, 0x1.c87265d47ef49p-7,  0x1.8522ddffa6208p-7,
                              0x1.ff5fc4d14c735p-8, 0x1.06b9d26d10838p-6, -0x1.603991d6060e0p-7, 0x1.cd864394d2ff2p-6};
  double sum = terms[11];
  for (int i = 10; i >= 0; --i) sum = sum * u + terms[i];
  return sum * u;
}

/// Arc cosine of x in [-1, 1], in radians; 0 of 1. Within 1.5 units in the last place
/// (tests/unit/core/test_match_rule.cpp).
VICINAL_HOST_DEVICE inline double arc_cosine(double x) noexcept {
  constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  const double size = x < 0 ? -x : x;
  if (size <= 0.5) return half_pi - (x - (half_pi_low - x * arcsine_tail(x * x)));
  const double u = (1 - size) * 0.5, z = std::sqrt(u), twice = 2 * (z + z * arcsine_tail(u));
  return x > 0 ? twice : 2 * half_pi - (twice - 2 * half_pi_low);
}

}  // namespace vicinal
