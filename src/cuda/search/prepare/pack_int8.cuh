// PREPARE, its last kernels for int8: rows in their order are rounded to integers, a
// tile by one step, with everything that the proof needs (core/bound.hpp); the states
// of queries begin. A few queries are measured, ordered and rounded by one kernel.
#pragma once
#include "cuda/ptx/differences.cuh"
#include "cuda/search/prepare/order.cuh"

namespace vicinal::cuda {

/// What a block remembers of the rows of a tile, in shared memory.
struct TileNorms {
  double *e, *n, *lowered;  // of rows
};
/// It stores the term of the row at a position, and what its tile's maxima
/// are made of; by one lane. A row that is not `present` is masked.
__device__ __forceinline__ void close_row(const Prepare& args, std::int64_t position, bool present,
                                          const QuantizationErrors& sums, const TileNorms& norms_of) {
  const PreparedMatrix& matrix = args.matrix;
  const auto r = static_cast<int>(position % tile_rows);
  float& term = matrix.tile_metadata[position / tile_rows].terms[r];
  norms_of.e[r] = norms_of.n[r] = norms_of.lowered[r] = 0;
  term = static_cast<float>(infinite);  // masked: excluded always
  if (!present) return;
  const std::int64_t row = matrix.order[position];
  const FilterNorms norms = filter_norms(args.model, sums);
  if (args.duplicates == nullptr || args.duplicates[row] == 0) {
    const bool degenerate = args.model.unit && matrix.self[row] < 0;
    term = degenerate ? never_excluded : row_term(args.model, sums, norms);
  }
  const bool sound = is_finite(static_cast<double>(term));
  if (sound) {
    norms_of.e[r] = norms.e;
    norms_of.n[r] = norms.n;
    norms_of.lowered[r] = norms.lowered;
  }
  if (args.is_query)
    matrix.quantized[position] = {norms, sums.nn, matrix.scales[row], matrix.filterable[row] != 0 && sound};
}
/// Of a tile's pairs of groups, by a warp, eight lanes a pair.
__device__ __forceinline__ void close_pairs(TileMetadata& metadata, const TileNorms& norms, double inverse) {
  constexpr int lanes = 32 / pairs_a_tile;
  RowGroup group;
  for (int i = lane_index() % lanes; i < rows_a_pair; i += lanes) {
    const int row = row_of_pair(lane_index() / lanes, i);
    take_row(group, metadata.terms[row], {norms.e[row], norms.n[row]});
  }
  for (int h = 1; h < lanes; h *= 2)
    take_row(group, __shfl_xor_sync(all_lanes, group.least, h),
             {__shfl_xor_sync(all_lanes, group.maxima.e, h), __shfl_xor_sync(all_lanes, group.maxima.n, h)});
  if (lane_index() % lanes == 0) metadata.pairs[lane_index() / lanes] = group_norms(group, inverse);
}
/// The metadata of a tile whose rows are closed.
__device__ __forceinline__ void close_tile(const PreparedMatrix& matrix, std::int64_t tile, const TileNorms& norms,
                                           double step) {
  __syncthreads();
  if (thread_index() >= 32) return;
  FilterNorms maxima;
  for (int r = lane_index(); r < tile_rows; r += 32) take_maxima(maxima, {norms.e[r], norms.n[r], 0, norms.lowered[r]});
  maxima.e = lanes_joined(maxima.e, Larger{});
  maxima.n = lanes_joined(maxima.n, Larger{});
  maxima.lowered = lanes_joined(maxima.lowered, Larger{});
  TileMetadata& metadata = matrix.tile_metadata[tile];
  close_pairs(metadata, norms, 1 / step);
  if (lane_index() != 0) return;
  metadata.maxima = maxima;
  metadata.step = static_cast<float>(step);
  metadata.inverse = 1 / step;
  metadata.e = up32(maxima.e);
  metadata.n = up32(maxima.n);
  metadata.quick_inverse = static_cast<float>(1 / step);
  // Of numbers that are not negative the bits have their order.
  atomicMax(&matrix.largest[0], bits_of(maxima.e));
  atomicMax(&matrix.largest[1], bits_of(maxima.n));
}

/// What packing keeps in shared memory: sums of the rows of a tile, which become their norms, and a word a warp.
struct TileScratch {
  double *xx, *nn, *ee;
  float* largest;
};
/// A PackedTile says which rows a tile has and where their bytes go.
struct PackedTile {
  std::int64_t begin;  // position of the first one
  int used;            // rows that are there
};
__device__ __forceinline__ PackedTile packed_tile(const PreparedMatrix& matrix, std::int64_t tile) {
  const std::int64_t begin = tile * tile_rows;
  return {begin, static_cast<int>(matrix.count - begin < tile_rows ? matrix.count - begin : tile_rows)};
}
/// A TileBytes says where rows go in a tile: `line` is of row r, and from its beginning the word of columns col to col
/// + 3 lies at one position for all rows with r % 8 alike.
struct TileBytes {
  std::int8_t* bytes;
  int shift, mixer;  // columns of a slab as a power of two; what row r's chunks are exchanged by

