// See range.hpp.
#include "cpu/rerank/range.hpp"

#include <atomic>

#include "prepare/check.hpp"
#include "prepare/matches.hpp"

namespace vicinal::cpu {

void RangeMatches::start(const SearchBatch& batch, std::int64_t match_bytes) {
  const double radius = radius_key(*batch.spec.radius, batch.spec.type, descending(batch.spec.metric));
  const auto results = static_cast<std::size_t>(batch.splits * batch.queries.count);
  budget_.reset(match_bytes);
  cursors_.clear();
  if (matches_.size() < results) matches_.resize(results);
  for (std::size_t i = 0; i < results; ++i) {
    matches_[i].start(radius, budget_, nullptr);
    batch.results[i].matches = &matches_[i];
  }
}

void RangeMatches::counts(const SearchBatch& batch, std::span<std::int64_t> counts, std::vector<bool>& overflowed) {
  for (std::int64_t query = 0; query < batch.queries.count; ++query) {
    std::int64_t count = 0;
    bool kept = true;
    for (std::int64_t split = 0; split < batch.splits; ++split) {
      const Matches& part = *batch.result(split, query).matches;
      count += part.count();
      kept = kept && !part.overflowed();
    }
    counts[batch.given_position(query)] = count;
    overflowed[batch.given_position(query)] = !kept;
  }
}

void RangeMatches::write_to(const SearchBatch& batch, const RangeView& out) {
  const bool descends = descending(batch.spec.metric);
  const double radius = radius_key(*batch.spec.radius, batch.spec.type, descends);
  cursors_ = std::vector<OutputCursor>(static_cast<std::size_t>(batch.queries.count));
  for (std::int64_t query = 0; query < batch.queries.count; ++query) {
    OutputCursor& cursor = cursors_[static_cast<std::size_t>(query)];
    const std::size_t given = batch.given_position(query);
    cursor.out = &out;
    cursor.descends = descends;
    cursor.next = out.begin[given];
    cursor.end = out.begin[given] + out.count[given];
    for (std::int64_t split = 0; split < batch.splits; ++split)
      batch.result(split, query).matches->start(radius, budget_, &cursor);
  }
}

void RangeMatches::write(const Output& output, const RangeView& out, const BoundsView& bounds) const {
  const SearchBatch& batch = output.batch();
  const bool descends = descending(batch.spec.metric);
  std::atomic<std::int64_t> underflowed{0}, passed{0}, ranked{0};
  batch.thread_pool.for_each(batch.queries.count, [&](std::int64_t query, int thread) {
    const QueryTotals all = output.totals(query, bounds);
    passed += all.passed;
    ranked += all.ranked;
    const std::size_t given = batch.given_position(query);
    const std::int64_t first = out.begin[given], count = out.count[given];
    if (!cursors_.empty() && cursors_[static_cast<std::size_t>(query)].next != first + count)
      report_changed_matches(count, cursors_[static_cast<std::size_t>(query)].next - first);
    if (count == 0) return;
    if (cursors_.empty()) {
      std::int64_t at = first;
      for (std::int64_t split = 0; split < batch.splits; ++split) {
        const Matches& part = *batch.result(split, query).matches;
        part.copy_to(out, descends, at);
        at += part.count();
      }
    }
    batch.thread_pool.poll(0);
    sort_matches(out, descends, first, count);
    UnderflowCount underflow(batch, query, thread);
    for (std::int64_t at = first; at < first + count; ++at) {
      underflow.add({load_key(out.distances, out.type, descends, at), out.ids[at]});
      if (at % 4096 == 0) batch.thread_pool.poll(0);
    }
    underflowed += underflow.count();
  });
  output.stats().underflowed += underflowed;
  output.stats().candidates += passed;
  output.stats().reranked += ranked;
}

}  // namespace vicinal::cpu
