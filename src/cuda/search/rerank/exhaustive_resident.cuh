// Every pair of short rows and many queries: a warp keeps eight rows in registers,
// widened, and a tile of the queries lies in shared memory, so that a pair costs
// its canonical sum and hardly a load. exhaustive.cuh takes it where rows_reside().
#pragma once
#include "cuda/search/rerank/row_sums.cuh"

namespace vicinal::cuda {

inline constexpr int resident_threads = 512, resident_rows = 8,
                     resident_at_once = 4;  // rows of a warp, queries of a step
inline constexpr std::int64_t resident_columns = 128;
inline constexpr int resident_blocks = 1;  // of a multiprocessor, whose registers it fills

/// Whether rows are short and many enough: every warp should have eight of them several times, and queries to pass by.
inline bool rows_reside(std::int64_t dims, std::int64_t rows, std::int64_t queries, int multiprocessors) {
  constexpr std::int64_t least_queries = 8, least_rounds = 4;
  return dims <= resident_columns && queries >= least_queries &&
         rows >= least_rounds * resident_rows * resident_blocks * (resident_threads / 32) * multiprocessors;
}

/// Columns of a query in shared memory: whole groups of lanes.
VICINAL_HOST_DEVICE inline std::int64_t resident_pitch(std::int64_t dims) { return (dims + 31) / 32 * 32; }
/// Queries of a tile: all tiles have about as many, in whole steps.
inline std::int64_t resident_tile(std::int64_t dims, std::int64_t queries) {
  const std::int64_t most = (std::int64_t{96} << 10) / (resident_pitch(dims) * 8), tiles = (queries + most - 1) / most;
  return ((queries + tiles - 1) / tiles + resident_at_once - 1) / resident_at_once * resident_at_once;
}
inline std::int64_t resident_memory(std::int64_t dims, std::int64_t queries) {
  return resident_tile(dims, queries) * resident_pitch(dims) * 8;
}

/// Of a warp's eight rows a lane has two, `pair_of_lane` says which, and of their
/// canonical lanes l, l + 8, l + 16 and l + 24 of an l of its own. So two of the
/// five steps that join lanes stay within a lane, and only the others exchange.
__device__ __forceinline__ int pair_of_lane() { return lane_index() % 4; }
__device__ __forceinline__ int canonical_lane() { return lane_index() / 4; }
/// Where shared memory has a column of a query: those that a lane takes together are side by side.
__device__ __forceinline__ int resident_place(int column) { return column / 16 * 16 + column % 8 * 2 + column / 8 % 2; }

/// Of what this lane has of eight rows from `row` on, widened, [column / 8][row]; without their mean for correlation.
/// Columns beyond the last are -0, which with a query's +0 leaves every sum as it is. The type is known before the
/// first load, so that all of them are on their way together.
template <int eights>
__device__ __forceinline__ void load_resident(const Ranking& args, std::int64_t row, std::int64_t last,
                                              double (&rows)[eights][2]) {
  const PreparedMatrix& matrix = args.rows;
  const auto fill = [&](auto load) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t mine = row + 2 * pair_of_lane() + r, at = mine < last ? mine : row,
                         base = at * matrix.dims + canonical_lane();
      const double shift = args.metric == Metric::correlation ? matrix.mean[at] : 0.0;
#pragma unroll
      for (int i = 0; i < eights; ++i)
        rows[i][r] = 8 * i + canonical_lane() < matrix.dims ? load(base + 8 * i) - shift : -0.0;
    }
  };
  if (matrix.dtype == DType::f32)
    fill([&](std::int64_t i) { return static_cast<double>(static_cast<const float*>(matrix.rows)[i]); });
  else if (matrix.dtype == DType::u8)
    fill([&](std::int64_t i) { return static_cast<double>(static_cast<const std::uint8_t*>(matrix.rows)[i]); });
  else if (matrix.dtype == DType::f64) fill([&](std::int64_t i) { return static_cast<const double*>(matrix.rows)[i]; });
  else fill([&](std::int64_t i) { return element(matrix.rows, matrix.dtype, i); });
}