  __device__ __forceinline__ TileBytes(const PreparedMatrix& matrix, std::int64_t begin, int r)
      : bytes(matrix.bytes + begin * matrix.width), shift(matrix.width == 64 ? 6 : 7),
        mixer(swizzled_chunk(1 << shift, r, 0)) {}
  __device__ __forceinline__ std::int8_t* line(int r) const { return bytes + (r << shift); }
  __device__ __forceinline__ int word(int col) const {
    const int slab = col >> shift, in_slab = col - (slab << shift);
    return (slab << shift) * tile_rows + ((in_slab / 16 ^ mixer) * 16 + in_slab % 16);
  }
};

/// It returns the largest of what the threads of a block bring, to all of them. largest: a word a warp.
__device__ __forceinline__ float block_largest(float size, float* largest) {
  const auto of_warp = [](float mine) {
    for (int h = 16; h > 0; h /= 2) {
      const float other = __shfl_xor_sync(all_lanes, mine, h);
      mine = mine < other ? other : mine;
    }
    return mine;
  };
  size = of_warp(size);
  if (lane_index() == 0) largest[warp_index()] = size;
  __syncthreads();
  return of_warp(lane_index() < thread_count() / 32 ? largest[lane_index()] : 0.0f);
}
/// It returns the step of a tile whose largest element this is.
__device__ __forceinline__ double step_for(const Prepare& args, float size) {
  if (args.transform.integral > 0 && static_cast<double>(size) <= args.transform.integral * 128 * (1 + 0x1p-20))
    return args.transform.integral;
  return static_cast<double>(size / 127 < args.transform.least_step ? args.transform.least_step : size / 127);
}
/// The step of a tile, from the largest element of all its rows, by a block.
__device__ __forceinline__ double tile_step(const Prepare& args, const PackedTile& tile, float* largest) {
  const PreparedMatrix& matrix = args.matrix;
  return step_for(
      args, block_largest(thread_index() < tile.used ? matrix.sizes[matrix.order[tile.begin + thread_index()]] : 0.0f,
                          largest));
}

/// The multiple of a step nearest to x, among -128 to 127; `whole` is the
/// same. Where it leaves 32 bits, as of infinite x, it is any of them.
__device__ __forceinline__ int rounded_byte(double x, double inverse, double& whole) {
  // 1.5 * 2^52, where numbers are a whole one apart, and their lower halves count.
  auto n = static_cast<int>(static_cast<std::uint32_t>(bits_of(fma(x, inverse, 0x1.8p52))));
  n = n < -128 ? -128 : n > 127 ? 127 : n;
  whole = double_of(0x4330000000000000ull | (static_cast<std::uint32_t>(n) ^ 0x80000000u)) - (0x1p52 + 0x1p31);
  return n;
}

/// Rows of a tile in bytes, and their sums: eight lanes a row. first, end: of the tile's rows.
template <class Columns>
__device__ __forceinline__ void round_rows(const Prepare& args, const PackedTile& tile, double step,
                                           const TileScratch& scratch, int first = 0, int end = tile_rows) {
  constexpr int batch = 4;  // groups of columns that are loaded together
  const PreparedMatrix& matrix = args.matrix;
  const int part = lane_index() % row_lanes, width = static_cast<int>(matrix.width);
  const double inverse = 1 / step;
  for (int r = first + thread_index() / row_lanes; r < end; r += thread_count() / row_lanes) {
    const std::int64_t row = r < tile.used ? matrix.order[tile.begin + r] : 0;  // any, where none is
    const Columns columns(matrix, row);
    const RowMap map = row_map(args, row);
    const TileBytes to(matrix, tile.begin, r);
    double xx = 0, ee = 0;
    unsigned nn = 0;
    for (int begin = 4 * part; begin < width; begin += batch * row_columns) {
      typename Columns::Four fours[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b) fours[b] = columns.load(begin + b * row_columns);
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const int col = begin + b * row_columns;
        if (col >= width) break;
        const float4 centre = *reinterpret_cast<const float4*>(args.transform.centre + col);
        const float centres[4] = {centre.x, centre.y, centre.z, centre.w};
        std::uint32_t bytes[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          // What is not there is nothing.
          const double shift = columns.has(col, c) ? map.shift : 0.0;
          const double x =
              fma(static_cast<double>(widened(fours[b].at[c])) - shift, map.factor, -static_cast<double>(centres[c]));
          double n;
          bytes[c] = static_cast<std::uint32_t>(rounded_byte(x, inverse, n));
          const double e = fma(-n, step, x);
          xx = fma(x, x, xx);
          ee = fma(e, e, ee);
        }
        const std::uint32_t word =
            __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
        nn = add_byte_products<true>(word, word, nn);
        *reinterpret_cast<std::uint32_t*>(to.line(r) + to.word(col)) = r < tile.used ? word : 0;
      }
    }
    // The sums of the whole row.
    xx = eight_joined(xx, Plus{});
    ee = eight_joined(ee, Plus{});
    nn = eight_joined(nn, [](unsigned a, unsigned b) { return a + b; });
    if (part != 0) continue;
    scratch.xx[r] = xx;
    scratch.nn[r] = static_cast<double>(nn) * step * step;
    scratch.ee[r] = ee;
  }
}

