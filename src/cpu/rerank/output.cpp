// See output.hpp.
#include "cpu/rerank/output.hpp"
#include "core/largest_error.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "prepare/check.hpp"

namespace vicinal::cpu {

bool UnderflowCount::underflowed(const Entry& entry) {
  const SearchSpec& spec = batch_.spec;
  if (std::isinf(entry.key)) report_infinite(spec, entry.key < 0 ? ListEnd::nearest : ListEnd::farthest);
  if (entry.key != 0) return true;
  if (needs_norms(spec.metric) || spec.type != DistanceType::f32) return false;
  if (!ranker_) ranker_.emplace(batch_.ranker(thread_)).start(batch_.row(query_), batch_.facts(query_));
  return ranker_->underflows(entry.id - spec.first_id);
}

std::int64_t Output::write_row(std::int64_t query, const NeighborsView& out, int thread) const {
  Pool& pool = batch_.result(0, query).pool;
  for (std::int64_t split = 1; split < batch_.splits; ++split) {
    const Pool& other = batch_.result(split, query).pool;
    for (std::int64_t i = 0; i < other.count; ++i) pool.offer(other.entries[i]);
  }
  pool.trim();
  pool.sort();
  return write_sorted(query, pool, out, thread);
}

std::int64_t Output::write_sorted(std::int64_t query, const Pool& pool, const NeighborsView& out, int thread) const {
  const SearchSpec& spec = batch_.spec;
  const bool descends = descending(spec.metric);
  const std::int64_t row = batch_.row(query), base = row * out.k;
  UnderflowCount underflow(batch_, query, thread);
  for (std::int64_t i = 0; i < pool.count; ++i) {
    const Entry& entry = pool.entries[i];
    underflow.add(entry);
    out.ids[base + i] = entry.id;
    store_key(entry.key, spec.type, descends, out.distances, base + i);
  }
  for (std::int64_t i = pool.count; i < out.k; ++i)
    store_missing(spec.type, descends, out.ids, out.distances, base + i);
  if (out.counts != nullptr) out.counts[row] = pool.count;
  return underflow.count();
}

QueryTotals Output::totals(std::int64_t query, const BoundsView& bounds) const {
  QueryTotals all;
  for (std::int64_t split = 0; split < batch_.splits; ++split) {
    const QueryResult& part = batch_.result(split, query);
    all.threshold_key = std::min(all.threshold_key, part.threshold_key);
    all.given_up = all.given_up || part.given_up;
    all.passed += part.passed;
    all.ranked += part.ranked;
  }
  const QueryFacts& facts = batch_.facts(query);
  const std::size_t given = batch_.given_position(query);
  bounds.verified_radius[given] = all.given_up ? -infinite : fold_key(all.threshold_key, batch_.spec.type, false);
  const bool known = model_ != nullptr && facts.filterable && !all.given_up;
  const auto error_of = known && model_->projected ? largest_projected_error : largest_error;
  bounds.largest[given] = known ? error_of(*model_, facts.norms, largest_rows_, facts.scale) : 0;
  return all;
}

void Output::write(const NeighborsView& out, const BoundsView& bounds) const {
  std::atomic<std::int64_t> underflowed{0}, passed{0}, ranked{0};
  batch_.thread_pool.for_each(batch_.queries.count, [&](std::int64_t query, int thread) {
    const QueryTotals all = totals(query, bounds);
    passed += all.passed;
    ranked += all.ranked;
    if (!all.given_up) underflowed += write_row(query, out, thread);
    if (bounds.found != nullptr) bounds.found[batch_.given_position(query)] = batch_.result(0, query).pool.count;
    batch_.thread_pool.poll(0);
  });
  stats_.underflowed += underflowed;
  stats_.candidates += passed;
  stats_.reranked += ranked;
}

}  // namespace vicinal::cpu
