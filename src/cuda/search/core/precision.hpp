// Each precision of the cascade is a row here: what the stages
// and the cost model ask of it stands in it and nowhere else.
#pragma once
#include <cmath>
#include <cstdint>
#include <iterator>

#include "core/bound.hpp"
#include "core/precision.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// Bytes of a packed row: 64, or whole slabs of 128. A tile lies in memory slab after slab as shared memory is to hold
/// it, so that one copy brings it: lines of a slab's bytes, their 16-byte chunks exchanged so that eight lines meet in
/// no bank, which is how tensor cores read them, too.
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

/// A precision as every stage and the cost model ask for it. A new one
/// is a row, its kernels (filter/table.hpp) and what packs its rows.
struct FilterPrecision {
  Precision precision;
  bool prepared;        // it takes rows as a prepared corpus has them; else it packs its own for each search
  bool tensor_cores;    // they do its sums of products
  int element_bytes;    // of a packed row
  double tile_seconds;  // of one H200, for 128 rows x 256 queries x 128 columns on tensor cores (seconds.hpp)
  bool (*takes)(Sum sum, std::int64_t dims);  // whether a search filters by it
  std::int64_t (*width)(std::int64_t dims);   // bytes of a packed row
  BoundModel (*model)(Metric metric, DistanceType type, std::int64_t dims, double scale);
};

/// Which searches each filters: tensor cores multiply, other sums of int8
/// are of differences, and those of more columns would leave 32 bits.
constexpr bool has_byte_differences(Sum sum) { return sum == Sum::magnitudes || sum == Sum::largest; }
inline bool int8_takes(Sum sum, std::int64_t dims) {
  return (has_products(sum) || has_byte_differences(sum)) && dims <= most_int8_dims;
}
inline bool fp16_takes(Sum sum, std::int64_t /*dims*/) { return has_products(sum); }
inline bool f32_takes(Sum /*sum*/, std::int64_t /*dims*/) { return true; }

/// In the order of the enum.
inline constexpr FilterPrecision filter_precisions[] = {{.precision = Precision::int8,
                                                         .prepared = true,
                                                         .tensor_cores = true,
                                                         .element_bytes = 1,
                                                         .tile_seconds = 9.6e-9,
                                                         .takes = int8_takes,
                                                         .width = packed_width,
                                                         .model = int8_model},
                                                        {.precision = Precision::fp16,
                                                         .prepared = false,
                                                         .tensor_cores = true,
                                                         .element_bytes = 2,
                                                         .tile_seconds = 2.9e-8,
                                                         .takes = fp16_takes,
                                                         .width = half_width,
                                                         .model = fp16_model},
                                                        {.precision = Precision::f32,
                                                         .prepared = false,
                                                         .tensor_cores = false,
                                                         .element_bytes = 4,
                                                         .tile_seconds = 0,
                                                         .takes = f32_takes,
                                                         .width = float_width,
                                                         .model = f32_model},
                                                        {.precision = Precision::canonical,
                                                         .prepared = true,
                                                         .tensor_cores = false,
                                                         .element_bytes = 8,
                                                         .tile_seconds = 0,
                                                         .takes = f32_takes,
                                                         .width = packed_width,
                                                         .model = int8_model}};

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

/// How a prepared corpus has its rows, in a plan that begins with this precision: packed for it, or as they are.
constexpr Precision prepared_precision(Precision first) {
  return filter_precision(first).prepared ? first : Precision::canonical;
}
/// Whether rows lie in memory a line each, and what passes the filter has a code of its distance in float
/// (filter/float_mma.cuh). A corpus kept for the canonical precision is packed as for int8.
constexpr bool in_lines(Precision precision, Sum sum) { return in_floats(precision) || !has_products(sum); }
/// Whether tensor cores do a precision's sums.
constexpr bool on_tensor_cores(Precision precision, Sum sum) {
  return filter_precision(precision).tensor_cores && has_products(sum);
}
inline std::int64_t filter_width(Precision precision, std::int64_t dims) {
  return filter_precision(precision).width(dims);
}
inline BoundModel model_of(Metric metric, DistanceType type, std::int64_t dims, double scale, Precision precision) {
  return filter_precision(precision).model(metric, type, dims, scale);
}

/// Whether rows of this type that the first bytes do not exclude are refined with the queries' second bytes before they
/// are ranked: rows of more than a slab, four times as long as their bytes.
constexpr bool has_second_bytes(Precision precision, DType dtype, std::int64_t dims) {
  return precision == Precision::int8 && dtype == DType::f32 && dims > 128;
}

}  // namespace vicinal::cuda
