// PREPARE, its last kernels for int8: rows in their order are rounded to integers, a tile by one step, with everything that the proof needs
// (core/bound.hpp); the states of queries begin. A few queries are measured, ordered and rounded by one kernel.
#pragma once
#include "cuda/search/prepare/order.cuh"

namespace vicinal::cuda {

/// What a block remembers of the rows of a tile, in shared memory.
struct TileNorms {
  double *e, *n;  // of rows
};
/// One lane's last words on row r of a tile: the term, and what the maxima are made of. position: where it is, `there` or masked.
__device__ __forceinline__ void close_row(const Prepare& args, std::int64_t position, bool there,
                                          const QuantizationErrors& sums, const TileNorms& norms_of) {
  const PreparedMatrix& matrix = args.matrix;
  const auto r = static_cast<int>(position % tile_rows);
  float& term = matrix.tile_metadata[position / tile_rows].terms[r];
  norms_of.e[r] = norms_of.n[r] = 0;
  term = static_cast<float>(infinite);  // masked: excluded always
  if (!there) return;
  const std::int64_t row = matrix.order[position];
  const FilterNorms norms = filter_norms(args.model, sums);
  if (args.duplicates == nullptr || args.duplicates[row] == 0) {
    // A degenerate row has distance 1 to everything, which the filter cannot see: it is always a candidate.
    const bool degenerate = args.model.unit && matrix.self[row] < 0;
    term = degenerate ? -static_cast<float>(infinite) : row_term(args.model, sums, norms);
  }
  const bool sound = is_finite(static_cast<double>(term));
  if (sound) {
    norms_of.e[r] = norms.e;
    norms_of.n[r] = norms.n;
  }
  if (args.is_query)
    matrix.quantized[position] = {norms, sums.nn, matrix.scales[row], matrix.filterable[row] != 0 && sound};
}
/// Of a tile's groups, by a warp, four lanes a group.
__device__ __forceinline__ void close_groups(TileMetadata& metadata, const TileNorms& norms, double inverse) {
  RowGroup group;
  for (int i = lane_index() % 4; i < group_rows; i += 4) {
    const int row = row_of_group(lane_index() / 4, i);
    take_row(group, metadata.terms[row], {norms.e[row], norms.n[row]});
  }
  for (int h = 1; h < 4; h *= 2)
    take_row(group, __shfl_xor_sync(all_lanes, group.least, h),
             {__shfl_xor_sync(all_lanes, group.maxima.e, h), __shfl_xor_sync(all_lanes, group.maxima.n, h)});
  if (lane_index() % 4 == 0) metadata.groups[lane_index() / 4] = group_norms(group, inverse);
}
/// The metadata of a tile whose rows are closed.
__device__ __forceinline__ void close_tile(const PreparedMatrix& matrix, std::int64_t tile, const TileNorms& norms,
                                           double step) {
  __syncthreads();
  if (thread_index() >= 32) return;
  double e = 0, n = 0;
  for (int r = lane_index(); r < tile_rows; r += 32) {
    e = e < norms.e[r] ? norms.e[r] : e;
    n = n < norms.n[r] ? norms.n[r] : n;
  }
  e = lanes_joined(e, Larger{});
  n = lanes_joined(n, Larger{});
  TileMetadata& metadata = matrix.tile_metadata[tile];
  close_groups(metadata, norms, 1 / step);
  if (lane_index() != 0) return;
  metadata.maxima = {e, n};
  metadata.step = static_cast<float>(step);
  metadata.inverse = 1 / step;
  metadata.e = up32(e);
  metadata.n = up32(n);
  metadata.quick_inverse = static_cast<float>(1 / step);
  // Of numbers that are not negative the bits have their order.
  atomicMax(&matrix.largest[0], bits_of(e));
  atomicMax(&matrix.largest[1], bits_of(n));
}

/// A tile's step, and its rows in bytes, by a block. largest: of shared memory, a word a warp.
__device__ __forceinline__ void pack_tile(const Prepare& args, std::int64_t tile, const TileNorms& norms,
                                          float* largest) {
  const PreparedMatrix& matrix = args.matrix;
  const std::int64_t begin = tile * tile_rows;
  const int used = static_cast<int>(matrix.count - begin < tile_rows ? matrix.count - begin : tile_rows);
  // The step, from the largest element of all rows.
  float size = thread_index() < used ? matrix.sizes[matrix.order[begin + thread_index()]] : 0.0f;
  for (int h = 16; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(all_lanes, size, h);
    size = size < other ? other : size;
  }
  if (lane_index() == 0) largest[warp_index()] = size;
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) size = size < largest[w] ? largest[w] : size;
  const bool integral =
      args.transform.integral > 0 && static_cast<double>(size) <= args.transform.integral * 128 * (1 + 0x1p-20);
  const float rounded_step = size / 127 < args.transform.least_step ? args.transform.least_step : size / 127;
  const double step = integral ? args.transform.integral : static_cast<double>(rounded_step), inverse = 1 / step;
  // A row by a warp: its elements are rounded to multiples of the step, and what rounding took is summed.
  for (int r = warp_index(); r < tile_rows; r += thread_count() / 32) {
    const int slab = matrix.width == 64 ? 64 : 128;
    const auto to = [&](std::int64_t i) {  // four columns
      const auto in_slab = static_cast<int>(4 * i % slab);
      return reinterpret_cast<std::uint32_t*>(matrix.bytes + begin * matrix.width + 4 * i / slab * slab * tile_rows +
                                              r * slab + swizzled_chunk(slab, r, in_slab / 16) * 16 + in_slab % 16);
    };
    double xx = 0, nn = 0, ee = 0;
    if (r >= used) {
      for (std::int64_t i = lane_index(); i < matrix.width / 4; i += 32) *to(i) = 0;
    } else {
      const std::int64_t row = matrix.order[begin + r], base = row * matrix.dims;
      const RowMap map = row_map(args, row);
      with_elements(matrix, [&](auto load) {
        for (std::int64_t i = lane_index(); i < matrix.width / 4; i += 32) {
          std::uint32_t four = 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const std::int64_t col = 4 * i + j;
            if (col >= matrix.dims) break;
            const double x = (load(base + col) - map.shift) * map.factor - args.transform.centre[col];
            double n = rint(x * inverse);
            n = n >= -128 ? (n > 127 ? 127 : n) : n < -128 ? -128 : 0;  // NaN is nothing: its row will not be excluded
            const double e = x - n * step;
            xx = fma(x, x, xx);
            nn = fma(n, n, nn);
            ee = fma(e, e, ee);
            four |= (static_cast<std::uint32_t>(static_cast<int>(n)) & 255u) << (8 * j);
          }
          *to(i) = four;
        }
      });
      xx = lanes_joined(xx, Plus{});
      nn = lanes_joined(nn, Plus{});
      ee = lanes_joined(ee, Plus{});
    }
    if (lane_index() == 0) close_row(args, begin + r, r < used, {xx, nn * step * step, ee, 0, 0, 0}, norms);
  }
  close_tile(matrix, tile, norms, step);
}
__global__ void __launch_bounds__(prepare_threads) pack_rows(Prepare args) {
  VICINAL_SHARED(double, es, tile_rows);
  VICINAL_SHARED(double, ns, tile_rows);
  VICINAL_SHARED(float, largest, prepare_threads / 32);
  pack_tile(args, blockIdx.x, {es, ns}, largest);
}

