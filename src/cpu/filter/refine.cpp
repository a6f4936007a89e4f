// See refine.hpp.
#include "cpu/filter/refine.hpp"

#include <algorithm>

namespace vicinal::cpu {

void Refinement::refine(int query, std::int64_t end) const {
  Candidates& candidates = block_.candidates[query];
  const PackedRows& chunk = block_.chunk;
  const std::int64_t stride = SecondCode::stride(block_.model.columns);
  const std::int8_t* first_codes = codes_ + query * 2 * stride;
  std::uint32_t index[rank_block];
  std::int32_t sums[rank_block];
  candidates.refinements += end - candidates.refined;
  for (; candidates.refined < end; candidates.refined += std::min(rank_block, end - candidates.refined)) {
    Slot* slots = candidates.slots + candidates.refined;
    const std::int64_t used = std::min(rank_block, end - candidates.refined);
    for (std::int64_t i = 0; i < used; ++i) {
      index[i] = slots[i].position;
      __builtin_prefetch(&chunk.second.terms[slots[i].position]);
    }
    int8_.kernels.second_sums({.first_codes = first_codes,
                               .second_codes = first_codes + stride,
                               .rows = chunk.second.bytes.data(),
                               .stride = stride,
                               .index = index,
                               .count = used,
                               .out = sums});
    for (std::int64_t i = 0; i < used; ++i)
      slots[i].t = never_nan(second_t(
          slots[i].t, chunk.second.terms[slots[i].position], int8_.unit_of(block_, query, slots[i].tile()), sums[i],
          block_.facts[query].second_shift));  // of rows that another thread changes it may be any
    block_.thread_pool.poll(0);
  }
}

double Refinement::upper_of(int query, const Slot& slot) const {
  const QueryFacts& q = block_.facts[query];
  return second_upper(block_.model, slot.t, int8_.unit_of(block_, query, slot.tile()), q.second, q.norms.n,
                      block_.chunk.second.tiles[static_cast<std::size_t>(slot.tile())]);
}

float Refinement::threshold_for(int query, std::size_t tile) const {
  const QueryFacts& q = block_.facts[query];
  return second_threshold(block_.model, block_.candidates[query].threshold_distance, q.second, q.norms.n,
                          block_.chunk.second.tiles[tile]);
}

}  // namespace vicinal::cpu
