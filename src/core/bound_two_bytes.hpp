// A query in two bytes a column, for refinement of the rows that it could not exclude in one (docs/exactness.md, 8.10).
// With s the step of its first bytes i, a column x' is rounded to s (i + j / 256). That is one more rounding of the
// query, of which e and n are measured as of any other: section 2 holds of it, and its products with the bytes of a row
// are exact. Any bytes j would be sound.
#pragma once
#include "core/bound.hpp"

namespace vicinal {

inline constexpr double second_byte_step = 0x1p-8;  // in steps of the first byte

/// A column in steps of the first byte: exact.
VICINAL_HOST_DEVICE inline double two_byte_value(double first, double second) noexcept {
  return first + second * second_byte_step;
}

/// What was measured while a query was rounded: sums of x'^2, of the squares of two_byte_value(), and of the squares of
/// what was left.
VICINAL_HOST_DEVICE inline QuantizationErrors two_byte_errors(double xx, double values, double ee,
                                                              double step) noexcept {
  return {xx, values * step * step, ee, 0, 0, 0};
}

/// The product with a row's bytes, in steps of both: exact. first, second: the sums of the query's bytes times the
/// row's.
VICINAL_HOST_DEVICE inline double two_byte_product(std::int32_t first, std::int32_t second) noexcept {
  return static_cast<double>(first) + static_cast<double>(second) * second_byte_step;
}

/// EXCLUDE iff t > this, with t of product_distance() by two_byte_product(): every such row of the tile has a true
/// distance above theta. square, norms: of the query in two bytes.
VICINAL_HOST_DEVICE inline float two_byte_threshold(const BoundModel& model, double theta, double square,
                                                    const FilterNorms& norms, const FilterNorms& tile) noexcept {
  if (model.sum == Sum::products) return up32(int8_bound(threshold_coeffs(model, theta, square, norms), tile));
  const double by_distance = int8_bound(distance_coeffs(theta, square, norms), tile),
               by_product = int8_bound(product_coeffs(theta, norms), tile);
  return up32(std::min(by_distance, by_product));
}

}  // namespace vicinal