/// The metadata of a tile whose sums are known, by a block.
__device__ __forceinline__ void close_sums(const Prepare& args, std::int64_t tile, const PackedTile& about, double step,
                                           const TileScratch& scratch) {
  __syncthreads();
  for (int r = thread_index(); r < tile_rows; r += thread_count())
    close_row(args, about.begin + r, r < about.used, {scratch.xx[r], scratch.nn[r], scratch.ee[r], 0, 0, 0},
              {scratch.ee, scratch.nn, scratch.xx});
  close_tile(args.matrix, tile, {scratch.ee, scratch.nn, scratch.xx}, step);
}
/// A tile's step, and its rows in bytes, by a block.
template <class Columns>
__device__ __forceinline__ void pack_tile(const Prepare& args, std::int64_t tile, const TileScratch& scratch) {
  const PackedTile about = packed_tile(args.matrix, tile);
  const double step = tile_step(args, about, scratch.largest);
  round_rows<Columns>(args, about, step, scratch);
  close_sums(args, tile, about, step, scratch);
}
template <class Columns>
__global__ void __launch_bounds__(prepare_threads, 4) pack_rows(Prepare args) {
  VICINAL_SHARED(double, xx, tile_rows);
  VICINAL_SHARED(double, nn, tile_rows);
  VICINAL_SHARED(double, ee, tile_rows);
  VICINAL_SHARED(float, largest, prepare_threads / 32);
  pack_tile<Columns>(args, blockIdx.x, {xx, nn, ee, largest});
}

