// Every pair of short rows and many queries: a warp keeps eight rows in registers, widened, and a tile of the queries lies in shared memory, so
// that a pair costs its canonical sum and hardly a load. exhaustive.cuh takes it where rows_reside().
#pragma once
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

inline constexpr int resident_threads = 256, resident_rows = 8,
                     resident_at_once = 4;  // rows of a warp, queries of a step
inline constexpr std::int64_t resident_columns = 128;
inline constexpr int resident_blocks = 2;  // of a multiprocessor

/// Whether rows are short and many enough: every warp should have eight of them several times, and queries to pass by.
inline bool rows_reside(std::int64_t dims, std::int64_t rows, std::int64_t queries, int multiprocessors) {
  constexpr std::int64_t least_queries = 8, least_rounds = 4;
  return dims <= resident_columns && queries >= least_queries &&
         rows >= least_rounds * resident_rows * resident_blocks * (resident_threads / 32) * multiprocessors;
}

/// Columns of a query in shared memory: whole groups of lanes.
VICINAL_HOST_DEVICE inline std::int64_t resident_pitch(std::int64_t dims) { return (dims + 31) / 32 * 32; }
/// Queries of a tile, of which two blocks have room on a multiprocessor: all tiles have about as many, in whole steps.
inline std::int64_t resident_tile(std::int64_t dims, std::int64_t queries) {
  const std::int64_t most = (std::int64_t{96} << 10) / (resident_pitch(dims) * 8), tiles = (queries + most - 1) / most;
  return ((queries + tiles - 1) / tiles + resident_at_once - 1) / resident_at_once * resident_at_once;
}
inline std::int64_t resident_memory(std::int64_t dims, std::int64_t queries) {
  return resident_tile(dims, queries) * resident_pitch(dims) * 8;
}

/// Eight rows from `row` on, widened, a column a lane and group; without their mean for correlation. The type is known before the first load, so that
/// all of them are on their way together.
template <int groups>
__device__ __forceinline__ void load_resident(const Ranking& args, std::int64_t row, std::int64_t last,
                                              double (&rows)[groups][resident_rows]) {
  const PreparedMatrix& matrix = args.rows;
  const auto fill = [&](auto load) {
#pragma unroll
    for (int r = 0; r < resident_rows; ++r) {
      const std::int64_t at = row + r < last ? row + r : row, base = at * matrix.dims + lane_index();
      const double shift = args.metric == Metric::correlation ? matrix.mean[at] : 0.0;
#pragma unroll
      for (int g = 0; g < groups; ++g)
        rows[g][r] = 32 * g + lane_index() < matrix.dims ? load(base + 32 * g) - shift : 0.0;
    }
  };
  if (matrix.dtype == DType::f32)
    fill([&](std::int64_t i) { return static_cast<double>(static_cast<const float*>(matrix.rows)[i]); });
  else if (matrix.dtype == DType::u8)
    fill([&](std::int64_t i) { return static_cast<double>(static_cast<const std::uint8_t*>(matrix.rows)[i]); });
  else if (matrix.dtype == DType::f64) fill([&](std::int64_t i) { return static_cast<const double*>(matrix.rows)[i]; });
  else fill([&](std::int64_t i) { return element(matrix.rows, matrix.dtype, i); });
}

/// Rows [first, last) with all queries, `tile` of them at a time: every lane calls each(pair, query, row, sum), with `pair` in one lane a pair.
template <Sum sum, class Each>
__device__ __forceinline__ void resident_pairs(const Ranking& args, std::int64_t first, std::int64_t last,
                                               std::int64_t tile, const Each& each) {
  constexpr int groups = static_cast<int>(resident_columns / 32);
  auto* const values = dynamic_shared<double>();  // [query][pitch]
  const auto dims = static_cast<int>(args.rows.dims), pitch = static_cast<int>(resident_pitch(dims)),
             lane = lane_index();
  const std::int64_t count = args.queries.count, steps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t from = 0; from < count; from += tile) {
    // The tile of queries.
    const auto here = static_cast<int>(count - from < tile ? count - from : tile);
    __syncthreads();
    for (int query = warp_index(); query < here; query += thread_count() / 32)
      for (int i = lane; i < dims; i += 32) values[query * pitch + i] = args.queries.values[(from + query) * dims + i];
    __syncthreads();
    for (std::int64_t piece = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
         first + piece * resident_rows < last; piece += steps) {
      // Eight rows of the warp.
      const std::int64_t row = first + piece * resident_rows;
      double rows[groups][resident_rows];
      load_resident(args, row, last, rows);
      // The queries, of which lane i keeps the sum of row i / 4 with query i % 4 of four.
      for (int query = 0; query < here; query += resident_at_once) {
        double kept = 0;
#pragma unroll 1
        for (int q = 0; q < resident_at_once && query + q < here; ++q) {
          const double* x = values + (query + q) * pitch + lane;
          double lists[resident_rows] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
          for (int g = 0; g < groups; ++g) {
            if (32 * g + lane >= dims) continue;
            const double value = x[32 * g];
#pragma unroll
            for (int r = 0; r < resident_rows; ++r) lists[r] = sum_step<sum, Doubles>(lists[r], value, rows[g][r]);
          }
          const double total = [&] {
            if constexpr (join_of(sum) == Join::max) return lists_joined(lists, Larger{});
            else return lists_joined(lists, Plus{});
          }();
          if (lane % resident_at_once == q) kept = total;
        }
        const std::int64_t mine = row + lane / resident_at_once, asked = from + query + lane % resident_at_once;
        each(mine < last && asked < from + here, asked, mine, kept);
      }
    }
  }
}

}  // namespace vicinal::cuda
