// The proof of the filter, in one place: what may be excluded, and why nothing that matters is.
//
// A filter sees rounded rows xhat = float((x - centre) * scale). For each row it knows, rounded outward,
//   e >= |x' - xhat|   the quantization error, measured, in the norm of the sum,   and   n >= |xhat|.
// Its arithmetic is a chain of float operations with a known worst case. docs/exactness.md has the derivations.
//
// Every threshold is first inflated for the rounding of keys (theta_of_key): the order is decided by the value rounded
// to the output type, so a row that is a hair farther than the k-th may still tie with it and win by its smaller id.
// Only a row whose true distance exceeds theta has a strictly larger key, and only such rows may be excluded.
//
// All distances here are in filter units: true distance times `scale` (a power of two), except for unit rows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/both.hpp"
#include "core/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

inline constexpr double float_u = 0x1p-24;  // half an ulp of float, relative
inline constexpr double double_u = 0x1p-53;
inline constexpr double infinite = std::numeric_limits<double>::infinity();

/// The smallest float that is certainly >= value, and the largest that is certainly <= value.
/// Half an ulp of float is at most 2^-24 |v|, or 2^-150 among subnormals.
VICINAL_HOST_DEVICE inline float up32(double value) noexcept {
  return static_cast<float>(value + (std::fabs(value) * 0x1p-23 + 0x1p-149));
}
VICINAL_HOST_DEVICE inline float down32(double value) noexcept {
  return static_cast<float>(value - (std::fabs(value) * 0x1p-23 + 0x1p-149));
}

/// Facts of one precision of filters over one corpus.
struct BoundModel {
  Metric metric = Metric::euclidean;
  Sum sum = Sum::squares;                 // that the filter estimates
  bool unit = false;                      // of rows divided by their norms
  DistanceType type = DistanceType::f32;  // of the keys
  std::int64_t dims = 0;
  double scale = 1;  // corpus rows are multiplied by this power of two (1 for unit rows)
  double alpha = 0;  // |g~ - g| <= alpha |q^| |r^| for the precision's product of two rows
  double kappa = 0;  // the same for t of the l2 test, relative to (|q^| + |r^|)^2
  // Of the corpus's transform (src/prepare/transform.hpp): what its arithmetic moves a row by, in units of 2^-53 of the
  // row's length and besides; and the columns of the filter's rows, fewer than dims where these are projected. Then a
  // distance of the filter bounds the true one from below alone.
  double transformed = 0, underflow = 1e-300;
  std::int64_t columns = 0;
  bool projected = false;
  bool direct = false;  // l2 by squares of differences in float: no kappa, and an error relative to the distance itself

  /// chain: float operations that round, an element: 1 with fused multiply-add, 2 without, 0 for bytes, whose sums are
  /// exact.
  BoundModel(Metric m, DistanceType t, std::int64_t d, double s, int chain)
      : metric(m), sum(filter_sum_of(m)), unit(row_of(m).filter == FilterRows::unit), type(t), dims(d), scale(s),
        columns(d) {
    const double nu = static_cast<double>(chain) * static_cast<double>(d) * float_u;
    alpha = nu < 0.25 ? nu / (1.0 - nu) : infinite;  // beyond 4 million columns float proves nothing
    kappa = chain > 0 ? alpha / 2 + 6 * float_u : 0;
  }

  /// Relative error of a canonical value against the true one, generously.
  VICINAL_HOST_DEVICE double canonical_error() const noexcept {
    return (static_cast<double>(dims) / 16 + 20) * double_u;
  }
  VICINAL_HOST_DEVICE double key_relative() const noexcept {
    return type == DistanceType::f64 ? 2 * canonical_error() : 0x1p-22;
  }
  /// Keys this small may have underflowed; a euclidean key of f64 rows does so at the root of the smallest double.
  VICINAL_HOST_DEVICE double key_absolute() const noexcept {
    if (type != DistanceType::f64) return 0x1p-149;
    return metric == Metric::euclidean ? 0x1p-500 : 0x1p-1000;
  }

  /// Relative error of x' itself: subtraction, norm, division, rotation, and projection.
  VICINAL_HOST_DEVICE double evaluated() const noexcept {
    return (static_cast<double>(dims) / 32 + 32 + transformed) * double_u;
  }

  /// What a sum of squares of differences in float is to be multiplied by to be no less than the true one: two
  /// roundings of a difference, one of each sum, and the term's.
  VICINAL_HOST_DEVICE double direct_wider() const noexcept {
    return (1 + (static_cast<double>(dims) + 8) * 2 * float_u) / (1 - 16 * double_u);
  }
};

