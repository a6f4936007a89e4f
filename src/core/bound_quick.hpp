// Biases and thresholds of bytes in single precision, for a device that binds a tile's bounds in less time than its
// double precision takes (docs/exactness.md, 8.5 and 8.6). A bias is at least as large and a threshold at most as large
// as core/bound.hpp has them, by some 2^-21 of their size: each operation rounds by 2^-24 of its result, and there are
// fewer than eight in a row. `most`: a power of two that no product exceeds. In units of it
//
//   2      biases of rows that stand for anything      1 at least with their products, the largest threshold
//   -1.5   the least bias of a row that is present     -2.5 at least, the least threshold: such a row passes while
//                                                      nothing is known
//   -3.75  the bias of a masked row                    -2.75 at most: excluded by every threshold
#pragma once
#include "core/bound.hpp"

namespace vicinal {

inline constexpr float most_quick_threshold = 0x1p28F;
VICINAL_HOST_DEVICE inline std::int32_t quick_bias(float term, float inverse,
                                                   float most = most_quick_threshold) noexcept {
  const float exact = -term * inverse,
              least = term == std::numeric_limits<float>::infinity() ? -3.75F * most : -1.5F * most;
  const float bias = exact + std::min(std::fabs(exact), 0x1p100F) * 0x1p-21F;  // -inf with a term of +inf
  if (!(bias < 2 * most)) return static_cast<std::int32_t>(2 * most);
  return static_cast<std::int32_t>(std::ceil(bias > least ? bias : least));
}

struct ThresholdCoeffsF32 {
  float base, by_e, by_n;
};
/// Not of a query given up, whose base is -inf.
VICINAL_HOST_DEVICE inline ThresholdCoeffsF32 threshold_coeffs_f32(const ThresholdCoeffs& coeffs) noexcept {
  if (!(coeffs.base > -infinite)) return {-std::numeric_limits<float>::infinity(), 0, 0};
  return {up32(coeffs.base), up32(coeffs.by_e), up32(coeffs.by_n)};
}
VICINAL_HOST_DEVICE inline std::int32_t quick_threshold(const ThresholdCoeffsF32& coeffs, float e, float n,
                                                        float inverse, float most = most_quick_threshold) noexcept {
  const float by_e = coeffs.by_e * e, by_n = coeffs.by_n * (n + e);
  const float bound = coeffs.base + by_e + by_n, size = std::fabs(coeffs.base) + by_e + by_n;
  const float limit = -(bound + size * 0x1p-21F) * inverse, low = limit - std::fabs(limit) * 0x1p-21F - 0x1p-4F;
  if (!(low > -2.5F * most)) return static_cast<std::int32_t>(-2.5F * most);  // NaN among them
  return static_cast<std::int32_t>(std::ceil(low < most ? low : most));
}

/// At least every sum of differences of codes whose t, the step times the sum rounded once, is within the bound.
/// inverse: 1 / step, rounded.
VICINAL_HOST_DEVICE inline std::int32_t difference_limit(float bound, float inverse) noexcept {
  const float steps = std::max(bound * inverse * (1 + 0x1p-20F), -1.0F);
  return !(steps < 0x1p30F) ? std::numeric_limits<std::int32_t>::max() : static_cast<std::int32_t>(std::floor(steps));
}

}  // namespace vicinal
