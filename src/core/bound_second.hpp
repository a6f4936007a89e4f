// The proof of refinement by second-level codes: a byte more of each row, read for the few that bytes alone cannot
// exclude
// (docs/exactness.md, section 8). With f = x' - x^ the quantization error of a row's or a query's first byte,
//
//   q'.r' = q^.r^ + f_q.r' + q^.f_r.
//
// The first product is the tile's sum. The second byte of a row holds r' to four bits (u) and f_r to four bits (v),
// that of a query holds f_q to eight (p). Both products that are left then come from one exact sum of bytes, and
//
//   |q'.r' - (q^.r^ + p.u + q^.v)| <= |f_q - p| |r'| + |p| |r' - u| + |q^| |f_r - v|,                  second_slack
//
// each factor measured and rounded up while rows are rounded, as e and n are. Units are those of bound.hpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/bound.hpp"

namespace vicinal {

/// Steps of the second byte, in steps s of the first: u = s (16 T - 120.5), v = s (L - 7.5) / 16 with T and L of four
/// bits, p = s j / 256.
inline constexpr double second_coarse_middle = 120.5, second_fine = 1.0 / 16, second_fine_middle = 7.5,
                        second_query = 1.0 / 256;

/// Sums measured while a second byte was made, in filter units: xx of x'^2; `coarse` and `fine` of a row (r' - u)^2 and
/// (f_r - v)^2; of a query `coarse` p^2 and `fine` (f_q - p)^2.
struct SecondQuantizationErrors {
  double xx = 0, coarse = 0, fine = 0;
};

/// One row or query; roots of the above, all rounded up, and |x'| rounded down too.
struct SecondNorms {
  double n = 0, coarse = 0, fine = 0, low = 0;
};

inline void take_maxima(SecondNorms& tile, const SecondNorms& row) noexcept {
  tile.n = std::max(tile.n, row.n);
  tile.coarse = std::max(tile.coarse, row.coarse);
  tile.fine = std::max(tile.fine, row.fine);
}

inline SecondNorms second_norms(const BoundModel& model, const SecondQuantizationErrors& f) noexcept {
  const double d = static_cast<double>(model.dims);
  const double sums = 1 + (d + 8) * double_u, root = std::sqrt(f.xx);
  const double evaluated = model.evaluated() * (root + (model.unit ? 1.0 : 0.0)) + model.underflow;
  return {.n = root * sums + evaluated,
          .coarse = std::sqrt(f.coarse) * sums + evaluated,
          .fine = std::sqrt(f.fine) * sums + evaluated,
          .low = std::max(root * (2 - sums) - evaluated, 0.0)};
}

/// What refinement adds to the t of a row besides products: with it t is of |r'|^2. Not finite: the row is never
/// excluded (-inf).
inline float second_term(const BoundModel& model, const SecondNorms& row, float term) noexcept {
  if (!std::isfinite(term)) return -std::numeric_limits<float>::infinity();
  return model.sum == Sum::products ? 0.0F : down32(row.low * row.low * (1 - 4 * double_u) - static_cast<double>(term));
}

/// At most t after refinement. sum: of j T + i_q L. shift: what the middles of T and L add to it, `second_shift` of the
/// query.
inline float second_t(float t, float term, double unit, std::int64_t sum, double shift) noexcept {
  return down32(static_cast<double>(t) + static_cast<double>(term) -
                unit * (static_cast<double>(sum) * second_fine + shift));
}

/// first: sum of i_q; quantization_error: sum of j.
inline double second_shift(std::int64_t first, std::int64_t quantization_error) noexcept {
  return -second_query * second_coarse_middle * static_cast<double>(quantization_error) -
         second_fine * second_fine_middle * static_cast<double>(first);
}

/// rounded: |q^|, rounded up.
inline double second_slack(const SecondNorms& q, double rounded, const SecondNorms& tile) noexcept {
  return (q.fine * tile.n + q.coarse * tile.coarse + rounded * tile.fine) * (1 + 8 * double_u);
}
/// The canonical routine's own error, as in ip_slack.
inline double second_canonical(const BoundModel& model, const SecondNorms& q, const SecondNorms& tile) noexcept {
  return (static_cast<double>(model.dims) / 32 + 8) * double_u * q.n * tile.n;
}

/// EXCLUDE iff the second t > this: every such row of the tile has a true distance above theta.
inline float second_threshold(const BoundModel& model, double theta, const SecondNorms& q, double rounded,
                              const SecondNorms& tile) noexcept {
  const double slack = second_slack(q, rounded, tile);
  if (model.sum == Sum::products)
    return up32(theta + std::fabs(theta) * 4 * double_u + slack + second_canonical(model, q, tile) + 0x1p-120);
  return up32(theta * theta * (1 + 8 * double_u) - q.low * q.low * (1 - 4 * double_u) + 2 * slack + 0x1p-120);
}

/// An upper bound of the true distance (folded product) of a row that has this second t in that tile. What roundings
/// and the whole numbers of seeds took off t is given back: of the terms of t, none is beyond eight times the square of
/// both lengths.
inline double second_upper(const BoundModel& model, float t, double unit, const SecondNorms& q, double rounded,
                           const SecondNorms& tile) noexcept {
  if (!std::isfinite(t) || model.projected) return infinite;
  const double lengths = q.n + tile.n;
  const double value = static_cast<double>(t) + (1 + 2 * int8_slack) * unit + lengths * lengths * 0x1p-18 + 0x1p-120;
  const double slack = second_slack(q, rounded, tile);
  if (model.sum == Sum::products) return value + slack + second_canonical(model, q, tile);
  return std::sqrt(std::max(q.n * q.n + value + 2 * slack, 0.0)) * (1 + 8 * double_u);
}

}  // namespace vicinal