/// States of a new batch, in positions: nothing is known and nothing excluded.
struct StartStates {
  PreparedMatrix queries = {};
  QueryState* states = nullptr;
  std::uint32_t* counts = nullptr;  // SearchArgs's, or null
  bool filters = true;
};
__device__ __forceinline__ void start_state(const StartStates& args, std::int64_t position) {
  QueryState state;
  state.overflowed = args.filters && !args.queries.quantized[position].filterable;
  if (state.overflowed) state.coeffs.base = -infinite;
  args.states[position] = state;
  if (args.counts != nullptr) args.counts[position] = 0;
}
__global__ void start_states(StartStates args) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position < args.queries.count) start_state(args, position);
}

/// A few queries in one launch, for a launch takes as long as what it does for them. Each is put in order behind those that are smaller.
inline constexpr int few_threads = 1024,
                     few_measured = few_threads / 32;  // of more than these rows the whole device takes the measures
struct PrepareFew {
  Prepare prepare;
  StartStates start;
  bool measured = false;
};
__global__ void __launch_bounds__(few_threads) prepare_few(PrepareFew args) {
  VICINAL_SHARED(int, bins, block_queries);
  VICINAL_SHARED(double, es, tile_rows);
  VICINAL_SHARED(double, ns, tile_rows);
  VICINAL_SHARED(float, largest, few_threads / 32);
  const PreparedMatrix& matrix = args.prepare.matrix;
  if (thread_index() < 2) matrix.largest[thread_index()] = 0;
  if (!args.measured) measure(args.prepare);
  __syncthreads();
  const int mine = thread_index(), count = static_cast<int>(matrix.count);
  if (mine < count) bins[mine] = order_bin(matrix.sizes[mine]);
  __syncthreads();
  if (mine < count) {
    int before = 0;
    for (int i = 0; i < count; ++i) before += bins[i] < bins[mine] || (bins[i] == bins[mine] && i < mine) ? 1 : 0;
    matrix.order[before] = static_cast<std::uint32_t>(mine);
  }
  __syncthreads();
  for (std::int64_t tile = 0; tile < matrix.tiles(); ++tile) {
    pack_tile(args.prepare, tile, {es, ns}, largest);
    __syncthreads();
  }
  if (mine < count) start_state(args.start, mine);
}

}  // namespace vicinal::cuda
