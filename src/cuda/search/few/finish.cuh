// The lists of a few queries, of what all blocks found, become rows of the result by the block that ends last, a warp a query; what few_search needs is
// as it was before.
#pragma once
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/few/few.hpp"

namespace vicinal::cuda {

/// A query's words to shared memory, but those whose key is beyond the k-th; returns how many, and the k-th key. There are at least k.
__device__ __forceinline__ unsigned few_nearest_words(const Few& f, int which, unsigned have, std::uint64_t* words,
                                                      std::uint32_t& kth) {
  const volatile std::uint64_t* const all = f.state.words + which * few_words;
  for (unsigned i = static_cast<unsigned>(lane_index()); i < have; i += 32) words[i] = all[i];
  __syncwarp();
  kth = 0;  // the largest number that fewer than k are below
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t more = kth | 1u << bit;
    unsigned below = 0;
    for (unsigned i = static_cast<unsigned>(lane_index()); i < have; i += 32)
      below += ListWords<Packed>::top(words[i]) < more ? 1u : 0u;
    if (__reduce_add_sync(all_lanes, below) < static_cast<unsigned>(f.k)) kth = more;
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

/// A query's row of the result; returns why it is none. radius: the least key that something was excluded by. By a warp.
__device__ __forceinline__ unsigned few_write(const Few& f, int which, std::uint32_t radius, std::uint64_t* words) {
  const unsigned found = *static_cast<const volatile unsigned*>(f.state.counts + which), k = static_cast<unsigned>(f.k);
  if (found > few_words) return few_full;
  if (found < k) return few_unproved;
  std::uint32_t kth = 0;
  const unsigned kept = few_nearest_words(f, which, found, words, kth);
  // A word's rank is the number of those before it, for no two are equal.
  for (unsigned i = static_cast<unsigned>(lane_index()); i < kept; i += 32) {
    const std::uint64_t word = words[i];
    unsigned rank = 0;
    for (unsigned j = 0; j < kept; ++j) rank += words[j] < word ? 1u : 0u;
    if (rank >= k) continue;
    const double key = ListWords<Packed>::key(word);
    f.ids[which * f.k + static_cast<int>(rank)] = f.first_id + Packed::position(word);
    f.distances[which * f.k + static_cast<int>(rank)] = static_cast<float>(descending(f.model.metric) ? -key : key);
  }
  return kth > radius ? few_unproved : 0u;  // the k-th is within what every row was ranked up to
}

/// By a block; words: few_words a warp.
__device__ __forceinline__ void few_finish(const Few& f, std::uint64_t* words) {
  for (int which = warp_index(); which < f.count; which += few_warps) {
    const std::uint32_t radius = *static_cast<const volatile std::uint32_t*>(f.state.radius + which);
    const unsigned why = few_write(f, which, radius, words + warp_index() * few_words);
    for (int i = lane_index(); i < f.blocks; i += 32) f.state.minima[which * few_blocks + i] = few_none;
    __syncwarp();
    if (lane_index() != 0) continue;
    FewFacts facts{};
    facts.verified_radius =
        radius == few_none ? infinite : ListWords<Packed>::key(static_cast<std::uint64_t>(radius) << 32);
    facts.largest = *static_cast<const volatile double*>(f.state.largest + which);
    facts.flags = why | *static_cast<const volatile unsigned*>(f.state.flags + which);
    if (which == 0) {
      facts.passed = *static_cast<const volatile unsigned long long*>(f.state.totals);
      facts.ranked = *static_cast<const volatile unsigned long long*>(f.state.totals + 1);
      f.state.totals[0] = f.state.totals[1] = 0;
      *f.state.ended = 0;
    }
    f.facts[which] = facts;
    f.state.counts[which] = f.state.flags[which] = 0;
    f.state.radius[which] = few_none;
  }
}

}  // namespace vicinal::cuda