/// Whether the model is of bytes, whose products have no error.
VICINAL_HOST_DEVICE inline bool of_bytes(const BoundModel& model) noexcept {
  return model.alpha == 0 && !model.direct && model.sum != Sum::magnitudes && model.sum != Sum::largest;
}

/// One row or query as the filter sees it. e, n: rounded up. low: at most |x'|, and 0 where it was not measured.
/// lowered: how far a row's term lies below |x^|^2 - e^2, so that it is not above |x'|^2 either; of squares in bytes.
struct FilterNorms {
  double e = 0;
  double n = 0;
  double low = 0;
  double lowered = 0;
};

/// Maxima over the rows of a tile grow with each of them; of low it has none.
VICINAL_HOST_DEVICE inline void take_maxima(FilterNorms& tile, const FilterNorms& row) noexcept {
  tile.e = std::max(tile.e, row.e);
  tile.n = std::max(tile.n, row.n);
  tile.lowered = std::max(tile.lowered, row.lowered);
}

/// Sums measured while a row was rounded (any order of summation). `unit`: the row was divided by its norm first.
struct QuantizationErrors {
  double xx, nn, ee, e_abs, e_max, n_abs;
};

/// At most |x^|^2 - e^2, for rows whose distances are bounded by squares.
VICINAL_HOST_DEVICE inline double square_of_rounded(const BoundModel& model, const QuantizationErrors& f,
                                                    double e) noexcept {
  return f.nn * (1 - (static_cast<double>(model.dims) + 8) * double_u) - e * e;
}

VICINAL_HOST_DEVICE inline FilterNorms filter_norms(const BoundModel& model, const QuantizationErrors& f) noexcept {
  const double d = static_cast<double>(model.dims);
  const double sums = 1 + (d + 8) * double_u;  // each sum, any order, and its square root
  const double evaluated = model.evaluated();
  const double unit = model.unit ? 1.0 : 0.0;
  switch (bounded(model.sum)) {
    case BoundedSum::magnitudes: return {f.e_abs * sums + evaluated * (f.n_abs + f.e_abs) + 1e-300, f.n_abs * sums};
    case BoundedSum::largest: return {f.e_max * sums + evaluated * (f.n_abs + f.e_abs) + 1e-300, f.n_abs * sums};
    case BoundedSum::squares:
    case BoundedSum::products:
    case BoundedSum::none: break;
  }
  const double root = std::sqrt(f.xx), moved = evaluated * (root + unit) + model.underflow;
  FilterNorms norms{std::sqrt(f.ee) * sums + moved, std::sqrt(f.nn) * sums};
  if (!of_bytes(model) || model.sum != Sum::squares) return norms;
  norms.low = std::max(root * (2 - sums) - moved, 0.0);
  norms.lowered = std::max(square_of_rounded(model, f, norms.e) - norms.low * norms.low * (1 - 4 * double_u), 0.0) *
                  (1 + 4 * double_u);
  return norms;
}

/// A row with this term is always a candidate: one too large for its tile, or a degenerate one, whose distance of 1 to
/// everything the filter cannot see.
inline constexpr float never_excluded = -std::numeric_limits<float>::infinity();

/// The term that the kernel adds to multiplier * g~, finite or never_excluded.
VICINAL_HOST_DEVICE inline float row_term(const BoundModel& model, const QuantizationErrors& f,
                                          const FilterNorms& norms) noexcept {
  double term = 0;
  if (model.direct) {
    term = static_cast<double>(down32(-norms.e * norms.e * model.direct_wider()));
  } else if (model.sum == Sum::squares) {
    const double square = square_of_rounded(model, f, norms.e) - norms.lowered;
    term = static_cast<double>(down32(square - model.kappa * norms.n * norms.n));
  }
  // A row so much larger than the sample that a product with a query (at most 2^61 an element) could leave float
  // half way would spoil its whole tile; it is kept out of the tile's maxima and is always a candidate.
  const bool sound =
      std::isfinite(term) && std::isfinite(norms.e) && norms.n * std::sqrt(static_cast<double>(model.dims)) < 0x1p65;
  return sound ? static_cast<float>(term) : never_excluded;
}

/// What the kernel multiplies its sum by.
VICINAL_HOST_DEVICE inline float multiplier(Sum sum) noexcept {
  return sum == Sum::products ? -1.0F : (sum == Sum::magnitudes || sum == Sum::largest ? 1.0F : -2.0F);
}

