// A prepared matrix: rows or queries in the filter's form, and the transform that brought them there. Rows and queries
// are in positions: sorted by their largest element, so that the rows of a tile can share one step.
#pragma once
#include <cstdint>

#include "core/bound.hpp"
#include "core/divide.hpp"
#include "cuda/search/core/tiles.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// Columns are read several at a time.
VICINAL_HOST_DEVICE inline std::int64_t centre_columns(std::int64_t dims) { return (dims + 127) / 128 * 128; }

/// The transform that makes filter rows of rows (prepare/transform.hpp).
struct DeviceTransform {
  const float* centre = nullptr;  // of columns, with zeros up to centre_columns()
  double scale = 1, integral = 0;
  float least_step = 0;
  double step = 0;  // of all rows and queries, where sums are of differences in int8
  bool usable = true;
  bool duplicates = false;  // many rows are equal (duplicates.cuh)
};

/// A query's quantization error and norms, its square and its scale.
struct QuantizedQuery {
  FilterNorms norms;
  double square = 0, scale = 1;
  bool filterable = true;
};

/// Rows or queries in the filter's form. Its arrays but `order` and those that say position are by row.
struct PreparedMatrix {
  const void* rows = nullptr;  // dense, of `dtype`
  DType dtype = DType::f32;
  std::int64_t count = 0, dims = 0, width = 0;  // width: filter_width
  double *self = nullptr, *mean = nullptr;      // cosine and correlation
  float* sizes = nullptr;                       // largest element of the filter row
  std::uint32_t* order = nullptr;               // row of a position
  std::int8_t* bytes = nullptr;                 // of positions, `width` each, whole tiles
  TileMetadata* tile_metadata = nullptr;
  unsigned long long* largest = nullptr;  // bits of the largest e and n of all tiles
  double* scales = nullptr;               // queries: of inner products
  std::uint8_t* filterable = nullptr;     // queries
  QuantizedQuery* quantized = nullptr;    // queries: of positions
  double* values = nullptr;               // queries: fp64, without their mean for correlation
  // Queries in two bytes a column (core/bound_two_bytes.hpp), by position: the second bytes as the first ones lie, and
  // what is known of both. Null where nothing is refined.
  std::int8_t* second_bytes = nullptr;
  QuantizedQuery* two_bytes = nullptr;

  VICINAL_HOST_DEVICE std::int64_t tiles() const { return divide_up(count, tile_rows); }
};

}  // namespace vicinal::cuda
