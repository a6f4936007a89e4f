// FILTER and SELECT of one block of queries: hits of the tile kernels become candidates, and
// thresholds tighten by them. What depends on the precision is in f32.hpp, int8.hpp and
// int8_exact.hpp: floats tighten by the k smallest proved upper bounds; int8, whose bounds are wide,
// by estimates or by what it reads of the k that look nearest; integral data has exact distances. A query
// that keeps ranking more than its budget is given up to the next precision (docs/design/0005).
#pragma once
#include <bit>

#include "core/divide.hpp"
#include "cpu/filter/candidates.hpp"
#include "cpu/filter/first_rows.hpp"
#include "cpu/rerank/batch.hpp"

namespace vicinal::cpu {

/// So many bytes of packed rows stay in a core's second-level cache for the next search.
inline constexpr std::int64_t cached_bytes = std::int64_t{1} << 20;

/// A QueryBlock is one block of queries in one split of the
/// chunk. Its arrays have one entry for each query of the block.
struct QueryBlock {
  const Kernels& kernels;
  const SearchSpec& spec;
  const BoundModel& model;
  const PackedRows& chunk;
  const QueryFacts* facts;
  const std::int64_t* rows;  // row of each query in the caller's matrix
  QueryResult* results;
  Candidates* candidates;
  std::int64_t first;          // position of the block's first query in the batch
  int queries;                 // queries of the block
  std::int64_t capacity;       // slots a query
  std::int64_t rerank_budget;  // rows that a query may rank before it is given up
  Ranker& ranker;
  ThreadPool& thread_pool;

  /// Returns how many panels of the tile have rows of the chunk.
  int row_panels(std::int64_t tile) const noexcept {
    const std::int64_t used = std::min<std::int64_t>(tile_rows, chunk.count - tile * tile_rows);
    return static_cast<int>(divide_up(used, panel_rows));
  }
};

/// What every precision does. Self is the filter of a precision and derives from this; it has
///   void set_threshold(int query)      gives the tile kernel the query's threshold in its own unit
///   void compact(int query)            tightens the threshold by the query's candidates and drops what it excludes
///   void rank_candidates(int query)    ranks all of them canonically; the slots are cleared afterwards
///   std::int64_t next_compaction(int query)   candidates at which compact is called next
/// and where it measures the first rows of a query alone (first_rows.hpp):
///   double key_of_first(float t, const FirstRows& first)   a key that a row of them with this t is within
///   float farthest_in(std::int64_t tile)   rows of the tile with a larger t are excluded
/// Self is a template parameter, so that no call for a hit or a slot is virtual.
template <class Self>
class BlockFilter {
 public:
  explicit BlockFilter(const QueryBlock& block) : block_(block) {}
  BlockFilter(const BlockFilter&) = delete;
  BlockFilter& operator=(const BlockFilter&) = delete;
  const QueryBlock& block() const noexcept { return block_; }
  Candidates& candidates(int query) const noexcept { return block_.candidates[query]; }
  QueryResult& result(int query) const noexcept { return block_.results[query]; }
  const QueryFacts& facts(int query) const noexcept { return block_.facts[query]; }

  /// Ranks what is left of the query's candidates.
  void rerank(int query) {
    if (candidates(query).count == 0) return;
    self().rank_candidates(query);
    candidates(query).clear();
  }
  /// Lowers the query's threshold to this key, which is at least its k-th; or is speculative.
  void tighten(int query, double key) {
    QueryResult& result = this->result(query);
    if (!(key < result.threshold_key)) return;
    result.threshold_key = key;
    candidates(query).speculative = false;
    candidates(query).threshold_distance = theta_of_key(block_.model, key, facts(query).scale);
    self().set_threshold(query);
  }
  /// A key that the `nearest` nearest of the first `among` slots are within, as far as upper_of(slot) is: an upper bound
  /// of its distance or an estimate of one, neither of which projected rows have.
  template <class UpperOf>
  double key_of_nearest(int query, std::int64_t nearest, std::int64_t among, const UpperOf& upper_of) {
    if (block_.model.projected) return infinite;
    Candidates& candidates = this->candidates(query);
    candidates.bring_nearest(nearest, among);
    double upper = -infinite;
    for (std::int64_t i = 0; i < nearest; ++i) upper = std::max(upper, upper_of(candidates.slots[i]));
    return value_of_upper(block_.model, upper, facts(query).scale);
  }

  /// The block is one query that looks for few neighbours among all rows and has no threshold yet.
  bool may_measure_first() const noexcept {
    const std::int64_t k = result(0).pool.k;
    return block_.queries == 1 && block_.chunk.count >= FirstRows::least_rows && k > 0 &&
           k <= FirstRows::most_neighbors && !block_.spec.radius && block_.spec.filter.all() &&
           !block_.model.projected && !result(0).given_up && !(candidates(0).threshold_distance < infinite);
  }
  /// The distances of the next tiles go into `first`, of FirstRows::most_tiles at most, until take_first.
  void measure_into(FirstRows& first) noexcept { first_ = &first; }
  /// Gives the query the threshold that the first rows prove, and takes those of them that it does not exclude.
  void take_first() {
    FirstRows& first = *first_;
    first_ = nullptr;
    tighten_by_first(first);
    for (std::int64_t i = 0; i < first.count; ++i) {
      const std::int64_t tile = first.tiles[i];
      const float farthest = self().farthest_in(tile);
      for (int panel = 0; panel < block_.row_panels(tile); ++panel) {
        const float* const t = first.t + i * tile_rows + std::int64_t{panel} * panel_rows;
        const std::uint32_t rows = block_.kernels.rows_within(t, farthest);
        if (rows != 0) append_rows(tile, 0, panel, rows, [&](int lane) { return t[lane]; });
      }
    }
  }

