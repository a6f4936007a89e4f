// FILTER, bounds that are guessed. After a share f of the rows the k nearest seen bound the answer by what is the (k / f)-th of all, far too high for long. Tiles are
// visited evenly, so of the k nearest rows some f k have been seen, and seldom many more: the bound becomes what a few more than f k of the seen rows are within.
// It excludes like any other bound, and is proved in the end: by k rows within it, which the certificate asks for anyway. A query that finds fewer sees
// all rows once more, without guesses. How likely that is matters to time alone, and where it happened once nothing is guessed any more.
#include <algorithm>
#include <cmath>

#include "cpu/filter/filter.hpp"

namespace vicinal::cpu {
namespace {

constexpr double deviations =
    5;  // of a binomial's, beyond what is expected of evenly spread rows, and some rows for small ones
constexpr double rows_besides = 4;

}  // namespace

std::int64_t FilterTask::rank_of_guess() const noexcept {
  const std::int64_t k = spec->k;
  if (!(seen > 0)) return k;
  const double expected = seen * static_cast<double>(k);
  return std::min(k,
                  static_cast<std::int64_t>(expected + deviations * std::sqrt(expected * (1 - seen)) + rows_besides));
}

void FilterTask::guess(int query) {
  QueryState& state = states[query];
  const std::int64_t rank = rank_of_guess();
  if (rank >= state.pool.k || state.abandoned) return;
  const double bound = guess_at(query, rank);
  if (!(bound < state.bound)) return;
  tighten(query, bound);
  state.guessed = true;
}

/// A value that `rank` of the seen rows are within, or infinity where nothing is known of as many.
double FilterTask::guess_at(int query, std::int64_t rank) {
  QueryState& state = states[query];
  if (whole) {
    if (state.count < rank) return infinite;
    std::nth_element(state.slots, state.slots + (rank - 1), state.slots + state.count, nearer);
    return key_of(query, state.slots[rank - 1]);
  }
  if (state.pool.count >= rank) {
    Entry* entries = state.pool.entries;
    std::nth_element(entries, entries + (rank - 1), entries + state.pool.count,
                     [](const Entry& a, const Entry& b) { return before(a, b); });
    return entries[rank - 1].key;
  }
  if (state.pool.count > 0) return infinite;
  if (tight(query))
    return state.count < rank ? infinite : upper_of_nearest(query, rank, state.count, &FilterTask::upper_of_slot);
  return state.looked < rank ? infinite : upper_of_nearest(query, rank, state.looked, &FilterTask::upper_of_look);
}

/// At least k rows are within the bound of the query, all of whose rows have been met.
bool FilterTask::held(int query) {
  QueryState& state = states[query];
  if (!state.guessed) return true;
  settle(query);
  return state.pool.full() && !(state.pool.worst.key > state.bound);
}

int FilterTask::restart_missed() {
  int missed = 0;
  for (int q = 0; q < queries; ++q) {
    QueryState& state = states[q];
    if (state.abandoned) continue;
    state.idle = held(q);
    if (state.idle || state.abandoned) continue;
    ++missed;
    state.count = state.looked = state.looks = state.settled = 0;
    state.pool.count = 0;
    state.pool.worst = Pool{}.worst;
    state.bound = state.theta = infinite;
    state.guessed = false;
    set_threshold(q);
  }
  if (missed == 0) end_restart();
  return missed;
}

void FilterTask::end_restart() {
  for (int q = 0; q < queries; ++q) states[q].idle = false;
}

}  // namespace vicinal::cpu
