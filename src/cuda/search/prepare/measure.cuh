// PREPARE, its first kernel: rows are checked, and their norms and largest elements are taken. Queries too, of which more is remembered.
// order.cuh sorts what it measured, pack_int8.cuh and pack_float.cuh round it.
#pragma once
#include "cuda/search/core/element.cuh"

namespace vicinal::cuda {

inline constexpr int prepare_threads = 256;
inline constexpr int far_exponent = 60, extreme_exponent = 400;  // as in src/cpu/prepare/prepare.cpp and transform.hpp

struct Prepare {
  PreparedMatrix matrix;
  BoundModel model;
  DeviceTransform transform;
  bool filters = true;  // false: for the canonical precision
  bool is_query = false, degenerate_is_one = false;
  Counters* counters = nullptr;
  const std::uint8_t* duplicates = nullptr;  // of rows: excluded always, for enough rows like it come before
  float* squares = nullptr;                  // of rows, about: their lengths in the filter's form; or null
};

/// (x - shift) * factor of an element, before the centre is taken away.
struct RowMap {
  double shift, factor;
};
__device__ __forceinline__ RowMap row_map(const Prepare& args, std::int64_t row) {
  if (!args.model.unit) return {0.0, args.is_query ? args.matrix.scales[row] : args.transform.scale};
  const double self = args.matrix.self[row];
  return {args.model.metric == Metric::correlation ? args.matrix.mean[row] : 0.0, self > 0 ? 1.0 / sqrt(self) : 0.0};
}

/// Runs body(load), where load(i) is element i of the matrix in fp64, with the type decided before.
template <class Body>
__device__ __forceinline__ void with_elements(const PreparedMatrix& matrix, const Body& body) {
  if (matrix.dtype == DType::f32)
    body([rows = static_cast<const float*>(matrix.rows)](std::int64_t i) { return static_cast<double>(rows[i]); });
  else if (matrix.dtype == DType::u8)
    body([rows = static_cast<const std::uint8_t*>(matrix.rows)](std::int64_t i) {
      return static_cast<double>(rows[i]);
    });
  else body([&matrix](std::int64_t i) { return element(matrix.rows, matrix.dtype, i); });
}

/// The sum of the squares of a row's differences from its mean, which is kept; by a warp.
__device__ __forceinline__ double centred_squares(const PreparedMatrix& matrix, std::int64_t row, std::int64_t base,
                                                  double mean) {
  double squares = 0;
  for (std::int64_t i = lane_index(); i < matrix.dims; i += 32) {
    const double t = element(matrix.rows, matrix.dtype, base + i) - mean;
    squares = fma(t, t, squares);
  }
  const double all = lanes_joined(squares, Plus{});
  if (lane_index() == 0) matrix.mean[row] = mean;
  return all;
}

/// A query's elements in fp64, without their mean for correlation; by a warp.
__device__ __forceinline__ void store_values(const PreparedMatrix& matrix, Metric metric, std::int64_t row,
                                             std::int64_t base) {
  const double mean = metric == Metric::correlation ? matrix.mean[row] : 0.0;
  for (std::int64_t i = lane_index(); i < matrix.dims; i += 32)
    matrix.values[base + i] = element(matrix.rows, matrix.dtype, base + i) - mean;
}

/// A query's own scale, for products, and whether a filter can take it. exponent: of its largest element.
__device__ __forceinline__ void scale_query(const Prepare& args, int exponent, double& scale, bool& filterable) {
  const bool own_scale = args.model.sum == Sum::products;
  if (own_scale) scale = ldexp(1.0, -exponent);
  if (exponent >= extreme_exponent || -exponent >= extreme_exponent ||
      (!own_scale && exponent + ilogb(args.transform.scale) > far_exponent))
    filterable = false;
}

/// Whether a query whose largest element has this exponent is beyond what the filter's bound holds for.
__device__ __forceinline__ bool is_far(const Prepare& args, int exponent, bool own_scale) {
  return exponent >= extreme_exponent || -exponent >= extreme_exponent ||
         (!own_scale && exponent + ilogb(args.transform.scale) > far_exponent);
}

/// The largest element of the filter row, and its square for those who sort by it; finite: whether its elements are, of this lane. By a warp.
__device__ __forceinline__ double filter_size(const Prepare& args, std::int64_t row, std::int64_t base, bool& finite) {
  const RowMap map = row_map(args, row);
  double size = 0;
  float square = 0;
  with_elements(args.matrix, [&](auto load) {
#pragma unroll 4
    for (std::int64_t i = lane_index(); i < args.matrix.dims; i += 32) {
      const double x = load(base + i), moved = fabs((x - map.shift) * map.factor - args.transform.centre[i]);
      finite = finite && is_finite(x);
      size = size < moved ? moved : size;
      square += static_cast<float>(moved) * static_cast<float>(moved);
    }
  });
  if (args.squares != nullptr) {
    const auto all = static_cast<float>(lanes_joined(static_cast<double>(square), Plus{}));
    if (lane_index() == 0) args.squares[row] = all;
  }
  return lanes_joined(size, Larger{});
}

/// Checks rows, takes their norms and sizes: a warp a row.
__device__ __forceinline__ void measure(const Prepare& args) {
  const PreparedMatrix& matrix = args.matrix;
  const Metric metric = args.model.metric;
  const bool norms = needs_norms(metric);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       row < matrix.count; row += warps) {
    // Sums and the largest element.
    const std::int64_t base = row * matrix.dims;
    const double first = element(matrix.rows, matrix.dtype, base), reference = metric == Metric::cosine ? 0.0 : first;
    bool finite = true, same = true;
    double largest = 0, sum = 0, size = 0;
    if (norms || args.is_query || !args.filters) {
      with_elements(matrix, [&](auto load) {
#pragma unroll 4
        for (std::int64_t i = lane_index(); i < matrix.dims; i += 32) {
          const double x = load(base + i);
          finite = finite && is_finite(x);
          same = same && x == reference;
          largest = largest < fabs(x) ? fabs(x) : largest;
          sum = metric == Metric::cosine ? fma(x, x, sum) : sum + x;
        }
      });
      finite = __all_sync(all_lanes, finite);
    }

    // Norms, and whether the row has a direction.
    bool degenerate = false, in_range = true;
    if (norms) {
      same = __all_sync(all_lanes, same);
      double self = lanes_joined(sum, Plus{});
      if (metric == Metric::correlation)
        self = centred_squares(matrix, row, base, self / static_cast<double>(matrix.dims));
      degenerate = same;
      if (degenerate) in_range = args.degenerate_is_one;
      else if (matrix.dtype == DType::f64) in_range = self >= 0x1p-500 && self <= 0x1p500;
      if (lane_index() == 0) matrix.self[row] = degenerate ? -1.0 : self;
      __syncwarp();
    }

    // Queries: their values in fp64.
    if (args.is_query && matrix.values != nullptr) store_values(matrix, metric, row, base);

    // The size of the filter row.
    if (args.filters) {
      if (args.is_query) {
        largest = lanes_joined(largest, Larger{});
        if (lane_index() == 0) {
          bool filterable = args.transform.usable && !degenerate && finite && in_range;
          double scale = args.transform.scale;
          if (largest > 0 && !norms && finite) {
            const bool own_scale = args.model.sum == Sum::products;
            const int exponent = ilogb(largest);
            if (own_scale) scale = ldexp(1.0, -exponent);
            if (is_far(args, exponent, own_scale)) filterable = false;
          }
          matrix.scales[row] = scale;
          matrix.filterable[row] = filterable;
        }
        __syncwarp();
      }
      size = filter_size(args, row, base, finite);
      finite = __all_sync(all_lanes, finite);
    }
    const bool fit = finite && in_range;
    if (!fit && lane_index() == 0)
      atomicAdd(args.is_query ? &args.counters->bad_queries : &args.counters->bad_rows, 1u);
    if (args.filters && lane_index() == 0)
      matrix.sizes[row] = is_finite(size) && fit && (!args.is_query || matrix.filterable[row]) ? up32(size) : 0.0f;
  }
}
__global__ void __launch_bounds__(prepare_threads) measure_rows(Prepare args) { measure(args); }

/// Some rows of a table side by side, for the host to look at.
struct GatherRows {
  const unsigned char* from;
  unsigned char* to;
  std::int64_t row_bytes, row_stride, count;
  Visits visits;
};
__global__ void gather_rows(GatherRows args) {
  for (std::int64_t row = blockIdx.x; row < args.count; row += gridDim.x)
    for (std::int64_t i = thread_index(); i < args.row_bytes; i += thread_count())
      args.to[row * args.row_bytes + i] = args.from[args.visits.at(row) * args.row_stride + i];
}

}  // namespace vicinal::cuda
