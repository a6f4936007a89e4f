// FILTER, its output: candidates leave the segments of the warps that appended them for the slots of their queries,
// with what the sum says of the distance.
#pragma once
#include <type_traits>

#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

/// What warps appended goes to the slots of the queries, a segment a block. A warp finds rows for 32 adjacent queries
/// at most, for a long time: a block counts some hundred finds in shared memory, and asks each query's counter once.
struct ScatterCandidates {
  SearchArgs args;
  const Candidate* candidates = nullptr;  // or groups, of which each row that passed goes to a slot
  const GroupCandidate* groups = nullptr;
  const std::uint32_t* used = nullptr;
  std::int64_t room = 0, workers = 1;
  int always = 0;                    // sums from here on stand for anything
  const BothSides* sides = nullptr;  // Filter's, as the next
  BlockPairs pairs = {};
};
/// A t as an integer that falls as it grows, for floats; both
/// zeros are one, and NaN comes before every number: it passes.
inline constexpr int passes_always = 0x7f800001;
__device__ __forceinline__ int encode_descending(float t) {
  if (!(t == t)) return passes_always;
  const int bits = static_cast<int>(bits_of(t + 0.0f));
  return ~(bits ^ (bits >> 31 & 0x7fffffff));
}
__device__ __forceinline__ float decode_descending(int code) {
  if (code == passes_always) return -static_cast<float>(infinite);
  const int ordered = ~code;
  return __uint_as_float(static_cast<std::uint32_t>(ordered ^ (ordered >> 31 & 0x7fffffff)));
}
/// always: sums from here on stand for anything.
__device__ __forceinline__ float filter_distance(const SearchArgs& args, const Candidate& one, int always) {
  if (args.floats) return decode_descending(one.sum);
  const TileMetadata& rows = args.rows.tile_metadata[one.position / tile_rows];
  const double unit = int8_unit(args.model.sum, args.queries.tile_metadata[one.query / tile_rows].step, rows.step);
  if (one.product != 0) return product_distance(rows.terms[one.position % tile_rows], one.sum, unit);
  return one.sum < always ? int8_distance(one.sum, unit, 0) : -static_cast<float>(infinite);
}

inline constexpr int scatter_threads = 128, scatter_each = 4;
__device__ __forceinline__ bool may_keep(const SearchArgs& args, const Candidate& one) {
  return one.position < args.rows.count &&
         (args.choice.all || may_pair(args, args.queries.order[one.query], args.rows.order[one.position]));
}
/// Where groups of rows were tested, the filter's distance tells which rows pass; masked ones are among them.
__device__ __forceinline__ bool passes_alone(const SearchArgs& args, const Candidate& one, float t) {
  if (one.product == 0) return true;
  const FilterNorms& maxima = args.rows.tile_metadata[one.position / tile_rows].maxima;
  return t < static_cast<float>(infinite) && !(t > up32(int8_bound(args.states[one.query].coeffs, maxima)));
}
__device__ __forceinline__ void store_slot(const SearchArgs& args, std::uint32_t query, const Slot& slot,
                                           std::uint32_t at) {
  if (at < args.capacity) args.slots[query * args.capacity + at] = slot;  // the count tells the rest
}
/// take(row as a candidate, t) for each row of a candidate that stays.
template <class Take>
__device__ __forceinline__ void each_row(const ScatterCandidates& h, const Candidate& one, const Take& take) {
  if (!may_keep(h.args, one)) return;
  const float t = filter_distance(h.args, one, h.always);
  if (passes_alone(h.args, one, t)) take(one, t);
}
/// The same of a graph whose tiles serve both sides, where a row has one position as a row and as a query, and the same
/// bytes: the product of two is that of each as the other's query. Within a block each pair is met from both sides.
template <class Take>
__device__ __forceinline__ void each_side(const ScatterCandidates& h, std::uint32_t query, std::uint32_t position,
                                          int product, const Take& take) {
  if (position >= h.args.rows.count || (position == query && h.args.choice.without_self)) return;
  const BothSides &one = h.sides[query], &other = h.sides[position];
  const auto size = static_cast<float>(product);
  const bool forth = size >= group_threshold(one.coeffs, other.norms),
             back = h.pairs.block_of(query) != h.pairs.block_of(position) &&
                    size >= group_threshold(other.coeffs, one.norms);
  if (forth) take(Candidate{query, position, product, 1}, filter_distance(h.args, {query, position, product, 1}, 0));
  if (back) take(Candidate{position, query, product, 1}, filter_distance(h.args, {position, query, product, 1}, 0));
}
/// The t of a row of a group is made of its product's bound, and so at most
/// the row's own. group: in global memory, where rows are picked from.
template <class Take>
__device__ __forceinline__ void each_row(const ScatterCandidates& h, const GroupCandidate& group, const Take& take) {
  const int lost = lost_product_bits(h.args.rows.width);
  for (unsigned left = group.passed(lost); left != 0; left &= left - 1) {
    const int i = __ffs(static_cast<int>(left)) - 1, product = group.product_bound(i, lost);
    if (h.sides != nullptr) each_side(h, group.query, group.position_of(i), product, take);
    else each_row(h, Candidate{group.query, group.position_of(i), product, 1}, take);
  }
}
template <class Entry>
__global__ void __launch_bounds__(scatter_threads) scatter_candidates(ScatterCandidates h) {
  wait_for_earlier();
  VICINAL_SHARED(std::uint32_t, taken, 32);
  constexpr std::uint32_t at_once = scatter_threads * scatter_each;
  for (std::int64_t worker = blockIdx.x; worker < h.workers; worker += gridDim.x) {
    const std::uint32_t used = h.used[worker];
    const Entry* candidates;
    if constexpr (std::is_same_v<Entry, Candidate>) candidates = h.candidates + worker * h.room;
    else candidates = h.groups + worker * h.room;
    for (std::uint32_t from = 0; from < used; from += at_once) {
      const std::uint32_t count = used - from < at_once ? used - from : at_once,
                          together = candidates[from + count / 2].query / 32;
      // Of each candidate the first row that stays; others of a group,
      // of which there are few, go to their slots by themselves.
      Slot mine[scatter_each];
      std::uint32_t query[scatter_each], position[scatter_each];
      if (thread_index() < 32) taken[thread_index()] = 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < scatter_each; ++i) {
        const std::uint32_t at = static_cast<std::uint32_t>(i * scatter_threads + thread_index());
        position[i] = 0xffffffffu;
        if (at >= count) continue;
        const Entry& one = candidates[from + at];
        query[i] = one.query;
        each_row(h, one, [&](const Candidate& row, float t) {
          const Slot slot{row.position, t};
          if (row.query / 32 != together || row.query != one.query || position[i] != 0xffffffffu)
            return store_slot(h.args, row.query, slot, atomicAdd(&h.args.counts[row.query], 1u));
          mine[i] = slot;
          position[i] = atomicAdd(&taken[row.query % 32], 1u);
        });
      }
      __syncthreads();
      if (thread_index() < 32 && taken[thread_index()] > 0)
        taken[thread_index()] = atomicAdd(&h.args.counts[together * 32 + static_cast<std::uint32_t>(thread_index())],
                                          taken[thread_index()]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < scatter_each; ++i)
        if (position[i] != 0xffffffffu) store_slot(h.args, query[i], mine[i], taken[query[i] % 32] + position[i]);
      __syncthreads();
    }
  }
}

}  // namespace vicinal::cuda
