// See f32.hpp; the inequalities are in core/bound.hpp.
#include "cpu/filter/f32.hpp"

namespace vicinal::cpu {

float F32Filter::threshold_for(int query, const FilterNorms& maxima) const {
  if (result(query).given_up) return -std::numeric_limits<float>::infinity();
  const QueryFacts& q = facts(query);
  return threshold(block().model, candidates(query).threshold_distance, q.square, q.norms, maxima);
}

void F32Filter::bind(const FilterNorms& maxima, int padded) {
  maxima_ = maxima;
  for (int q = 0; q < padded; ++q)
    threshold_filter_[q] = q < block().queries ? threshold_for(q, maxima) : -std::numeric_limits<float>::infinity();
}

TileArgs F32Filter::tile_args(const float* panels, int query_panels, std::int64_t tile) {
  tile_ = tile;
  const BoundModel& model = block().model;
  const PackedRows& chunk = block().chunk;
  const std::int64_t begin = tile * tile_rows;
  return {.queries = panels,
          .rows = chunk.panels.data() + begin * model.dims,
          .row_term = chunk.terms.data() + begin,
          .thresholds = threshold_filter_,
          .dims = model.dims,
          .query_panels = query_panels,
          .row_panels = block().row_panels(tile),
          .multiplier = multiplier(model.sum),
          .partial = partial_,
          .on_hit = &F32Filter::on_hit,
          .context = this,
          .last_queries = block().queries - (query_panels - 1) * block().kernels.query_lanes,
          .rows_far = chunk.count * model.dims * static_cast<std::int64_t>(sizeof(float)) > cached_bytes};
}

void F32Filter::bound_tile(const float* panels, int query_panels, std::int64_t tile) {
  block().kernels.tile_of(block().model.sum)(tile_args(panels, query_panels, tile));
}

void F32Filter::measure_tile(const float* panels, int query_panels, std::int64_t tile) {
  TileArgs args = tile_args(panels, query_panels, tile);
  args.distances = next_distances();
  block().kernels.tile_of(block().model.sum)(args);
  note_measured(tile);
}

void F32Filter::filter_symmetric_tile(const float* panels, int query_panels, std::int64_t tile, const float* row_terms,
                                      F32Filter& columns) {
  SymmetricTile both{*this, columns};
  TileArgs args = tile_args(panels, query_panels, tile);
  args.query_term = row_terms;
  args.column_thresholds = columns.threshold_filter_ + (tile * tile_rows - columns.block().first);
  args.on_hit = &F32Filter::on_symmetric_hit;
  args.on_column_hit = &F32Filter::on_column_hit;
  args.context = &both;
  block().kernels.tile_of(block().model.sum)(args);
}

void F32Filter::on_hit(void* context, int query, int panel, std::uint32_t hits, const float* values) {
  auto& filter = *static_cast<F32Filter*>(context);
  filter.append_rows(filter.tile_, query, panel, hits, [&](int lane) { return values[lane]; });
}

void F32Filter::on_symmetric_hit(void* context, int query, int panel, std::uint32_t hits, const float* values) {
  on_hit(&static_cast<SymmetricTile*>(context)->rows, query, panel, hits, values);
}

void F32Filter::on_column_hit(void* context, int query, int panel, std::uint32_t hits, const float* values) {
  const auto& [rows, columns] = *static_cast<SymmetricTile*>(context);
  if (query >= rows.block().queries) return;
  columns.append_as_columns(rows.tile_, rows.block().first + query, panel, hits,
                            [&](int lane) { return values[lane]; });
}

void F32Filter::compact(int query) {
  const BoundModel& model = block().model;
  const QueryFacts& q = facts(query);
  const std::vector<FilterNorms>& tiles = block().chunk.tiles;
  tighten_by_uppers(query, candidates(query).count, [&](const Slot& slot) {
    return upper_of(model, slot.t, q.square, q.norms, tiles[static_cast<std::size_t>(slot.tile())]);
  });
  const auto threshold = [&](std::size_t tile) { return threshold_for(query, tiles[tile]); };
  if (!result(query).given_up) result(query).passed += candidates(query).compact(threshold, threshold);
}

}  // namespace vicinal::cpu
