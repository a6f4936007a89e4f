// The precisions of the cascade as a device has them, a row each: what the stages ask of a precision stands here and nowhere else.
#pragma once
#include <cmath>
#include <cstdint>
#include <iterator>

#include "core/bound.hpp"
#include "core/precision.hpp"

namespace vicinal::cuda {

/// Bytes of a packed row: 64, or whole slabs of 128. A tile lies in memory slab after slab as shared memory is to hold it, so that
/// one copy brings it: lines of a slab's bytes, their 16-byte chunks exchanged so that eight lines meet in no bank, which is how
/// tensor cores read them, too.
VICINAL_HOST_DEVICE inline std::int64_t packed_width(std::int64_t dims) {
  return dims <= 64 ? 64 : (dims + 127) / 128 * 128;
}
/// Bytes of a row of halves or floats: whole slabs of 64.
inline std::int64_t half_width(std::int64_t dims) { return (dims * 2 + 63) / 64 * 64; }
inline std::int64_t float_width(std::int64_t dims) { return (dims * 4 + 63) / 64 * 64; }

/// The models of the filters' arithmetic. Sums of int8 are exact.
inline BoundModel int8_model(Metric metric, DistanceType type, std::int64_t dims, double scale) {
  return {metric, type, dims, scale, 0};
}
/// Sums of halves are trusted to what the worst device known does: 18 roundings of single precision for 16 products.
inline BoundModel fp16_model(Metric metric, DistanceType type, std::int64_t dims, double scale) {
  BoundModel model(metric, type, dims, scale, 0);
  const double alpha = 18 * std::ceil(static_cast<double>(dims) / 16) * 2 * float_u;
  model.alpha = alpha < 0.25 ? alpha : infinite;
  model.kappa = model.alpha / 2 + 6 * float_u;
  return model;
}
/// Squares are summed of differences; products round once a column.
inline BoundModel f32_model(Metric metric, DistanceType type, std::int64_t dims, double scale) {
  BoundModel model(metric, type, dims, scale, filter_sum_of(metric) == Sum::products ? 1 : 0);
  model.direct = model.sum == Sum::squares;
  return model;
}

struct FilterPrecision {
  Precision precision;
  bool prepared;  // it takes rows as a prepared corpus has them; else it packs its own for each search
  std::int64_t (*width)(std::int64_t dims);  // bytes of a packed row
  BoundModel (*model)(Metric metric, DistanceType type, std::int64_t dims, double scale);
};

/// In the order of the enum.
inline constexpr FilterPrecision filter_precisions[] = {{Precision::int8, true, packed_width, int8_model},
                                                        {Precision::fp16, false, half_width, fp16_model},
                                                        {Precision::f32, false, float_width, f32_model},
                                                        {Precision::canonical, true, packed_width, int8_model}};

constexpr const FilterPrecision& filter_precision(Precision precision) {
  return filter_precisions[static_cast<std::size_t>(precision)];
}
static_assert(
    [] {
      for (const PrecisionRow& known : precision_rows)
        if (filter_precision(known.precision).precision != known.precision) return false;
      return std::size(filter_precisions) == std::size(precision_rows);
    }(),
    "filter_precisions has a row for each precision, in its order");

inline std::int64_t filter_width(Precision precision, std::int64_t dims) {
  return filter_precision(precision).width(dims);
}
inline BoundModel model_of(Metric metric, DistanceType type, std::int64_t dims, double scale, Precision precision) {
  return filter_precision(precision).model(metric, type, dims, scale);
}

}  // namespace vicinal::cuda
