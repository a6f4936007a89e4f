// How a range search keeps and hands over what it found. Filter and rerank are those of every search; here the threshold
// never moves and nothing is dropped for being too far down a list.
#include <algorithm>
#include <atomic>

#include "cpu/session.hpp"
#include "prepare/check.hpp"
#include "prepare/matches.hpp"

namespace vicinal::cpu {

void CpuSession::start_matches() {
  const bool descends = descending(spec_.metric);
  const double radius = radius_key(*spec_.radius, spec_.type, descends);
  room_.reset(plan_.match_bytes);
  places_.clear();
  if (matches_.size() < states_.size()) matches_.resize(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    QueryState& state = states_[i];
    const auto& facts = queries_.facts[i % static_cast<std::size_t>(queries_.count)];
    matches_[i].start(radius, room_, nullptr);
    state.matches = &matches_[i];
    if (grouped()) state.bound = radius;
    if (!model_ || !facts.filterable) continue;  // with an infinite bound every row is ranked
    state.bound = radius;
    state.theta = theta_of_key(*model_, radius, facts.scale);
  }
}

void CpuSession::counts(std::span<std::int64_t> counts, std::vector<bool>& lost) {
  for (std::int64_t query = 0; query < queries_.count; ++query) {
    std::int64_t count = 0;
    bool kept = true;
    for (std::int64_t split = 0; split < plan_.row_splits; ++split) {
      const Matches& part = *state(split, query).matches;
      count += part.count();
      kept = kept && !part.lost();
    }
    counts[given(query)] = count;
    lost[given(query)] = !kept;
  }
}

void CpuSession::place(const RangeView& out) {
  const double radius = radius_key(*spec_.radius, spec_.type, descending(spec_.metric));
  places_ = std::vector<Place>(static_cast<std::size_t>(queries_.count));
  for (std::int64_t query = 0; query < queries_.count; ++query) {
    Place& place = places_[static_cast<std::size_t>(query)];
    place.out = &out;
    place.descends = descending(spec_.metric);
    place.next = out.begin[given(query)];
    place.end = out.begin[given(query)] + out.count[given(query)];
    for (std::int64_t split = 0; split < plan_.row_splits; ++split)
      state(split, query).matches->start(radius, room_, &place);
  }
}

void CpuSession::finish_range(const RangeView& out, const BoundsView& bounds) {
  const bool descends = descending(spec_.metric);
  std::atomic<std::int64_t> gone{0}, passed{0}, ranked{0};
  thread_pool_.for_each(queries_.count, [&](std::int64_t query, int number) {
    const Totals all = totals(query, bounds);
    passed += all.passed;
    ranked += all.ranked;
    const std::int64_t first = out.begin[given(query)], count = out.count[given(query)];
    if (!places_.empty() && places_[static_cast<std::size_t>(query)].next != first + count)
      report_changed_matches(count, places_[static_cast<std::size_t>(query)].next - first);
    if (count == 0) return;
    if (places_.empty()) {
      std::int64_t at = first;
      for (std::int64_t split = 0; split < plan_.row_splits; ++split) {
        const Matches& part = *state(split, query).matches;
        part.copy_to(out, descends, at);
        at += part.count();
      }
    }
    thread_pool_.poll(0);
    sort_matches(out, descends, first, count);
    Ranker ranker(kernels_, spec_, query_points_, worker(number).rank);
    bool started = false;
    for (std::int64_t at = first; at < first + count; ++at) {
      const Entry entry{load_key(out.distances, out.type, descends, at), out.ids[at]};
      gone += static_cast<std::int64_t>(underflowed(entry, query, ranker, started));
      if (at % 4096 == 0) thread_pool_.poll(0);
    }
  });
  stats_.underflowed += gone;
  stats_.candidates += passed;
  stats_.reranked += ranked;
}

}  // namespace vicinal::cpu