/// theta, in filter units: a row whose true distance is above it has a key strictly above `key` (folded key).
/// key = +inf: nothing may be excluded yet. For inner products the result is a folded product, not a distance.
VICINAL_HOST_DEVICE inline double theta_of_key(const BoundModel& model, double key, double query_scale) noexcept {
  if (!(key < infinite)) return infinite;
  const double raised = key + std::fabs(key) * model.key_relative() + model.key_absolute();
  switch (row_of(model.metric).triangle) {
    case Triangle::square: return model.scale * std::sqrt(std::max(raised, 0.0)) * (1 + 4 * double_u);
    case Triangle::chord: {
      const double eps = (static_cast<double>(model.dims) / 16 + 18) * double_u;
      return std::sqrt(2 * std::max(raised + eps, 0.0)) * (1 + 4 * double_u);
    }
    case Triangle::none: return raised * model.scale * query_scale;
    case Triangle::distance: break;
  }
  return model.scale * raised * (1 + 4 * double_u);
}

/// The largest canonical value of a row whose true distance is at most `upper` (filter units), before rounding to a
/// key.
VICINAL_HOST_DEVICE inline double value_of_upper(const BoundModel& model, double upper, double query_scale) noexcept {
  const double wider = 1 + 2 * model.canonical_error();
  switch (row_of(model.metric).triangle) {
    case Triangle::square: return (upper / model.scale) * (upper / model.scale) * wider;
    case Triangle::chord: return upper * upper / 2 * wider + (static_cast<double>(model.dims) / 16 + 18) * double_u;
    case Triangle::none: return upper / (model.scale * query_scale);  // its canonical error is in ip_slack
    case Triangle::distance: break;
  }
  return upper / model.scale * wider;
}

/// Inner product: |g~ - true product| plus the canonical routine's own error, for rows of a tile (e_t, n_t).
VICINAL_HOST_DEVICE inline double ip_slack(const BoundModel& model, const FilterNorms& q,
                                           const FilterNorms& tile) noexcept {
  const double canonical = (static_cast<double>(model.dims) / 32 + 8) * double_u;
  return q.e * (tile.n + tile.e) + q.n * tile.e +
         (model.alpha + 6 * float_u + canonical) * (q.n + q.e) * (tile.n + tile.e) + 0x1p-120;
}

/// EXCLUDE iff t > threshold: every such row of the tile has a true distance above theta. `tile` holds the maxima of
/// its rows. Underflow of products below 2^-149 is covered by the absolute 2^-120 (largest elements are about 1).
VICINAL_HOST_DEVICE inline float threshold(const BoundModel& model, double theta, double query_square,
                                           const FilterNorms& q, const FilterNorms& tile) noexcept {
  double bound = infinite;
  // A partial sum could leave float and come back as an infinity that looks far away: then nothing is excluded.
  if (!(q.n * tile.n < 0x1p120 && q.n + tile.n < 0x1p120)) return std::numeric_limits<float>::infinity();
  switch (bounded(model.sum)) {
    case BoundedSum::squares: {
      const double a = theta + q.e;
      if (model.direct) {
        bound = (a * a + 2 * a * tile.e) * model.direct_wider() + 0x1p-120;
        break;
      }
      bound = a * a * (1 + 8 * double_u) - query_square + model.kappa * q.n * q.n + 2 * a * tile.e +
              2 * model.kappa * q.n * tile.n + 0x1p-50 * query_square + 0x1p-120;
      break;
    }
    case BoundedSum::products: bound = theta + std::fabs(theta) * 4 * double_u + ip_slack(model, q, tile); break;
    case BoundedSum::magnitudes:
      bound = (theta + q.e + tile.e) / (1 - (static_cast<double>(model.dims) + 2) * float_u) * (1 + 8 * double_u) +
              0x1p-120;
      if (!((static_cast<double>(model.dims) + 2) * float_u < 0.5)) bound = infinite;
      break;
    case BoundedSum::largest: bound = (theta + q.e + tile.e) / (1 - 2 * float_u) * (1 + 8 * double_u) + 0x1p-120; break;
    case BoundedSum::none: break;
  }
  return std::isnan(bound) ? std::numeric_limits<float>::infinity() : up32(bound);
}

