// A filter's bound (core/bound.hpp) proves nothing beyond these exponents, of queries and of the sample that chooses a
// transform.
#pragma once
#include <cmath>

#include "core/both.hpp"

namespace vicinal {

inline constexpr int extreme_exponent = 400;  // beyond it, scale * scale leaves fp64
inline constexpr int far_exponent = 60;       // of a scaled query, where the corpus is about 0

VICINAL_HOST_DEVICE constexpr bool is_extreme(int exponent) noexcept {
  return exponent >= extreme_exponent || -exponent >= extreme_exponent;
}
/// It tells whether a query whose largest element has this exponent is left to the next precision. `scale` is the
/// transform's, about the corpus; a query with a scale of its own may be far from that.
VICINAL_HOST_DEVICE inline bool is_far(int exponent, double scale, bool own_scale) noexcept {
  return is_extreme(exponent) || (!own_scale && exponent + std::ilogb(scale) > far_exponent);
}

}  // namespace vicinal
