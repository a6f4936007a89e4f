// One comparison for the rows of a group, for a device that has the products of several rows with a query at hand
// (docs/exactness.md,
// 8.9). With A_G the least term of the group's rows and e, n their largest norms, a row that must stay has a product I
// of integers with
//
//   I >= (A_G - bound) / unit,   bound = base + by_e * e + by_n * (n + e),   unit = multiplier * s_q * s_r,
//
// so a group whose largest product is below that holds no such row. Both factors of 1 / unit are applied beforehand, to
// what belongs to the query and to what belongs to the group; in single precision, each part moved by 2^-20 of its
// size, where it has fewer than eight roundings.
#pragma once
#include "core/bound_quick.hpp"

namespace vicinal {

/// The rows of a group: their least term, and the largest of their norms. Masked rows, whose term is +inf, have no part
/// in it.
struct RowGroup {
  float least = std::numeric_limits<float>::infinity();
  FilterNorms maxima;
};
VICINAL_HOST_DEVICE inline void take_row(RowGroup& group, float term, const FilterNorms& norms) noexcept {
  group.least = std::min(group.least, term);
  take_maxima(group.maxima, norms);
}

/// What the rows of a group have in common, divided by their step. term: of the least, lowered; e, n: the largest,
/// raised, n with e added.
struct alignas(16) GroupNorms {
  float term, inverse, e, n;
};
/// What threshold_coeffs_f32 has of a query, divided by its step and by the multiplier of products.
struct GroupCoeffs {
  float inverse, base, by_e, by_n;
};

inline constexpr double group_slack = 0x1p-20;
inline constexpr float most_group_part = 0x1p100F;

/// inverse: 1 / step of the rows.
VICINAL_HOST_DEVICE inline GroupNorms group_norms(const RowGroup& group, double inverse) noexcept {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (group.least == infinity) return {infinity, 1, 0, 0};  // masked rows alone
  const double raised = inverse * (1 + group_slack), term = static_cast<double>(group.least) * inverse,
               low = term - std::fabs(term) * group_slack;
  const float e = up32(group.maxima.e * raised), n = up32((group.maxima.n + group.maxima.e) * raised);
  // With a row that is always a candidate: no query with a bound has one as large, and a query without any row keeps
  // its infinite one.
  if (!(low > -0x1p100 && inverse > 0x1p-100 && e < most_group_part && n < most_group_part))
    return {-0x1p127F, 0x1p-60F, 0, 0};
  return {static_cast<float>(std::min(low, 0x1p127)), static_cast<float>(inverse), e, n};
}

/// inverse: 1 / (multiplier * step of the queries). Nothing is a candidate of a query whose base is -inf.
VICINAL_HOST_DEVICE inline GroupCoeffs group_coeffs(const ThresholdCoeffsF32& coeffs, float inverse) noexcept {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (!(coeffs.base > -infinity)) return {0, -infinity, 0, 0};
  constexpr auto slack = static_cast<float>(group_slack), raised = 1 + slack;
  const float by_e = coeffs.by_e * inverse * raised, by_n = coeffs.by_n * inverse * raised;
  if (!(by_e < most_group_part && by_n < most_group_part)) return {inverse, infinity, 0, 0};
  return {inverse, (coeffs.base + std::fabs(coeffs.base) * slack) * inverse, by_e, by_n};
}

/// The loosest of several queries: at least what int8_bound says of each of them.
VICINAL_HOST_DEVICE inline ThresholdCoeffsF32 loosest(const ThresholdCoeffsF32& a,
                                                      const ThresholdCoeffsF32& b) noexcept {
  return {std::max(a.base, b.base), std::max(a.by_e, b.by_e), std::max(a.by_n, b.by_n)};
}

/// A group may have a row that stays iff the largest of their products with the query is at least this; NaN, of masked
/// rows and what knows nothing, means none. Products are whole, so 1/16 less makes no difference but where parts of it
/// underflow.
VICINAL_HOST_DEVICE inline float group_threshold(const GroupCoeffs& query, const GroupNorms& group) noexcept {
  const float bound =
      std::fma(query.base, group.inverse, std::fma(query.by_e, group.e, std::fma(query.by_n, group.n, 0x1p-4F)));
  return std::fma(query.inverse, group.term, -bound);
}

/// At most the t of a row with this term and product, as int8_distance has it of a sum from the row's bias on.
VICINAL_HOST_DEVICE inline float product_distance(float term, double product, double unit) noexcept {
  if (term == std::numeric_limits<float>::infinity()) return term;  // of a masked row
  const double wide = static_cast<double>(term), products = unit * product;
  return down32(wide - products - (std::fabs(wide) + std::fabs(products)) * 0x1p-50);
}

}  // namespace vicinal
