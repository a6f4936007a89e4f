// FILTER, speculative thresholds. After a share f of the rows the k nearest seen bound the answer by what is the (k /
// f)-th of all, far too high for long. Tiles are visited evenly, so of the k nearest rows some f k have been seen, and
// seldom many more: the threshold becomes what a few more than f k of the seen rows are within. It excludes like any
// other, and is verified in the end: by k rows within it, which the certificate asks for anyway. A query that finds
// fewer is rolled back and visits all rows once more, without speculation. How likely that is matters to time alone,
// and where it happened once nothing speculates any more.
#pragma once
#include "cpu/filter/block_filter.hpp"

namespace vicinal::cpu {

class Speculation {
 public:
  explicit Speculation(std::int64_t k) : k_(k) {}
  /// share: of all rows that the block has met after the tile it is at; 0: nothing speculates.
  void set_seen(double share) noexcept { seen_ = share; }
  bool active() const noexcept { return seen_ > 0; }
  /// How many of the seen rows the threshold is to cover; k where nothing speculates.
  std::int64_t rank() const noexcept;

 private:
  std::int64_t k_;
  double seen_ = 0;
};

// Filter below has besides what BlockFilter has:
//   Speculation& speculation()
//   double speculative_key(int query, std::int64_t rank)   a key that `rank` of the seen rows are within, or infinity
//                                                          where nothing is known of as many

/// Lowers the query's threshold to a speculative one.
template <class Filter>
void speculate(Filter& filter, int query) {
  const std::int64_t rank = filter.speculation().rank();
  const QueryResult& result = filter.result(query);
  if (rank >= result.pool.k || result.given_up) return;
  const double key = filter.speculative_key(query, rank);
  if (!(key < result.threshold_key)) return;
  filter.tighten(query, key);
  filter.candidates(query).speculative = true;
}

/// A key that `rank` entries of the pool are within; infinity where it has fewer.
double speculative_key_of_pool(Pool& pool, std::int64_t rank) noexcept;

/// At least k rows are within the threshold of the query, which has met all rows.
template <class Filter>
bool verify(Filter& filter, int query) {
  if (!filter.candidates(query).speculative) return true;
  filter.rerank(query);
  const QueryResult& result = filter.result(query);
  return result.pool.full() && !(result.pool.worst.key > result.threshold_key);
}

/// Forgets what a query without candidates has found.
inline void roll_back(QueryResult& result, Candidates& candidates) noexcept {
  candidates.clear();
  candidates.refinements = result.ranked = 0;
  result.pool.count = 0;
  result.pool.worst = Pool{}.worst;
  result.threshold_key = candidates.threshold_distance = infinite;
  candidates.speculative = false;
}

template <class Filter>
void resume_suspended(Filter& filter) {
  for (int q = 0; q < filter.block().queries; ++q) filter.candidates(q).suspended = false;
}

/// After all rows: rolls back the queries whose speculation failed and suspends the others, which resume_suspended
/// ends. Returns how many it rolled back.
template <class Filter>
int roll_back_failed(Filter& filter) {
  int rolled_back = 0;
  for (int q = 0; q < filter.block().queries; ++q) {
    if (filter.result(q).given_up) continue;
    filter.candidates(q).suspended = verify(filter, q);
    if (filter.candidates(q).suspended || filter.result(q).given_up) continue;
    ++rolled_back;
    roll_back(filter.result(q), filter.candidates(q));
    filter.set_threshold(q);
  }
  if (rolled_back == 0) resume_suspended(filter);
  return rolled_back;
}

}  // namespace vicinal::cpu
