// FILTER of rows among themselves, where a tile serves both of its sides: what each row is as a query and as a row, and
// what the rows of a pair of groups are as queries (docs/exactness.md, 8.9).
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

/// What the filter takes of a graph's rows whose tiles serve both sides: of each from both, and of the pairs of groups
/// as queries. A warp a pair, of whole blocks of queries.
struct TakeBothSides {
  SearchArgs args;
  BothSides* sides = nullptr;      // Filter's
  GroupCoeffs* loosest = nullptr;  // the same
};
inline constexpr int sides_threads = 256;
__global__ void __launch_bounds__(sides_threads) take_both_sides(TakeBothSides s) {
  const SearchArgs& args = s.args;
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index(),
                     tile = pair / pairs_a_tile;
  static_assert(rows_a_pair == 32, "a lane has a row");
  const std::int64_t position = tile * tile_rows + row_of_pair(static_cast<int>(pair % pairs_a_tile), lane_index());
  RowGroup alone;  // of none, where there is no such row
  double inverse = 1;
  if (tile < args.rows.tiles()) inverse = args.rows.tile_metadata[tile].inverse;
  if (position < args.rows.count)
    take_row(alone, args.rows.tile_metadata[tile].terms[position % tile_rows], args.queries.quantized[position].norms);
  ThresholdCoeffsF32 coeffs = coeffs_of(args, position);
  const auto of_queries = static_cast<float>(inverse / int8_unit(args.model.sum, 1, 1));
  s.sides[position] = {group_coeffs(coeffs, of_queries), group_norms(alone, inverse)};
  if (tile >= args.rows.tiles()) return;
#pragma unroll
  for (int h = 16; h > 0; h /= 2)
    coeffs = loosest(coeffs, {__shfl_xor_sync(all_lanes, coeffs.base, h), __shfl_xor_sync(all_lanes, coeffs.by_e, h),
                              __shfl_xor_sync(all_lanes, coeffs.by_n, h)});
  if (lane_index() == 0) s.loosest[pair] = group_coeffs(coeffs, of_queries);
}

/// The 16 queries of a warp from both sides, to shared memory, where `coeffs` and `norms` are of the first.
__device__ __forceinline__ void load_both_sides(const BothSides* sides, GroupCoeffs* coeffs, GroupNorms* norms) {
  __syncwarp();
  const int which = lane_index() % 16;
  if (lane_index() < 16) coeffs[which] = sides[which].coeffs;
  else norms[which] = sides[which].norms;
  __syncwarp();
}

/// What is known of a thread's two queries, which are 8 apart.
template <class Facts>
struct OfTwo {
  Facts of[2];
  OfTwo() = default;
  /// from: where the first one's are in shared memory.
  __device__ __forceinline__ explicit OfTwo(unsigned from)
      : of{load_shared<Facts>(from), load_shared<Facts>(from + 8 * static_cast<unsigned>(sizeof(Facts)))} {}
};
using TwoCoeffs = OfTwo<GroupCoeffs>;
/// Thresholds become those of either side: norms are of the two queries as rows, which the rows of the pair of groups as
/// queries may want. NaN, which means none, yields to the other side's.
__device__ __forceinline__ void lower_by_other_side(float (&thresholds)[2], const GroupCoeffs& loosest,
                                                    const OfTwo<GroupNorms>& norms) {
#pragma unroll
  for (int h = 0; h < 2; ++h) thresholds[h] = fminf(thresholds[h], group_threshold(loosest, norms.of[h]));
}

}  // namespace vicinal::cuda