 protected:
  bool measures() const noexcept { return first_ != nullptr; }
  float* next_distances() noexcept { return first_->next(); }
  /// Takes the tile whose distances have come to next_distances. unit: of its sums, of bytes.
  void note_measured(std::int64_t tile, double unit = 0) {
    float* const t = next_distances();
    const int panels = block_.row_panels(tile);
    const std::int64_t rows = std::min<std::int64_t>(tile_rows, block_.chunk.count - tile * tile_rows);
    std::fill(t + rows, t + std::int64_t{panels} * panel_rows, std::numeric_limits<float>::infinity());  // absent ones
    block_.kernels.lower_groups(t, panels, first_->least);
    take_maxima(first_->maxima, block_.chunk.tiles[static_cast<std::size_t>(tile)]);
    first_->unit = std::max(first_->unit, unit);
    first_->tiles[first_->count++] = tile;
  }
  /// k distinct rows with proved upper bounds: the largest of them bounds the k-th distance from above.
  template <class UpperOf>
  void tighten_by_uppers(int query, std::int64_t among, const UpperOf& upper_of) {
    const std::int64_t k = result(query).pool.k;
    if (among >= k && k > 0) tighten(query, key_of_nearest(query, k, among, upper_of));
  }
  /// Ranks the slots [begin, end) canonically, which tightens the threshold, and gives the query up beyond its budget.
  void rank(int query, std::int64_t begin, std::int64_t end) {
    QueryResult& result = this->result(query);
    const Slot* slots = candidates(query).slots;
    block_.ranker.start(block_.rows[query], facts(query));
    std::uint32_t index[rank_block];
    for (std::int64_t at = begin; at < end; at += rank_block) {
      const std::int64_t used = std::min(rank_block, end - at);
      for (std::int64_t i = 0; i < used; ++i) index[i] = block_.chunk.row_at(slots[at + i].position);
      result.take(block_.ranker.rank(block_.chunk, index, 0, used));
      block_.thread_pool.poll(0);
    }
    result.passed += end - begin;
    result.ranked += end - begin;
    if (result.matches != nullptr) return;
    result.pool.trim();
    if (result.pool.full()) tighten(query, result.pool.worst.key);
    if (result.ranked > block_.rerank_budget) give_up(query);
  }
  void give_up(int query) {
    result(query).given_up = true;
    self().set_threshold(query);
  }
  /// True where so many candidates are left that they must be ranked.
  bool crowded(int query) const noexcept {
    const std::int64_t k = result(query).pool.k;
    return candidates(query).count > k + (block_.capacity - panel_rows - k) / 2;
  }
  /// Makes space for a panel of rows in the slots. Returns false when the query was given up for it.
  bool make_room(int query) {
    if (candidates(query).has_room()) return true;
    const bool range = result(query).matches != nullptr;
    if (!range) self().compact(query);
    if (range || crowded(query)) rerank(query);
    candidates(query).compaction_point = self().next_compaction(query);
    return !result(query).given_up;
  }
  /// Takes the rows of a panel of the tile that were not excluded for
  /// a query. t_of(lane): the filter's t of the row in that lane.
  template <class TOf>
  void append_rows(std::int64_t tile, int query, int panel, std::uint32_t hits, const TOf& t_of) {
    if (query >= block_.queries || result(query).given_up) return;
    const std::int64_t begin = tile * tile_rows + std::int64_t{panel} * panel_rows;
    const std::int64_t absent = begin + panel_rows - block_.chunk.count;
    if (absent > 0) hits &= 0xFFFFFFFFu >> absent;
    if (!make_room(query)) return;
    for (; hits != 0; hits &= hits - 1) {
      const int lane = std::countr_zero(hits);
      const auto position = static_cast<std::uint32_t>(begin + lane);
      if (block_.spec.filter.allows(block_.rows[query], block_.chunk.first + block_.chunk.row_at(position)))
        candidates(query).append(t_of(lane), position);
    }
  }
  /// The same from the other side of a symmetric tile: `row` is a query of another block, at that position as a row,
  /// and those of this block's queries that are the rows of the panel take it.
  template <class TOf>
  void append_as_columns(std::int64_t tile, std::int64_t row, int panel, std::uint32_t hits, const TOf& t_of) {
    const auto position = static_cast<std::uint32_t>(row);
    const std::int64_t begin = tile * tile_rows + std::int64_t{panel} * panel_rows - block_.first;
    for (; hits != 0; hits &= hits - 1) {
      const int lane = std::countr_zero(hits);
      const auto query = static_cast<int>(begin + lane);
      if (query >= block_.queries || result(query).given_up) continue;
      if (!block_.spec.filter.allows(block_.rows[query], block_.chunk.row_at(position)) || !make_room(query)) continue;
      candidates(query).append(t_of(lane), position);
    }
  }

 private:
  /// The least of k groups are k rows, and the key of the farthest of them, by the norms of all tiles, bounds all.
  void tighten_by_first(FirstRows& first) {
    const std::int64_t k = result(0).pool.k;
    // A row without a bound, or none at all, says nothing for its group.
    float* const end =
        std::partition(first.least, first.least + first.join_groups(k), [](float t) { return std::isfinite(t); });
    if (end - first.least < k) return;
    select_nth(first.least, first.least + (k - 1), end, std::less<float>());
    tighten(0, self().key_of_first(first.least[k - 1], first));
  }
  Self& self() noexcept { return static_cast<Self&>(*this); }
  const QueryBlock block_;
  FirstRows* first_ = nullptr;  // null: tiles are tested
};

}  // namespace vicinal::cpu
