// FILTER, the second look: what bytes cannot exclude is measured again by a second byte of each row, a fifth of what canonical distances
// would read, and thresholds tighten by the bounds that this proves (core/bound_second.hpp). What is left at the end is little more than the answer.
// Of a query's slots the first QueryState::looked have been looked at again, and their t is of second_t.
#include <algorithm>

#include "cpu/filter/filter.hpp"

namespace vicinal::cpu {

bool FilterTask::looks_twice(int query) const noexcept {
  return seconds != nullptr && facts[query].filterable && !tight(query);
}

bool FilterTask::crowded(int query) const noexcept {
  const QueryState& state = states[query];
  return state.count > state.pool.k + (capacity - panel_rows - state.pool.k) / 2;
}

void FilterTask::look_again(int query, std::int64_t end) {
  QueryState& state = states[query];
  const std::int64_t stride = SecondCode::stride(model.dims);
  const std::int8_t* firsts = seconds + query * 2 * stride;
  std::uint32_t index[rank_block];
  std::int32_t sums[rank_block];
  state.looks += end - state.looked;
  for (; state.looked < end; state.looked += std::min(rank_block, end - state.looked)) {
    Slot* slots = state.slots + state.looked;
    const std::int64_t used = std::min(rank_block, end - state.looked);
    for (std::int64_t i = 0; i < used; ++i) index[i] = slots[i].row;
    bytes->second_sums({.firsts = firsts,
                        .quantization_errors = firsts + stride,
                        .rows = chunk.second.bytes.data(),
                        .stride = stride,
                        .index = index,
                        .count = used,
                        .out = sums});
    for (std::int64_t i = 0; i < used; ++i) {
      const float of_tile = chunk.steps[static_cast<std::size_t>(slots[i].row / tile_rows)];
      slots[i].t =
          never_nan(second_t(slots[i].t, chunk.second.terms[slots[i].row], int8_unit(model.sum, step, of_tile), sums[i],
                             facts[query].second_shift));  // of rows that another thread changes it may be any
    }
    thread_pool.poll(0);
  }
  if (state.matches != nullptr || state.looks <= looks_a_rank * share) return;
  state.abandoned = true;
  set_threshold(query);
}

double FilterTask::upper_of_look(int query, const Slot& slot) const {
  const auto at = static_cast<std::size_t>(slot.row / tile_rows);
  return second_upper(model, slot.t, int8_unit(model.sum, step, chunk.steps[at]), facts[query].second,
                      facts[query].norms.n, chunk.second.tiles[at]);
}

void FilterTask::drop_twice(int query) {
  QueryState& state = states[query];
  look_again(query, state.looked + bring_nearest(query, state.looked));
  tighten_by_looks(query);
  drop_farther(query);
  if (!crowded(query)) return;
  look_again(query, state.count);
  tighten_by_looks(query);
  drop_farther(query);
}

void FilterTask::rank_twice(int query) {
  QueryState& state = states[query];
  const std::int64_t k = state.pool.k;
  look_again(query, state.count);
  if (state.pool.count == 0) tighten_by_looks(query);
  drop_farther(query);
  if (state.matches == nullptr && k > 0 && state.count > k) {
    std::nth_element(state.slots, state.slots + k, state.slots + state.count, nearer);
    rank(query, 0, k);
    std::copy(state.slots + std::max(k, state.count - k), state.slots + state.count, state.slots);
    state.count -= k;
    state.looked = state.count;
    drop_farther(query);
  }
  rank(query, 0, state.count);
}

}  // namespace vicinal::cpu
