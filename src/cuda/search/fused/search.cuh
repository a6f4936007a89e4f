// A few queries against a kept corpus in int8, by one kernel: every block prepares the
// queries, streams its share of the rows through shared memory and ranks the candidates
// that are left; the block that ends last merges what all found (finish.cuh).
#pragma once
#include "core/largest_error.hpp"
#include "cuda/search/fused/finish.cuh"
#include "cuda/search/fused/rank.cuh"
#include "cuda/search/fused/stream.cuh"

namespace vicinal::cuda {

/// The queries of a block, and thresholds that exclude nothing yet; the first rows come meanwhile.
template <int slab>
__device__ __forceinline__ void fused_begin(const FusedArgs& f, const FusedShared& shared, FusedPieces<slab>& pieces) {
  // Every other warp begins with its query: the code of both comes from memory, and so at once.
  for (int part = 0; part < 2; ++part) {
    if ((warp_index() + part) % 2 != 0) pieces.start();
    else
      for (int which = warp_index(); which < f.count; which += fused_warps) fused_measure<slab>(f, which, shared);
  }
  fused_round_all<slab>(f, shared);
}

/// What a block says of each query, and of all, when its candidates are ranked.
__device__ __forceinline__ void fused_say(const FusedArgs& f, const FusedShared& shared) {
  const int which = thread_index();
  if (which < f.count) {
    const FusedQuery& query = shared.queries[which];
    const unsigned flags = (shared.counters->found > fused_found ? fused_full : 0u) | (query.fit ? 0u : fused_unfit);
    if (flags != 0) atomicOr(&f.state.flags[which], flags);
    atomicMin(&f.state.radius[which], shared.known[which]);
    if (blockIdx.x == 0)
      f.state.largest[which] =
          largest_error(f.model, query.quantized.norms, {double_of(f.rows.largest[0]), double_of(f.rows.largest[1])},
                        query.quantized.scale);
  } else if (which == fused_queries) {
    atomicAdd(f.state.candidates, static_cast<unsigned long long>(shared.counters->found));
  }
}

/// groups: of eight queries.
template <int slab, int groups>
__global__ void __launch_bounds__(fused_block_threads, 1) fused_search(FusedArgs f) {
  auto* const base = dynamic_shared<unsigned char>();
  const FusedShared shared(base, fused_memory(slab));
  if (thread_index() == 0) *shared.counters = {};
  __syncthreads();
  FusedPieces<slab> pieces(f, shared);
  fused_begin<slab>(f, shared, pieces);
  std::uint32_t queries[slab / 32][4];
#pragma unroll
  for (int step = 0; step < slab / 32; ++step)
    load_matrices(queries[step], line_chunk<slab>(shared.lines, lane_index() / 16 * 8 + lane_index() % 8,
                                                  2 * step + (lane_index() / 8 & 1)));
  fused_stream<slab, groups>(f, shared, pieces, queries);
  __syncthreads();

  fused_rank(f, shared, slab);
  fused_say(f, shared);

  random_delay();
  // The last block sees what all have written.
  __threadfence();
  __syncthreads();
  if (thread_index() == 0)
    shared.counters->last = atomicAdd(f.state.ended, 1u) == static_cast<unsigned>(f.blocks) - 1 ? 1 : 0;
  __syncthreads();
  if (shared.counters->last == 0) return;
  __threadfence();
  fused_finish(f, base);
}

}  // namespace vicinal::cuda
