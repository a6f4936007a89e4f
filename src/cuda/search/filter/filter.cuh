// What the kernels that filter share: their arguments, biases of rows and thresholds of queries, and how a warp appends
// what passes to its segment of global memory: no counter is asked, and no warp waits. scatter.cuh takes it from there.
#pragma once
#include "cuda/search/core/element.cuh"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/core/row_choice.cuh"
#include "cuda/search/filter/kernel.hpp"
#include "cuda/search/filter/units.hpp"

namespace vicinal::cuda {

inline constexpr int filter_threads = 512, filter_warps = filter_threads / 32;  // of a block of the kernels by mma

/// A row of a graph whose tiles serve both of their sides: as a query, and as a row.
struct BothSides {
  GroupCoeffs coeffs;
  GroupNorms norms;
};

struct Filter {
  SearchArgs args;
  std::int64_t first = 0, last = 0;  // visits
  std::int64_t part = 1, parts = 1;  // tiles of a unit of work, units a block of queries
  std::int64_t blocks = 1;           // of queries
  Candidate* candidates = nullptr;   // of each warp of the grid `room` entries; null where candidates are groups
  GroupCandidate* group_candidates = nullptr;
  std::uint32_t* used = nullptr;  // of each warp
  std::int64_t room = 0;
  bool everything = false;  // no threshold is known, all pairs will be candidates
  int* nearest = nullptr;   // sampling: of each query and group of rows, its largest sum
  std::int64_t groups = 0;  // groups_a_tile of each visit, in any order
  bool sampling = false;
  // Where tiles serve both of their sides, `first` and `last` are visits of runs of distances between blocks of `pairs`,
  // of which each has so many blocks of queries.
  BlockPairs pairs = {};
  unsigned blocks_a_pair = 1;
  std::int64_t passing = 0;              // Speculation's
  const BothSides* sides = nullptr;      // of rows, to the end of the last block
  const GroupCoeffs* loosest = nullptr;  // of the rows of pairs of groups as queries

  VICINAL_HOST_DEVICE bool serves_both() const { return sides != nullptr; }
};

/// A bias for a row, and a threshold for a query, against a tile: `inverse` is 1 /
/// (unit of the tile with the query's half). Upper bounds of distances are taken
/// from sums when sampling: then a bias must not be far above what it stands for.
template <bool sampling>
__device__ __forceinline__ int bias_of(const SearchArgs& args, float term, std::int64_t position, double inverse) {
  if (!args.choice.all && position < args.rows.count &&
      !may_answer(args.choice, args.first_row + args.rows.order[position]))
    term = static_cast<float>(infinite);
  if constexpr (sampling) return int8_bias(term, inverse);
  else return quick_bias(term, static_cast<float>(inverse));
}
__device__ __forceinline__ int int8_threshold_of(const ThresholdCoeffsF32& coeffs, const FilterNorms& maxima,
                                                 double inverse) {
  return coeffs.base > -static_cast<float>(infinite)
             ? quick_threshold(coeffs, up32(maxima.e), up32(maxima.n), static_cast<float>(inverse))
             : 0x7fffffff;
}
/// What a query excludes; nothing is a candidate of one that is not there.
__device__ __forceinline__ ThresholdCoeffsF32 coeffs_of(const SearchArgs& args, std::int64_t position) {
  if (position < args.queries.count) return threshold_coeffs_f32(args.states[position].coeffs);
  return {-static_cast<float>(infinite), 0, 0};
}
/// 1 / step of half a block's queries, halved where the form doubles products.
__device__ __forceinline__ double query_inverse(const SearchArgs& args, std::int64_t block, int half) {
  const std::int64_t tile = 2 * block + half < args.queries.tiles() ? 2 * block + half : 2 * block;
  return args.queries.tile_metadata[tile].inverse / int8_unit(args.model.sum, 1, 1);
}

/// What a warp of the kernels by mma multiplies: 32 queries of a block and 64 rows of a tile, of which a lane has some.
struct WarpTile {
  std::int64_t block, first;  // first: visit of the unit of work
  int warp_queries, warp_rows, group, member;
};

struct alignas(8) SumPair {
  int first, second;
};

/// What passed of a group of sums: those of a lane are of one query and of `pairs` pairs of rows,
/// 8 rows apart. Hits are rare, so lanes that have one lay their sums down in shared memory,
/// where the whole warp looks through them, a lane's at a time. query, position: of lane 0;
/// rows_left: from the position on. What finds no room is lost, and its query knows it.
template <int pairs>
inline constexpr int append_pitch = 2 * pairs + 2;
template <int pairs, class Pair>
__device__ __forceinline__ void append_candidates(const Filter& f, int* scratch, bool hit, int threshold,
                                                  std::uint32_t query, std::uint32_t position, int rows_left,
                                                  Candidate* segment, std::uint32_t& used, const Pair& pair) {
  unsigned lanes = __ballot_sync(all_lanes, hit);
  if (lanes == 0) return;
  if (hit) {
    auto* mine = reinterpret_cast<SumPair*>(scratch + lane_index() * append_pitch<pairs>);
#pragma unroll
    for (int i = 0; i < pairs; ++i) mine[i] = pair(i);
  }
  __syncwarp();
  const int row = lane_index() / 2 * 8 + lane_index() % 2;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int from = __ffs(static_cast<int>(lanes)) - 1, at = row + from % 4 * 2;
    const int bound = __shfl_sync(all_lanes, threshold, from);
    int sum = 0;
    bool passed = false;
    if (lane_index() < 2 * pairs) {
      sum = scratch[from * append_pitch<pairs> + lane_index()];
      passed = sum >= bound && at < rows_left;
    }
    const unsigned all = __ballot_sync(all_lanes, passed);
    const std::uint32_t which = query + static_cast<std::uint32_t>(from / 4),
                        next = used + static_cast<std::uint32_t>(__popc(all));
    if (next > f.room) {
      if (passed) f.args.states[which].given_up = true;
      continue;
    }
    if (passed)
      segment[used + static_cast<std::uint32_t>(votes_below(all))] = {which, position + static_cast<std::uint32_t>(at),
                                                                      sum, 0};
    used = next;
  }
  __syncwarp();
}
}  // namespace vicinal::cuda
