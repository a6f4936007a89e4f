// The filter in floats: every tile distance has a proved error so small that upper bounds serve as thresholds.
#pragma once
#include "cpu/filter/block_filter.hpp"

namespace vicinal::cpu {

class F32Filter final : public BlockFilter<F32Filter> {
 public:
  /// threshold_filter: [padded queries], what the tile kernel compares with. partial: its scratch, see TileArgs.
  F32Filter(const QueryBlock& block, float* threshold_filter, float* partial)
      : BlockFilter(block), threshold_filter_(threshold_filter), partial_(partial) {}

  const float* panels(const PackedQueries& queries, std::int64_t block) const noexcept {
    return queries.panels.data() + block * queries.block_size(this->block().model.dims);
  }
  /// Sets the thresholds of the block for rows with these maxima; those of `padded` - queries absent ones exclude all.
  void bind(const FilterNorms& maxima, int padded);
  /// One tile against the block, whose packed queries are `panels`.
  void filter_tile(const float* panels, int query_panels, std::int64_t tile) {
    if (measures()) return measure_tile(panels, query_panels, tile);
    bind(block().chunk.tiles[static_cast<std::size_t>(tile)], query_panels * block().kernels.query_lanes);
    bound_tile(panels, query_panels, tile);
  }
  /// The same tile against the block and its columns' block, whose queries are the rows of the tile, against this
  /// block's queries as rows (docs/design/0008). row_terms: of this block's queries. Both are bound already.
  void filter_symmetric_tile(const float* panels, int query_panels, std::int64_t tile, const float* row_terms,
                             F32Filter& columns);

  void set_threshold(int query) { threshold_filter_[query] = threshold_for(query, maxima_); }
  void compact(int query);
  void rank_candidates(int query) { rank(query, 0, candidates(query).count); }
  std::int64_t next_compaction(int /*query*/) const noexcept { return block().capacity; }
  double key_of_first(float t, const FirstRows& first) const {
    const QueryFacts& q = facts(0);
    return value_of_upper(block().model, upper_of(block().model, t, q.square, q.norms, first.maxima), q.scale);
  }
  float farthest_in(std::int64_t tile) const {
    return threshold_for(0, block().chunk.tiles[static_cast<std::size_t>(tile)]);
  }

 private:
  struct SymmetricTile {
    F32Filter &rows, &columns;
  };
  void bound_tile(const float* panels, int query_panels, std::int64_t tile);
  void measure_tile(const float* panels, int query_panels, std::int64_t tile);
  TileArgs tile_args(const float* panels, int query_panels, std::int64_t tile);
  float threshold_for(int query, const FilterNorms& maxima) const;
  static void on_hit(void* context, int query, int panel, std::uint32_t hits, const float* values);
  static void on_symmetric_hit(void* context, int query, int panel, std::uint32_t hits, const float* values);
  static void on_column_hit(void* context, int query, int panel, std::uint32_t hits, const float* values);

  float* threshold_filter_;
  float* partial_;
  std::int64_t tile_ = 0;
  FilterNorms maxima_ = {};  // over the rows that thresholds are bound to
};

}  // namespace vicinal::cpu
