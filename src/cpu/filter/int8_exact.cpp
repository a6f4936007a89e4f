// FILTER and SELECT of whole numbers within a byte (u8, i8, integers in floats): sums of bytes give squared distances exactly, and so
// the keys. There is no bound, and nothing is ranked: what ties at the k-th key is settled by ids in the pool.
#include <algorithm>
#include <cmath>

#include "core/canonical.hpp"
#include "cpu/filter/filter.hpp"

namespace vicinal::cpu {

// Sums start from -floor(|r|^2 / 2), so that 2 (shift - sum) + (|r|^2 mod 2) = |r|^2 - 2 q.r, which is Slot::t.

double FilterTask::square_of(int query) const noexcept {
  return 2 * facts[query].square / int8_unit(model.sum, step, chunk.steps[0]);
}

/// No row whose key is within the bound has a larger squared distance.
double FilterTask::reach(int query) const noexcept {
  return std::floor(reach_of(spec->metric, spec->type, states[query].bound));
}

double FilterTask::key_of(int query, const Slot& slot) const noexcept {
  return fold_key(canonical_value(spec->metric, square_of(query) + static_cast<double>(slot.t), 0, 0), spec->type,
                  false);
}

/// Sums below it belong to squared distances beyond reach, whatever the last bit of |r|^2.
std::int32_t FilterTask::whole_limit(int query) const noexcept {
  if (states[query].abandoned || states[query].idle) return every_sum;
  const double limit = facts[query].shift + (square_of(query) - reach(query)) / 2;
  return limit > -0x1p31 ? whole_above(limit) : std::numeric_limits<std::int32_t>::min();
}

void FilterTask::drop_whole(int query) {
  QueryState& state = states[query];
  const std::int64_t k = state.pool.k, before = state.count;
  if (state.count >= k && k > 0) {
    std::nth_element(state.slots, state.slots + (k - 1), state.slots + state.count, nearer);
    tighten(query, key_of(query, state.slots[k - 1]));
  }
  guess(query);
  const double most = reach(query) - square_of(query);
  state.count = std::remove_if(state.slots, state.slots + state.count,
                               [&](const Slot& slot) { return static_cast<double>(slot.t) > most; }) -
                state.slots;
  state.passed += before - state.count;
}

void FilterTask::rank_whole(int query) {
  QueryState& state = states[query];
  for (std::int64_t i = 0; i < state.count; ++i)
    state.pool.offer({key_of(query, state.slots[i]), spec->first_id + chunk.first + chunk.row_at(state.slots[i].row)});
  state.passed += state.count;
  state.pool.trim();
  if (state.pool.full()) tighten(query, state.pool.worst.key);
}

}  // namespace vicinal::cpu
