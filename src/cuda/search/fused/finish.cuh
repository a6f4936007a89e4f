// The lists of a few queries, of what all blocks found, become rows of the result by the block that ends last, a warp a
// query; what fused_search needs is as it was before.
#pragma once
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/fused/fused.hpp"

namespace vicinal::cuda {

/// Cuts words to those whose key is not beyond the k-th; returns how many. There are at least k.
__device__ __forceinline__ unsigned fused_cut(unsigned k, unsigned have, std::uint64_t* words) {
  std::uint32_t kth = 0;  // the largest number that fewer than k are below
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t more = kth | 1u << bit;
    unsigned below = 0;
    for (unsigned i = static_cast<unsigned>(lane_index()); i < have; i += 32)
      below += ListWords<Packed>::top(words[i]) < more ? 1u : 0u;
    if (__reduce_add_sync(all_lanes, below) < k) kth = more;
  }
  unsigned kept = 0;
  for (unsigned from = 0; from < have; from += 32) {
    const unsigned i = from + static_cast<unsigned>(lane_index());
    const std::uint64_t word = i < have ? words[i] : ~0ull;
    const bool keeps = i < have && ListWords<Packed>::top(word) <= kth;
    const unsigned votes = __ballot_sync(all_lanes, keeps);  // after which the words are read
    if (keeps) words[kept + static_cast<unsigned>(votes_below(votes))] = word;
    kept += static_cast<unsigned>(__popc(votes));
    __syncwarp();
  }
  return kept;
}

/// A query's row of the result, of `found` words, k at least; returns its k-th key. last: in shared memory.
__device__ __forceinline__ std::uint32_t fused_write(const FusedArgs& f, int which, unsigned found, FusedLast& last) {
  constexpr unsigned most_uncut = 64;
  const volatile std::uint64_t* const all = f.state.words + which * fused_words;
  for (unsigned i = static_cast<unsigned>(lane_index()); i < found; i += 32) last.words[i] = all[i];
  __syncwarp();
  const unsigned k = static_cast<unsigned>(f.k), have = found > most_uncut ? fused_cut(k, found, last.words) : found;
  std::uint32_t kth = 0;
  // A word's rank is the number of those before it, for no two are equal.
  for (unsigned i = static_cast<unsigned>(lane_index()); i < have; i += 32) {
    const std::uint64_t word = last.words[i];
    unsigned rank = 0;
#pragma unroll 4
    for (unsigned j = 0; j < have; ++j) rank += last.words[j] < word ? 1u : 0u;
    if (rank >= k) continue;
    kth = kth < ListWords<Packed>::top(word) ? ListWords<Packed>::top(word) : kth;
    last.row[rank] = word;
  }
  __syncwarp();
  // In their order, for the result may be memory of the host, which takes as long for one entry as for a line of them.
  for (unsigned i = static_cast<unsigned>(lane_index()); i < k; i += 32) {
    const double key = ListWords<Packed>::key(last.row[i]);
    f.ids[which * f.k + static_cast<int>(i)] = f.first_id + Packed::position(last.row[i]);
    f.distances[which * f.k + static_cast<int>(i)] = static_cast<float>(descending(f.model.metric) ? -key : key);
  }
  return __reduce_max_sync(all_lanes, kth);
}

/// The last block writes the results and facts of all queries, and leaves
/// the state as the next call needs it. base: of its shared memory.
__device__ __forceinline__ void fused_finish(const FusedArgs& f, unsigned char* base) {
  const FusedState& state = f.state;
  auto* const facts = reinterpret_cast<FusedFacts*>(reinterpret_cast<FusedLast*>(base) + fused_warps);
  for (int which = warp_index(); which < f.count; which += fused_warps) {
    // All that other blocks have written is loaded at once.
    const unsigned found = static_cast<const volatile unsigned*>(state.counts)[which],
                   flags = static_cast<const volatile unsigned*>(state.flags)[which];
    const std::uint32_t radius = static_cast<const volatile std::uint32_t*>(state.radius)[which];
    const double largest = static_cast<const volatile double*>(state.largest)[which];
    const unsigned long long candidates = *static_cast<const volatile unsigned long long*>(state.candidates);
    unsigned why = found > fused_words ? fused_full : found < static_cast<unsigned>(f.k) ? fused_unproved : 0u;
    // The k-th is within what every row was ranked up to.
    if (why == 0 && fused_write(f, which, found, reinterpret_cast<FusedLast*>(base)[warp_index()]) > radius)
      why = fused_unproved;
    for (int i = lane_index(); i < f.blocks; i += 32) state.minima[which * fused_blocks + i] = fused_none;
    __syncwarp();
    if (lane_index() != 0) continue;
    facts[which] = {.verified_radius = radius == fused_none
                                           ? infinite
                                           : ListWords<Packed>::key(static_cast<std::uint64_t>(radius) << 32),
                    .largest = largest,
                    .candidates = candidates,
                    .flags = flags | why};
    state.counts[which] = state.flags[which] = 0;
    state.radius[which] = fused_none;
  }
  __syncthreads();
  constexpr int words = static_cast<int>(sizeof(FusedFacts) / 8);
  for (int i = thread_index(); i < f.count * words; i += fused_block_threads)
    reinterpret_cast<unsigned long long*>(f.facts)[i] = reinterpret_cast<const unsigned long long*>(facts)[i];
  if (thread_index() != 0) return;
  *state.candidates = 0;
  *state.ended = 0;
}

}  // namespace vicinal::cuda
