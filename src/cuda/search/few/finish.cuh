// The lists of a few queries, of what all blocks found, become rows of the result, a block a query; what few_search needs is as it was before.
#pragma once
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/few/few.hpp"

namespace vicinal::cuda {

__global__ void __launch_bounds__(few_finish_threads) few_finish(Few f) {
  auto* const words = dynamic_shared<std::uint64_t>();
  wait_for_earlier();
  const int which = static_cast<int>(blockIdx.x);
  const unsigned found = f.state.counts[which], have = found < few_words ? found : few_words;
  for (unsigned i = static_cast<unsigned>(thread_index()); i < have; i += few_finish_threads)
    words[i] = f.state.words[which * few_words + static_cast<int>(i)];
  __syncthreads();
  sort_list<Packed>(words, static_cast<int>(have));
  for (int i = thread_index(); i < f.k && i < static_cast<int>(have); i += few_finish_threads) {
    const double key = ListWords<Packed>::key(words[i]);
    f.ids[which * f.k + i] = f.first_id + Packed::position(words[i]);
    f.distances[which * f.k + i] = static_cast<float>(descending(f.model.metric) ? -key : key);
  }
  if (thread_index() == 0) {
    unsigned flags = f.state.flags[which];
    if (found > few_words) flags |= few_full;
    const std::uint32_t radius = f.state.radius[which];
    // The k-th is within what every row was ranked up to.
    if (have < static_cast<unsigned>(f.k) || ListWords<Packed>::top(words[f.k - 1]) > radius) flags |= few_unproved;
    FewFacts facts{};
    facts.verified_radius =
        radius == 0xffffffffu ? infinite : ListWords<Packed>::key(static_cast<std::uint64_t>(radius) << 32);
    facts.largest = f.state.largest[which];
    facts.flags = flags;
    if (which == 0) {
      facts.passed = f.state.totals[0];
      facts.ranked = f.state.totals[1];
      f.state.totals[0] = f.state.totals[1] = 0;
    }
    f.facts[which] = facts;
    f.state.counts[which] = f.state.flags[which] = 0;
    f.state.radius[which] = 0xffffffffu;
  }
  for (int i = thread_index(); i < f.blocks; i += few_finish_threads)
    f.state.minima[which * few_blocks + i] = 0xffffffffu;
}

}  // namespace vicinal::cuda
