// The candidates of a block that are left at the end of fused_search (search.cuh): they are ranked by canonical
// distance and go to the queries' lists.
#pragma once
#include "cuda/search/fused/bounds.cuh"
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

/// Lanes of the canonical sums of some pairs of row and query.
template <Sum sum, int each>
__device__ __forceinline__ void fused_lanes(const FusedArgs& f, const double* const (&values)[each],
                                            const std::int64_t (&rows)[each], const double (&shifts)[each],
                                            double (&lists)[each]) {
  with_elements(f.rows, [&](auto load) {
    for (int i = lane_index(); i < f.rows.dims; i += 32) {
      double r[each];
#pragma unroll
      for (int j = 0; j < each; ++j) r[j] = load(rows[j] + i);
#pragma unroll
      for (int j = 0; j < each; ++j) lists[j] = with<sum>(lists[j], values[j][i], r[j], shifts[j]);
    }
  });
}

/// A row's key for a query goes to the query's list, where the answer
/// may hold it. Keys that are looked at again are the usual kernels'.
__device__ __forceinline__ void fused_append(const FusedArgs& f, const FusedShared& shared, const FusedPair& pair,
                                             double sum) {
  const Metric metric = f.model.metric;
  double value;
  if (needs_norms(metric)) {
    const double self = f.rows.self[pair.row];
    value = self < 0 ? 1.0 : canonical_value(metric, sum, shared.queries[pair.query].self, self);
  } else {
    value = canonical_value(metric, sum, 0, 0);
  }
  const double rounded = static_cast<double>(static_cast<float>(value)), key = descending(metric) ? -rounded : rounded;
  const bool nothing = key == 0 && (descending(metric) || bits_of(value) != 0),
             small = key != 0 && fabs(key) < 0x1p-126;
  if (!is_finite(key) || nothing || small) atomicOr(&f.state.flags[pair.query], static_cast<unsigned>(fused_odd));
  const std::uint32_t ordered = ListWords<Packed>::ordered(key);
  if (ordered > shared.known[pair.query]) return;
  const unsigned at = atomicAdd(&f.state.counts[pair.query], 1u);
  if (at < fused_words)
    f.state.words[pair.query * fused_words + static_cast<int>(at)] = Packed::make(ordered, pair.row);
}

/// Canonical distances of the block's candidates, four a warp at a time.
__device__ __forceinline__ void fused_rank(const FusedArgs& f, const FusedShared& shared, int slab) {
  const FusedPair* const pairs = shared.found;
  const unsigned count = shared.counters->found < fused_found ? shared.counters->found : fused_found;
  constexpr int each = rows_at_once;
  const Sum sum = sum_of(f.model.metric);
  for (unsigned from = static_cast<unsigned>(warp_index()) * each; from < count; from += fused_warps * each) {
    const double* values[each];
    std::int64_t rows[each];
    double shifts[each], lists[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const FusedPair pair = pairs[from + static_cast<unsigned>(j) < count ? from + static_cast<unsigned>(j) : from];
      values[j] = shared.values + pair.query * slab;
      rows[j] = static_cast<std::int64_t>(pair.row) * f.rows.dims;
      shifts[j] = f.model.metric == Metric::correlation ? f.rows.mean[pair.row] : 0.0;
      lists[j] = 0;
    }
    if (sum == Sum::squares) fused_lanes<Sum::squares>(f, values, rows, shifts, lists);
    else fused_lanes<Sum::products>(f, values, rows, shifts, lists);
    const double total = lists_joined(lists, Plus{});
    const unsigned which = from + static_cast<unsigned>(lane_index() / (32 / each));
    if (lane_index() % (32 / each) == 0 && which < count) fused_append(f, shared, pairs[which], total);
  }
}

}  // namespace vicinal::cuda