/// Rows that are the bytes of the filter but for 128, which the transform takes from u8: a block a tile. Nothing is
/// rounded, and no sizes are asked for.
template <class Columns>
__global__ void __launch_bounds__(prepare_threads) pack_whole_rows(Prepare args) {
  VICINAL_SHARED(double, xx, tile_rows);
  VICINAL_SHARED(double, nn, tile_rows);
  VICINAL_SHARED(double, ee, tile_rows);
  using T = typename Columns::Type;
  constexpr std::uint32_t middle = std::is_same_v<T, std::uint8_t> ? 0x80808080u : 0;
  constexpr int rows_at_once = prepare_threads / row_lanes, each = tile_rows / rows_at_once, batch = 2;
  const PreparedMatrix& matrix = args.matrix;
  const PackedTile tile = packed_tile(matrix, blockIdx.x);
  const double step = args.transform.integral;
  const int first = thread_index() / row_lanes, part = lane_index() % row_lanes, width = static_cast<int>(matrix.width);
  const TileBytes to(matrix, tile.begin, first);
  Columns columns(matrix, 0);
  const T* rows[each];
  unsigned sums[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int r = first + j * rows_at_once;
    rows[j] = Columns(matrix, matrix.order[tile.begin + (r < tile.used ? r : 0)]).row;
    sums[j] = 0;
  }
  // Bytes as they are, less 128.
  for (int begin = 4 * part; begin < width; begin += batch * row_columns) {
    typename Columns::Four fours[batch][each];
#pragma unroll
    for (int b = 0; b < batch; ++b)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        columns.row = rows[j];
        fours[b][j] = columns.load(begin + b * row_columns, static_cast<T>(middle & 255u));
      }
#pragma unroll
    for (int b = 0; b < batch; ++b)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const auto& four = fours[b][j].at;
        std::uint32_t word = 0;
#pragma unroll
        for (int c = 0; c < 4; ++c) word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(four[c])) << (8 * c);
        word ^= middle;
        sums[j] = add_byte_products<true>(word, word, sums[j]);
        const int r = first + j * rows_at_once;
        *reinterpret_cast<std::uint32_t*>(to.line(r) + to.word(begin + b * row_columns)) = r < tile.used ? word : 0;
      }
  }
  // Their sums.
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int r = first + j * rows_at_once;
    const unsigned sum = eight_joined(sums[j], [](unsigned a, unsigned b) { return a + b; });
    if (part != 0) continue;
    xx[r] = nn[r] = static_cast<double>(sum) * step * step;
    ee[r] = 0;
  }
  close_sums(args, blockIdx.x, tile, step, {xx, nn, ee, nullptr});
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
  state.given_up = args.filters && !args.queries.quantized[position].filterable;
  if (state.given_up) state.coeffs.base = -infinite;
  args.states[position] = state;
  if (args.counts != nullptr) args.counts[position] = 0;
}
__global__ void start_states(StartStates args) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position < args.queries.count) start_state(args, position);
}

/// A few queries are prepared in one launch, for a launch takes as long as what it does for them.
/// Those of two tiles are put in order, each behind those that are smaller; a tile alone has the step
/// of its largest in any order. Sums of double precision take a multiprocessor longer than all else,
/// so blocks round a few rows each where they can, and each does the rest for all.
inline constexpr int at_once_threads = 512;
/// MeasuredBy says who measures the queries. before: the whole device did, a warp each; plainly: each block does, eight
/// lanes each; by_warps: the one block does, a warp each.
enum class MeasuredBy : unsigned char { before, plainly, by_warps };
inline constexpr int most_by_warps = 32;  // of more than these rows the whole device takes the measures
struct PrepareAtOnce {
  Prepare prepare;
  StartStates start;
  MeasuredBy measured = MeasuredBy::before;
  int rows = tile_rows;  // of a block
  bool clears = false;   // the counters, which nothing has counted yet
};
inline std::int64_t at_once_blocks(const PrepareAtOnce& args) {
  return args.prepare.matrix.tiles() * (tile_rows / args.rows);
}
/// Rows that a block rounds.
inline int rows_a_block(MeasuredBy measured) { return measured == MeasuredBy::by_warps ? tile_rows : 16; }

