// RERANK, between the first rows of a query and the rest: rows that its bytes could not
// exclude are refined with its second bytes (core/bound_two_bytes.hpp), which takes the
// query's share out of the bound. Bytes of a row are a quarter of what ranking reads.
#pragma once
#include "core/bound_groups.hpp"
#include "core/bound_two_bytes.hpp"
#include "cuda/ptx/differences.cuh"
#include "cuda/search/core/block_select.cuh"

namespace vicinal::cuda {

inline constexpr std::uint32_t excluded_position = 0xffffffffu;  // no row's

/// Where a line's 16 columns from `16 * chunk` on of a slab are, in rows or queries of several slabs.
__device__ __forceinline__ std::int64_t chunk_at(const PreparedMatrix& matrix, std::int64_t position, int slab,
                                                 int chunk) {
  constexpr int columns = 128;
  const auto line = static_cast<int>(position % tile_rows);
  return (position - line) * matrix.width + static_cast<std::int64_t>(slab) * columns * tile_rows + line * columns +
         swizzled_chunk(columns, line, chunk) * 16;
}

/// Whether a row at this position is proved beyond theta by both
/// bytes of a query, of which these are the products with its own.
__device__ __forceinline__ bool two_bytes_exclude(const SearchArgs& args, std::int64_t position, std::int64_t row,
                                                  int first, int second, double theta) {
  const TileMetadata& tile = args.rows.tile_metadata[row / tile_rows];
  const QuantizedQuery& query = args.queries.two_bytes[position];
  const double unit = int8_unit(args.model.sum, args.queries.tile_metadata[position / tile_rows].step, tile.step);
  return product_distance(tile.terms[row % tile_rows], two_byte_product(first, second), unit) >
         two_byte_threshold(args.model, theta, query.square, query.norms, tile.maxima);
}

inline constexpr int refine_threads = 64;
/// What the second bytes of a query leave of its slots, when it has its k rows: a block a query, eight lanes two slots,
/// so that of four words that are loaded two are of rows, where one of three was.
__global__ void __launch_bounds__(refine_threads) refine_candidates(SearchArgs args) {
  VICINAL_SHARED(unsigned, scratch, 260);
  // The query, and what it has.
  struct alignas(16) Words {
    std::uint32_t of[4];
  };
  constexpr int batch = 4;  // of slabs that are loaded together
  constexpr std::uint32_t pair = 2;
  const PreparedMatrix &rows = args.rows, &queries = args.queries;
  const std::int64_t position = blockIdx.x;
  const QueryState& state = args.states[position];
  const std::uint32_t count = args.counts[position];
  if (state.given_up || count == 0 || count > args.capacity || static_cast<std::int64_t>(state.best) < args.k) return;
  Slot* const slots = args.slots + position * args.capacity;
  const int chunk = lane_index() % 8, slabs = static_cast<int>(rows.width / 128);
  const auto threads = static_cast<std::uint32_t>(thread_count());
  for (std::uint32_t from = 0; from < count; from += pair * threads / 8) {
    const std::uint32_t at = from + pair * (static_cast<std::uint32_t>(thread_index()) / 8);
    std::int64_t row[pair];
#pragma unroll
    for (std::uint32_t i = 0; i < pair; ++i) row[i] = at + i < count ? slots[at + i].position : 0;
    // The products of both of the query's bytes with a row's.
    unsigned first[pair] = {}, second[pair] = {};
    for (int begin = 0; begin < slabs; begin += batch) {
      Words r[pair][batch];
#pragma unroll
      for (std::uint32_t i = 0; i < pair; ++i)
#pragma unroll
        for (int s = 0; s < batch; ++s) {
          r[i][s] = {};
          if ((begin + s) * 128 + chunk * 16 < rows.dims)
            r[i][s] = *reinterpret_cast<const Words*>(rows.bytes + chunk_at(rows, row[i], begin + s, chunk));
        }
#pragma unroll
      for (int s = 0; s < batch; ++s) {
        const std::int64_t of_query = chunk_at(queries, position, begin + s < slabs ? begin + s : 0, chunk);
        const Words a = *reinterpret_cast<const Words*>(queries.bytes + of_query),
                    b = *reinterpret_cast<const Words*>(queries.second_bytes + of_query);
#pragma unroll
        for (std::uint32_t i = 0; i < pair; ++i)
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            first[i] = add_byte_products<true>(a.of[w], r[i][s].of[w], first[i]);
            second[i] = add_byte_products<true>(b.of[w], r[i][s].of[w], second[i]);
          }
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < pair; ++i)
#pragma unroll
      for (int h = 4; h > 0; h /= 2) {
        first[i] += __shfl_xor_sync(all_lanes, first[i], h);
        second[i] += __shfl_xor_sync(all_lanes, second[i], h);
      }
    // What they exclude is marked: of each of the two by a lane of its own.
    const bool mine = chunk < static_cast<int>(pair) && at + static_cast<std::uint32_t>(chunk) < count;
    if (!mine) continue;
    const bool other = chunk != 0;
    if (two_bytes_exclude(args, position, other ? row[1] : row[0], static_cast<int>(other ? first[1] : first[0]),
                          static_cast<int>(other ? second[1] : second[0]), state.threshold_filter))
      slots[at + static_cast<std::uint32_t>(chunk)].position = excluded_position;
  }
  __syncthreads();
  const std::uint32_t left =
      compact(slots, count, scratch, [](const Slot& slot) { return slot.position != excluded_position; });
  if (thread_index() != 0) return;
  args.counts[position] = left;
  atomicAdd(&args.counters->passed, 0ull - left);  // who ranks them counts them again
}

}  // namespace vicinal::cuda
