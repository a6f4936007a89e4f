// FILTER and SELECT: tile distances in float against running thresholds; what survives waits in a fixed number of slots
// a query until canonical distances settle it. Slots never overflow: when they fill, the k smallest proved upper bounds
// tighten the threshold and what cannot win is dropped; if too many remain they are settled on the spot.
// A query that keeps settling more than its share is abandoned to the next rung (docs/design/0005).
#pragma once
#include <cstdint>

#include "cpu/rerank.hpp"

namespace vicinal::cpu {

struct Slot {
  float t;
  std::uint32_t row;  // within the chunk
};

/// One query in one split of the chunk.
struct QueryState {
  Slot* slots = nullptr;
  std::int64_t count = 0;
  Pool pool;
  double bound = infinite;  // every excluded row has a canonical folded value above this
  double theta = infinite;  // the same as a true distance, inflated for key rounding
  std::int64_t settled = 0; // rows ranked, for the share
  std::int64_t passed = 0;  // rows that passed the filter
  bool abandoned = false;
};

/// What a task carries through its tiles.
struct FilterTask {
  const Kernels& kernels;
  const BoundModel& model;
  const PackedRows& chunk;
  const QueryFacts* facts;     // of the block
  QueryState* states;          // of the block in this split
  const std::int64_t* rows;    // query rows of the block
  int queries;                 // used queries of the block
  std::int64_t capacity;       // slots a query
  std::int64_t share;          // rows that a query may settle before it is abandoned
  float* thr;                  // thresholds of the block for the current tile
  Ranker& ranker;
  Team& team;
  std::int64_t tile = 0;

  /// One tile against the block. `panels`: the block's packed queries.
  void run(const float* panels, int query_panels, float* partial, std::int64_t which_tile);
  /// Tightens the query's threshold by its own candidates, then drops what it excludes.
  void drop(int query);
  /// Ranks all candidates of the query canonically; its slots are empty afterwards.
  void settle(int query);

 private:
  static void on_hit(void* context, int query, int panel, std::uint32_t rows, const float* values);
  float threshold_at(int query, std::int64_t which_tile) const;
  void tighten(int query, double bound);
};

}  // namespace vicinal::cpu