/// A tile of the queries to shared memory, [query][resident_place], with zeros up to whole steps and groups of lanes.
__device__ __forceinline__ void load_resident_queries(const Ranking& args, std::int64_t from, int here,
                                                      double* values) {
  const auto dims = static_cast<int>(args.rows.dims), pitch = static_cast<int>(resident_pitch(dims));
  const int padded = (here + resident_at_once - 1) / resident_at_once * resident_at_once;
  for (int query = warp_index(); query < padded; query += thread_count() / 32)
    for (int i = lane_index(); i < pitch; i += 32)
      values[query * pitch + resident_place(i)] =
          query < here && i < dims ? args.queries.values[(from + query) * dims + i] : 0.0;
}

/// A query's sums with the lane's two rows, over the canonical
/// lanes that it has of them; x: the query's columns of this lane.
template <Sum sum, int eights>
__device__ __forceinline__ void sum_resident(const double* x, int dims, const double (&rows)[eights][2],
                                             double (&sums)[2]) {
  double lists[4][2] = {};
#pragma unroll
  for (int i = 0; i < eights; i += 2) {
    if (i % 4 == 0 && i > 0 && 8 * i >= dims) break;  // no lane has more
    const DoublePair value = *reinterpret_cast<const DoublePair*>(x + 8 * i);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      lists[i % 4][r] = sum_step<sum, Doubles>(lists[i % 4][r], value.first, rows[i][r]);
      lists[i % 4 + 1][r] = sum_step<sum, Doubles>(lists[i % 4 + 1][r], value.second, rows[i + 1][r]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)  // 16 lanes apart, then 8
    sums[r] = sum_join<sum, Doubles>(sum_join<sum, Doubles>(lists[0][r], lists[2][r]),
                                     sum_join<sum, Doubles>(lists[1][r], lists[3][r]));
}

/// Rows [first, last) with all queries, `tile` of them at a time: every
/// lane calls each(pair, query, row, sum), with `pair` in one lane a pair.
template <Sum sum, class Each>
__device__ __forceinline__ void resident_pairs(const Ranking& args, std::int64_t first, std::int64_t last,
                                               std::int64_t tile, const Each& each) {
  constexpr int eights = static_cast<int>(resident_columns / 8);
  auto* const values = dynamic_shared<double>();
  const auto dims = static_cast<int>(args.rows.dims), pitch = static_cast<int>(resident_pitch(dims));
  const std::int64_t count = args.queries.count, steps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t from = 0; from < count; from += tile) {
    const auto here = static_cast<int>(count - from < tile ? count - from : tile);
    __syncthreads();
    load_resident_queries(args, from, here, values);
    __syncthreads();
    for (std::int64_t piece = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
         first + piece * resident_rows < last; piece += steps) {
      const std::int64_t row = first + piece * resident_rows;
      double rows[eights][2];
      load_resident(args, row, last, rows);
      // Four queries at a time: eight sums a lane, of which it keeps that of row canonical_lane() % 2 of its two with
      // query canonical_lane() / 2 of the four.
      for (int query = 0; query < here; query += resident_at_once) {
        double lists[2 * resident_at_once];
#pragma unroll
        for (int q = 0; q < resident_at_once; ++q) {
          double sums[2];
          sum_resident<sum>(values + (query + q) * pitch + 2 * canonical_lane(), dims, rows, sums);
          lists[2 * q] = sums[0];
          lists[2 * q + 1] = sums[1];
        }
        const double kept = [&] {
          if constexpr (join_of(sum) == Join::max) return lists_joined<4>(lists, Larger{});
          else return lists_joined<4>(lists, Plus{});
        }();
        const std::int64_t mine = row + 2 * pair_of_lane() + canonical_lane() % 2,
                           asked = from + query + canonical_lane() / 2;
        each(mine < last && asked < from + here, asked, mine, kept);
      }
    }
  }
}

}  // namespace vicinal::cuda
