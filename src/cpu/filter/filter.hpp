// FILTER and SELECT: tile distances in floats or bytes against running thresholds; what survives waits in a fixed number of
// slots a query until canonical distances settle it. Slots never overflow: when they fill, the threshold tightens and what
// cannot win is dropped; if too many remain they are settled on the spot. Floats tighten by the k smallest proved upper
// bounds; bytes, whose bounds are wide unless they hold whole numbers, by the canonical distances of the k that look nearest.
// A query that keeps settling more than its share is abandoned to the next precision (docs/design/0005).
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/rerank/matches.hpp"
#include "cpu/rerank/rerank.hpp"

namespace vicinal::cpu {

struct Slot {
  float t;
  std::uint32_t row;  // its place in the chunk
};

/// An order, since no slot holds a NaN, which proves nothing and so counts as the best possible.
inline constexpr auto nearer = [](const Slot& a, const Slot& b) { return a.t < b.t; };
inline float never_nan(float t) noexcept { return std::isnan(t) ? -std::numeric_limits<float>::infinity() : t; }
inline constexpr std::int64_t looks_a_rank = 4;  // as many take about the time of one canonical distance
inline constexpr std::int32_t every_sum = std::numeric_limits<std::int32_t>::max();  // is below this

/// One query in one split of the chunk.
struct QueryState {
  Slot* slots = nullptr;
  std::int64_t count = 0;
  std::int64_t looked = 0;  // of count, those that were looked at twice
  std::int64_t looks = 0;   // how many ever were
  std::int64_t due = 0;     // count at which the threshold tightens next
  Pool pool;
  Matches* matches = nullptr;  // a range search keeps these, not a pool, and its bound never moves
  double bound = infinite;     // every excluded row has a canonical folded value above this
  double theta = infinite;     // the same as a true distance, inflated for key rounding
  std::int64_t settled = 0;    // rows ranked, for the share
  std::int64_t passed = 0;     // rows that passed the filter
  bool abandoned = false;
  bool guessed = false;  // no k rows are known to be within bound; speculate.cpp
  bool idle = false;     // has seen all rows, while others see them once more

  void take(std::span<const Entry> entries) {
    if (matches != nullptr) return matches->take(entries);
    for (const Entry& entry : entries) pool.offer(entry);
  }
};

/// What a task carries through its tiles: one block of queries, its slots and thresholds.
struct FilterTask {
  const Kernels& kernels;
  const BoundModel& model;
  const PackedRows& chunk;
  const RowFilter& filter;
  const QueryFacts* facts;             // of the block
  QueryState* states;                  // of the block in this split
  const std::int64_t* rows;            // query rows of the block
  std::int64_t first;                  // position of the block's first query in the batch
  int queries;                         // used queries of the block
  std::int64_t capacity;               // slots a query
  std::int64_t share;                  // rows that a query may settle before it is abandoned
  float* thr;                          // thresholds of the block for the rows that it meets now
  const Int8Kernels* bytes = nullptr;  // on the int8 precision, and then besides:
  bool whole = false;  // queries and rows are whole numbers: t + |q|^2 is the squared distance, and its key the key
  const SearchSpec* spec = nullptr;
  float step = 0;                        // of the block's queries
  FilterNorms largest = {};              // maxima over all rows
  bool as_rows = false;                  // its queries are the tile's rows, as in meet_bytes, and sums have no shift
  const std::int8_t* seconds = nullptr;  // PackedQueries::second of the block; null: rows are not looked at twice
  ThresholdCoeffs* lines = nullptr;      // of each query
  std::int32_t* limits = nullptr;        // what thr is, in units of the sums
  std::int32_t* seeds = nullptr;         // of the tile's rows
  Ranker& ranker;
  ThreadPool& thread_pool;
  double seen = 0;          // the share of all rows that the block has met, or 0 where bounds are not guessed
  FilterNorms facing = {};  // maxima over those rows
  std::int64_t tile = 0;
  double unit = 1, inverse = 1;  // of the sums of bytes in the tile
  FilterTask* other = nullptr;   // whose queries are the tile's rows, in run_both