/// Every block finds the same of every query, and the first counts.
__device__ __forceinline__ void measure_at_once(const PrepareAtOnce& args) {
  const Prepare& prepare = args.prepare;
  static_assert(sizeof(Counters) % 8 == 0 && sizeof(Counters) / 8 <= at_once_threads);
  if (args.clears && blockIdx.x == 0 && thread_index() < static_cast<int>(sizeof(Counters) / 8))
    reinterpret_cast<unsigned long long*>(prepare.counters)[thread_index()] = 0;
  __syncthreads();
  if (args.measured == MeasuredBy::by_warps) return measure(prepare);
  if (args.measured == MeasuredBy::before) return;
  const int count = static_cast<int>(prepare.matrix.count), each = thread_count() / row_lanes;
  with_type(prepare.matrix.dtype, [&](auto zero) {
    for (int from = 0; from < count; from += each) {
      const int mine = from + thread_index() / row_lanes;
      measure_plain_query<FourColumns<decltype(zero), false>>(prepare, mine < count ? mine : count - 1, mine < count,
                                                              blockIdx.x == 0);
    }
  });
}

__global__ void __launch_bounds__(at_once_threads) prepare_at_once(PrepareAtOnce args) {
  VICINAL_SHARED(int, bins, block_queries);
  VICINAL_SHARED(float, sizes, block_queries);  // in order
  VICINAL_SHARED(double, xx, tile_rows);
  VICINAL_SHARED(double, nn, tile_rows);
  VICINAL_SHARED(double, ee, tile_rows);
  VICINAL_SHARED(float, largest, at_once_threads / 32);
  go_between();
  const PreparedMatrix& matrix = args.prepare.matrix;
  measure_at_once(args);
  __syncthreads();
  // The order.
  const int count = static_cast<int>(matrix.count), threads = thread_count();
  for (int i = thread_index(); i < count; i += threads) bins[i] = count > tile_rows ? order_bin(matrix.sizes[i]) : 0;
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * args.rows, end = first + args.rows;  // this block's positions
  for (int i = thread_index(); i < count; i += threads) {
    int before = i;
    if (count > tile_rows) {
      before = 0;
      for (int j = 0; j < count; ++j) before += bins[j] < bins[i] || (bins[j] == bins[i] && j < i) ? 1 : 0;
    }
    sizes[before] = matrix.sizes[i];
    if (before >= first && before < end) matrix.order[before] = static_cast<std::uint32_t>(i);
  }
  __syncthreads();
  // The tile's step, and this block's rows.
  const PackedTile tile = packed_tile(matrix, first / tile_rows);
  float size = 0;
  for (int r = thread_index(); r < tile.used; r += threads) {
    const float one = sizes[tile.begin + r];
    size = size < one ? one : size;
  }
  const double step = step_for(args.prepare, block_largest(size, largest));
  const int begin = first % tile_rows;
  with_type(matrix.dtype, [&](auto zero) {
    round_rows<FourColumns<decltype(zero), false>>(args.prepare, tile, step, {xx, nn, ee, largest}, begin,
                                                   begin + args.rows);
  });
  __syncthreads();
  for (int r = begin + thread_index(); r < begin + args.rows; r += threads) {
    close_row(args.prepare, tile.begin + r, r < tile.used, {xx[r], nn[r], ee[r], 0, 0, 0}, {ee, nn, xx});
    if (r < tile.used) start_state(args.start, tile.begin + r);
  }
  if (thread_index() != 0 || begin != 0) return;
  TileMetadata& metadata = matrix.tile_metadata[first / tile_rows];
  metadata.step = static_cast<float>(step);
  metadata.inverse = 1 / step;
  metadata.quick_inverse = static_cast<float>(1 / step);
}

}  // namespace vicinal::cuda
