// One batch of queries against one chunk of rows: what every
// stage after PREPARE reads, and the results that it adds to.
#pragma once
#include <cstdint>
#include <span>

#include "cpu/prepare/per_thread.hpp"
#include "cpu/rerank/matches.hpp"
#include "cpu/rerank/rerank.hpp"

namespace vicinal::cpu {

/// What one query has found in one split of the corpus, over all chunks so far.
struct QueryResult {
  Pool pool;
  Matches* matches = nullptr;       // a range search collects these instead of a pool, and its threshold never moves
  double threshold_key = infinite;  // every excluded row has a canonical folded value above this
  std::int64_t ranked = 0;          // rows that were ranked canonically and count towards the rerank budget
  std::int64_t passed = 0;          // rows that passed the filter
  bool given_up = false;            // the next precision of the cascade takes this query

  void take(std::span<const Entry> entries) {
    if (matches != nullptr) return matches->take(entries);
    for (const Entry& entry : entries) pool.offer(entry);
  }
};

/// The part of [0, count) (tiles or rows) that belongs to one split.
struct Range {
  std::int64_t begin, end;
};
inline Range split_range(std::int64_t count, std::int64_t split, std::int64_t splits) noexcept {
  return {count * split / splits, count * (split + 1) / splits};
}

struct SearchBatch {
  const Kernels& kernels;
  const SearchSpec& spec;
  const PackedRows& chunk;
  const Points& query_points;
  std::span<const std::int64_t> rows;   // row of query_points that each query is
  std::span<const std::int64_t> given;  // position of each query in the caller's batch; empty: its own number
  const PackedQueries& queries;
  QueryResult* results;  // [splits][queries]
  std::int64_t splits;
  PerThread<RankScratch>& rank_scratch;
  ThreadPool& thread_pool;

  QueryResult& result(std::int64_t split, std::int64_t query) const noexcept {
    return results[split * queries.count + query];
  }
  std::int64_t row(std::int64_t query) const noexcept { return rows[static_cast<std::size_t>(query)]; }
  /// Queries of a tree have none.
  const QueryFacts& facts(std::int64_t query) const noexcept {
    static constexpr QueryFacts none;
    return queries.facts.empty() ? none : queries.facts[static_cast<std::size_t>(query)];
  }
  std::size_t given_position(std::int64_t query) const noexcept {
    return static_cast<std::size_t>(given.empty() ? query : given[static_cast<std::size_t>(query)]);
  }
  Ranker ranker(int thread) const { return {kernels, spec, query_points, rank_scratch.of(thread)}; }
};

}  // namespace vicinal::cpu