/// An upper bound, in filter units, of the true distance (folded product for ip) of a row that gave t in that tile.
VICINAL_HOST_DEVICE inline double upper_of(const BoundModel& model, float t, double query_square, const FilterNorms& q,
                                           const FilterNorms& tile) noexcept {
  const double value = static_cast<double>(t);
  double upper = infinite;
  switch (bounded(model.sum)) {
    case BoundedSum::squares: {
      const double norms = q.n + tile.n;
      if (model.direct) {
        const double sum =
            value + std::fabs(value) * 0x1p-22 + tile.e * tile.e * model.direct_wider() * (1 + 0x1p-20) + 0x1p-120;
        upper = (std::sqrt(std::max(sum, 0.0) * model.direct_wider()) + q.e + tile.e) * (1 + 8 * double_u);
        break;
      }
      const double square = query_square * (1 + 0x1p-50) + value + tile.e * tile.e + model.kappa * tile.n * tile.n +
                            model.kappa * norms * norms + 0x1p-120;
      upper = (std::sqrt(std::max(square, 0.0)) + q.e + tile.e) * (1 + 8 * double_u);
      break;
    }
    case BoundedSum::products: upper = value + ip_slack(model, q, tile); break;
    case BoundedSum::magnitudes:
      upper = (value / (1 - (static_cast<double>(model.dims) + 2) * float_u) + q.e + tile.e) * (1 + 8 * double_u) +
              0x1p-120;
      break;
    case BoundedSum::largest: upper = (value / (1 - 2 * float_u) + q.e + tile.e) * (1 + 8 * double_u) + 0x1p-120; break;
    case BoundedSum::none: break;
  }
  return upper >= -infinite && !std::isnan(upper) && std::isfinite(value) ? upper : infinite;
}

// ---- bytes: x^ = step * i with whole i, so that products of rows are exact in 32 bits ----
//
// A unit of the sum I of i_q i_r is worth `unit` in t = term - unit * I. The kernel starts from the row's bias >= -term
// / unit, adds
// (i_r + 128) i_q column by column, and excludes where that is below a threshold; `shift` is the part that belongs to
// the 128.

/// Biases and thresholds are within 2^30 and 2^29; sums of up to 255 * 128 a column stay below 2^29 in so many columns.
inline constexpr std::int64_t most_int8_dims = 16384;
inline constexpr double most_bias = 0x1p30, most_threshold = 0x1p29;

VICINAL_HOST_DEVICE inline double int8_unit(Sum sum, float query_step, float row_step) noexcept {
  return -static_cast<double>(multiplier(sum)) * static_cast<double>(query_step) * static_cast<double>(row_step);
}

/// Doubles of that size are known to 2^-20, so a bias may be so much below what it should be; int8_slack covers it.
inline constexpr double int8_slack = 0x1p-10;

VICINAL_HOST_DEVICE inline std::int32_t whole_above(double value) noexcept {
  const auto cut = static_cast<std::int32_t>(value);
  return cut + static_cast<std::int32_t>(static_cast<double>(cut) < value);
}

/// At least -term / unit; a term that is not finite starts at the top and is never excluded. inverse: 1 / unit.
VICINAL_HOST_DEVICE inline std::int32_t int8_bias(float term, double inverse) noexcept {
  const double bias = -static_cast<double>(term) * inverse;
  if (!(bias < most_bias)) return static_cast<std::int32_t>(most_bias);
  return whole_above(std::max(bias, -most_bias));
}