  /// One tile against the block. `panels`: the block's packed queries.
  void run(const float* panels, int query_panels, float* partial, std::int64_t which_tile);
  /// The same tile against the block, and another block, whose queries are the tile's rows, against this block's queries
  /// as rows (docs/design/0008). query_terms: row terms of this block. Both face each other already.
  void run_both(const float* panels, int query_panels, float* partial, std::int64_t which_tile,
                const float* query_terms, FilterTask& facing_block);
  /// The same in bytes.
  void run_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial, std::int64_t which_tile);
  /// The same on both sides, as run_both. query_terms: memory for those of this block.
  void meet_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial, std::int64_t which_tile,
                  std::int32_t* query_terms, FilterTask& facing_block);
  /// Fills in the lines, before the first tile of bytes.
  void start_bytes();
  /// Meets rows with these maxima from now on: sets thresholds of the block, and of `padded` - queries absent ones.
  void face(const FilterNorms& maxima, int padded);
  /// The slots have space for a panel; false when the query was abandoned for it.
  bool make_room(int query);
  /// Keeps a row of the chunk that was not excluded. The filter allows it.
  void keep(int query, float t, std::uint32_t row) {
    QueryState& state = states[query];
    state.slots[state.count++] = {never_nan(t), row};
  }
  /// Tightens the query's threshold by its own candidates, then drops what it excludes.
  void drop(int query);
  /// Ranks all candidates of the query canonically; its slots are empty afterwards.
  void settle(int query);
  /// After all rows: queries whose guess was too low start afresh and the others are idle. Returns how many those are.
  int restart_missed();
  /// After all rows once more.
  void end_restart();

 private:
  /// Rows of a panel that were not excluded for a query. t_of(lane): the filter's t for the row in that lane.
  template <class TOf>
  void take(int query, int panel, std::uint32_t hits, const TOf& t_of);
  /// Queries of `other`, as rows of a panel, for which one of this block's queries was not excluded as a row.
  template <class TOf>
  void take_columns(int query, int panel, std::uint32_t hits, const TOf& t_of);
  static void on_hit(void* context, int query, int panel, std::uint32_t hits, const float* values);
  static void on_int8_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);
  static void on_column_hit(void* context, int query, int panel, std::uint32_t hits, const float* values);
  static void on_int8_column_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values);
  Int8TileArgs face_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial, std::int64_t which_tile);
  double shift_of(int query) const noexcept { return as_rows ? 0 : facts[query].shift; }
  TileArgs tile_args(const float* panels, int query_panels, float* partial);
  float threshold_at(int query, const FilterNorms& maxima) const;
  bool tight(int query) const noexcept;
  double upper_of_slot(int query, const Slot& slot) const;
  void drop_farther(int query);
  void plan_next(int query) const;
  void set_threshold(int query);
  void tighten(int query, double bound);
  /// By the first `count` slots, whose rows have upper bounds.
  using UpperOf = double (FilterTask::*)(int query, const Slot& slot) const;
  void tighten_by_uppers(int query, std::int64_t count, UpperOf upper_of);
  double upper_of_nearest(int query, std::int64_t nearest, std::int64_t count, UpperOf upper_of);
  std::int64_t rank_of_guess() const noexcept;
  void guess(int query);
  double guess_at(int query, std::int64_t rank);
  bool held(int query);
  void tighten_by_nearest(int query);
  void rank(int query, std::int64_t begin, std::int64_t end);
  std::int64_t bring_nearest(int query, std::int64_t from);
  // By second bytes; filter_second.cpp.
  bool looks_twice(int query) const noexcept;
  bool crowded(int query) const noexcept;
  void look_again(int query, std::int64_t end);
  double upper_of_look(int query, const Slot& slot) const;
  void tighten_by_looks(int query) { tighten_by_uppers(query, states[query].looked, &FilterTask::upper_of_look); }
  void drop_twice(int query);
  void rank_twice(int query);
  // Of whole numbers, in units of the data; filter_whole.cpp.
  double square_of(int query) const noexcept;
  double reach(int query) const noexcept;
  double key_of(int query, const Slot& slot) const noexcept;
  std::int32_t whole_limit(int query) const noexcept;
  void drop_whole(int query);
  void rank_whole(int query);
};

}  // namespace vicinal::cpu