/// threshold() of a query for any tile, as far as it can be computed before: base + by_e * e + by_n * (n + e).
struct ThresholdCoeffs {
  double base = infinite, by_e = 0, by_n = 0;
};
/// The same for floats, as devices use it: (n + e) stands for n, and one factor for the error of every term.
VICINAL_HOST_DEVICE inline ThresholdCoeffs float_threshold_coeffs(const BoundModel& model, double theta,
                                                                  double query_square, const FilterNorms& q) noexcept {
  constexpr double rounded = 1 + 4 * double_u, sums = 1 + 8 * double_u;
  const double reach = theta + q.e;
  switch (bounded(model.sum)) {
    case BoundedSum::products: {
      const double relative = (static_cast<double>(model.dims) / 32 + 8) * double_u + model.alpha + 6 * float_u;
      return {theta + std::fabs(theta) * 4 * double_u + 0x1p-120, q.n * rounded,
              (q.e + relative * (q.n + q.e)) * rounded};
    }
    case BoundedSum::magnitudes:
    case BoundedSum::largest: {
      const double error = model.sum == Sum::magnitudes ? (static_cast<double>(model.dims) + 4) * float_u : 4 * float_u;
      const double wider = error < 0.5 ? (1 + 16 * double_u) / (1 - error) : infinite;
      return {reach * wider + 0x1p-120, wider, 0};
    }
    case BoundedSum::squares:
    case BoundedSum::none: break;
  }
  if (model.direct)
    return {reach * reach * model.direct_wider() * sums + 0x1p-120, 2 * reach * model.direct_wider() * rounded, 0};
  return {reach * reach * sums - query_square + model.kappa * q.n * q.n * rounded + 0x1p-50 * query_square + 0x1p-120,
          2 * reach * rounded, 2 * model.kappa * q.n * rounded};
}
/// The threshold of squares in bytes that follows from the distance of the rounded rows, which errors move by their sum
/// at most.
VICINAL_HOST_DEVICE inline ThresholdCoeffs distance_coeffs(double theta, double query_square,
                                                           const FilterNorms& q) noexcept {
  const double a = theta + q.e;
  return {a * a * (1 + 8 * double_u) - query_square + 0x1p-50 * query_square + 0x1p-120, 2 * a * (1 + 4 * double_u), 0};
}
/// The threshold that follows from their product and the lengths of the rows themselves (docs/exactness.md, 8.11): less
/// where these are below theta.
VICINAL_HOST_DEVICE inline ThresholdCoeffs product_coeffs(double theta, const FilterNorms& q) noexcept {
  constexpr double rounded = 1 + 4 * double_u;
  return {theta * theta * (1 + 8 * double_u) - q.low * q.low * (1 - 4 * double_u) + 0x1p-120, 2 * q.n * rounded,
          2 * q.e * rounded};
}
/// The coefficients of a query of bytes, by whichever bound is closer; as theta falls, one follows the other, and a
/// mixture of both bounds nothing. Who reads them while they change has a low of 0, with which it is always the first.
VICINAL_HOST_DEVICE inline ThresholdCoeffs threshold_coeffs(const BoundModel& model, double theta, double query_square,
                                                            const FilterNorms& q) noexcept {
  if (model.sum == Sum::products) {
    const double canonical = (static_cast<double>(model.dims) / 32 + 8) * double_u;
    return {theta + std::fabs(theta) * 4 * double_u + 0x1p-120, q.n * (1 + 4 * double_u),
            (q.e + canonical * (q.n + q.e)) * (1 + 4 * double_u)};
  }
  return q.low > 0 && theta > q.n ? product_coeffs(theta, q) : distance_coeffs(theta, query_square, q);
}
/// The coefficients of a query's threshold, by the model's arithmetic: of bytes or of floats.
VICINAL_HOST_DEVICE inline ThresholdCoeffs coeffs_of_query(const BoundModel& model, double theta, double query_square,
                                                           const FilterNorms& q) noexcept {
  return of_bytes(model) ? threshold_coeffs(model, theta, query_square, q)
                         : float_threshold_coeffs(model, theta, query_square, q);
}

VICINAL_HOST_DEVICE inline double int8_bound(const ThresholdCoeffs& coeffs, const FilterNorms& tile) noexcept {
  return coeffs.base + coeffs.by_e * tile.e + coeffs.by_n * (tile.n + tile.e);
}

/// EXCLUDE iff the kernel's sum is below this: every such row of the tile has a true distance above theta.
/// Sums are whole, so a threshold between two of them may be raised to the next.
VICINAL_HOST_DEVICE inline std::int32_t int8_threshold(const ThresholdCoeffs& coeffs, const FilterNorms& tile,
                                                       double inverse, double shift) noexcept {
  const double limit = shift - int8_bound(coeffs, tile) * inverse - int8_slack;
  if (!(limit > -0x1p31)) return std::numeric_limits<std::int32_t>::min();  // NaN among them
  return whole_above(limit < most_threshold ? limit : most_threshold);
}

/// At most the t of a row whose sum came out as this.
VICINAL_HOST_DEVICE inline float int8_distance(std::int32_t sum, double unit, double shift) noexcept {
  return down32(unit * (shift - static_cast<double>(sum) - int8_slack));
}

/// upper_of() for a t from int8_distance, or from product_distance, which took off less: a bias is up to 1 above what it
/// stands for, and the term was rounded down.
VICINAL_HOST_DEVICE inline double int8_upper(const BoundModel& model, float t, double unit, double query_square,
                                             const FilterNorms& q, const FilterNorms& tile) noexcept {
  const double value =
      static_cast<double>(t) + std::fabs(static_cast<double>(t)) * 0x1p-22 + (1 + 2 * int8_slack) * unit;
  double upper = value + ip_slack(model, q, tile);
  if (model.sum != Sum::products) {
    const double square = query_square * (1 + 0x1p-50) + value + tile.e * tile.e + tile.lowered * (1 + 4 * double_u) +
                          0x1p-22 * tile.n * tile.n + 0x1p-120;
    upper = (std::sqrt(std::max(square, 0.0)) + q.e + tile.e) * (1 + 8 * double_u);
  }
  return std::isfinite(upper) ? upper : infinite;
}

}  // namespace vicinal
