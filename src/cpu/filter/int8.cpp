// See int8.hpp; the inequalities are in core/bound.hpp.
#include "cpu/filter/int8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vicinal::cpu {
namespace {

constexpr std::int64_t speculation_reserve = 2;  // rows ranked for each that a speculative threshold covers
/// An estimate takes quantization errors to move a distance so many times as far as they do where they point anywhere,
/// which is their length over the root of the columns. Distances of less than so many errors' length count as that long.
constexpr double estimate_deviations = 4, least_estimated_errors = 4;
constexpr double largest_negligible_error = 0x1p-12;  // of the norms; integral data has next to none

/// Returns what the sum of a row that was not excluded says of its distance: nothing, which is less than any, where its
/// bias is held in its range. Such a t has no upper bound (int8_upper, second_upper).
float t_of(std::int32_t sum, std::int32_t bias, double unit, double shift) noexcept {
  const bool held = std::abs(static_cast<double>(bias)) >= most_bias;
  return held ? -std::numeric_limits<float>::infinity() : int8_distance(sum, unit, shift);
}

}  // namespace

bool negligible_error(const FilterNorms& query, const FilterNorms& largest) noexcept {
  return query.e + largest.e < largest_negligible_error * (query.n + largest.n);
}

std::int64_t next_int8_compaction(const QueryBlock& block, int query, bool cheap) noexcept {
  const QueryResult& result = block.results[query];
  const std::int64_t wanted = 2 * block.candidates[query].count + (cheap ? 1 : 3) * result.pool.k + 3 * panel_rows;
  return result.matches != nullptr ? block.capacity : std::min(block.capacity, wanted);
}

Int8TileArgs int8_tile_args(const QueryBlock& block, const Int8Block& int8, const std::int32_t* panels,
                            int query_panels, std::int64_t tile) {
  const std::int64_t quads = quads_of(block.model.columns);
  return {.queries = panels,
          .rows = block.chunk.quads.data() + tile * tile_rows * quads,
          .row_term = int8.biases,
          .thresholds = int8.threshold_int,
          .dims = quads,
          .query_panels = query_panels,
          .row_panels = block.row_panels(tile),
          .multiplier = 1,
          .partial = int8.partial,
          .on_hit = nullptr,
          .context = nullptr,
          .last_queries = block.queries - (query_panels - 1) * int8.kernels.query_lanes,
          .rows_far = block.chunk.count * quads * static_cast<std::int64_t>(sizeof(std::int32_t)) > cached_bytes};
}

// Tiles.

void Int8Filter::start() {
  for (int q = 0; q < block().queries; ++q) coeffs_[q] = coeffs_for(q);
}

Int8TileArgs Int8Filter::bind_tile(const std::int32_t* panels, int first_panel, int query_panels, std::int64_t tile) {
  const PackedRows& chunk = block().chunk;
  tile_ = tile;
  first_query_ = first_panel * int8_.kernels.query_lanes;
  maxima_ = chunk.tiles[static_cast<std::size_t>(tile)];
  unit_ = int8_.unit_of(block(), first_query_, tile);
  inverse_unit_ = 1 / unit_;
  const std::int64_t begin = tile * tile_rows;
  int8_.kernels.biases({.terms = chunk.terms.data() + begin,
                        .inverse = inverse_unit_,
                        .most = most_bias,
                        .count = block().row_panels(tile) * panel_rows,
                        .out = int8_.biases});
  for (int q = first_query_; q < first_query_ + query_panels * int8_.kernels.query_lanes; ++q)
    int8_.threshold_int[q] =
        q < block().queries && !result(q).given_up && !candidates(q).suspended ? threshold_for(q) : excludes_all;
  Int8TileArgs args = int8_tile_args(block(), int8_, panels, query_panels, tile);
  args.queries += first_panel * int8_.panel_size(block().model.columns);
  args.thresholds += first_query_;
  args.last_queries -= first_query_;
  args.on_hit = &Int8Filter::on_hit;
  args.context = this;
  return args;
}

void Int8Filter::filter_tile(const std::int32_t* panels, int query_panels, std::int64_t tile) {
  if (measures()) return measure_tile(panels, query_panels, tile);
  for (int first = 0, end = 0; first < query_panels; first = end) {
    ++end;
    while (end < query_panels && int8_.steps[end] == int8_.steps[first]) ++end;
    int8_.kernels.tile(bind_tile(panels, first, end - first, tile));
  }
}

void Int8Filter::measure_tile(const std::int32_t* panels, int query_panels, std::int64_t tile) {
  static constexpr struct alignas(64) { std::int32_t of[tile_rows]; } zeros = {};
  alignas(64) std::int32_t sums[tile_rows];
  const PackedRows& chunk = block().chunk;
  const double unit = int8_.unit_of(block(), 0, tile);
  Int8TileArgs args = int8_tile_args(block(), int8_, panels, query_panels, tile);
  args.row_term = zeros.of;
  args.distances = sums;
  int8_.kernels.tile(args);
  int8_.kernels.distances({.sums = sums,
                           .terms = chunk.terms.data() + tile * tile_rows,
                           .unit = unit,
                           .shift = shift_of(0),
                           .count = std::int64_t{args.row_panels} * panel_rows,
                           .t = next_distances()});
  note_measured(tile, unit);
}

void Int8Filter::bind_columns(const Int8Filter& rows, int padded) {
  unit_ = rows.unit_;
  inverse_unit_ = rows.inverse_unit_;
  maxima_ = block().chunk.tiles[static_cast<std::size_t>(rows.block().first / tile_rows)];
  for (int q = 0; q < padded; ++q)
    int8_.threshold_int[q] = q < block().queries && !result(q).given_up ? threshold_for(q) : excludes_all;
}

void Int8Filter::filter_symmetric_tile(const std::int32_t* panels, int query_panels, std::int64_t tile,
                                       std::int32_t* row_terms, Int8Filter& columns) {
  SymmetricTile both{*this, columns};
  Int8TileArgs args = bind_tile(panels, 0, query_panels, tile);
  columns.bind_columns(*this, args.row_panels * panel_rows);
  // As a row a query has no 128 in its sums.
  for (int q = 0; q < query_panels * int8_.kernels.query_lanes; ++q)
    row_terms[q] = q < block().queries ? int8_bias(block().chunk.terms[block().first + q], inverse_unit_) -
                                             static_cast<std::int32_t>(facts(q).shift)
                                       : 0;
  args.query_term = row_terms;
  args.column_thresholds = columns.int8_.threshold_int;
  args.on_hit = &Int8Filter::on_symmetric_hit;
  args.on_column_hit = &Int8Filter::on_column_hit;
  args.context = &both;
  int8_.kernels.tile(args);
}

void Int8Filter::on_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values) {
  auto& filter = *static_cast<Int8Filter*>(context);
  query += filter.first_query_;
  const double shift = filter.shift_of(query);
  const std::int32_t* biases = filter.int8_.biases + std::int64_t{panel} * panel_rows;
  filter.append_rows(filter.tile_, query, panel, hits,
                     [&](int lane) { return t_of(values[lane], biases[lane], filter.unit_, shift); });
}

void Int8Filter::on_symmetric_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values) {
  on_hit(&static_cast<SymmetricTile*>(context)->rows, query, panel, hits, values);
}

void Int8Filter::on_column_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values) {
  const auto& tile = *static_cast<SymmetricTile*>(context);
  if (query >= tile.rows.block().queries) return;
  const std::int64_t row = tile.rows.block().first + query;
  const std::int32_t bias = int8_bias(tile.rows.block().chunk.terms[row], tile.rows.inverse_unit_);
  tile.columns.append_as_columns(tile.rows.tile_, row, panel, hits,
                                 [&](int lane) { return t_of(values[lane], bias, tile.rows.unit_, 0); });
}

// Thresholds.

void Int8Filter::set_threshold(int query) {
  if (result(query).given_up) {
    int8_.threshold_int[query] = excludes_all;
    return;
  }
  coeffs_[query] = coeffs_for(query);
  int8_.threshold_int[query] = threshold_for(query);
}

double Int8Filter::upper_of_slot(int query, const Slot& slot) const {
  const QueryFacts& q = facts(query);
  return int8_upper(block().model, slot.t, int8_.unit_of(block(), query, slot.tile()), q.square, q.norms,
                    block().chunk.tiles[static_cast<std::size_t>(slot.tile())]);
}

/// It returns what a candidate's distance hardly exceeds. Nothing proves it (core/bound.hpp takes errors at their lengths), so it
/// serves thresholds that are verified in the end.
double Int8Filter::estimate_of_slot(int query, const Slot& slot) const {
  const BoundModel& model = block().model;
  const QueryFacts& q = facts(query);
  FilterNorms norms = q.norms, tile = block().chunk.tiles[static_cast<std::size_t>(slot.tile())];
  const double least = model.sum == Sum::products ? -infinite : least_estimated_errors * (norms.e + tile.e);
  const double share = std::min(1.0, estimate_deviations / std::sqrt(static_cast<double>(model.columns)));
  norms.e *= share;
  tile.e *= share;
  return std::max(least, int8_upper(model, slot.t, int8_.unit_of(block(), query, slot.tile()), q.square, norms, tile));
}

bool Int8Filter::tighten_by_estimates(int query) {
  Candidates& candidates = this->candidates(query);
  const std::int64_t rank = speculation_.rank();
  if (!speculation_.active() || has_negligible_error(query) || candidates.refined > 0 || result(query).pool.count > 0 ||
      candidates.count < rank)
    return false;
  const double key =
      key_of_nearest(query, rank, candidates.count, [&](const Slot& slot) { return estimate_of_slot(query, slot); });
  if (!(key < result(query).threshold_key)) return false;
  tighten(query, key);
  candidates.speculative = true;
  return true;
}

/// Brings of the slots after `from` at most k that look nearer than the k-th so far to their front. Returns how many.
std::int64_t Int8Filter::bring_likely(int query, std::int64_t from) {
  const Candidates& candidates = this->candidates(query);
  const std::int64_t k = std::min(result(query).pool.k, speculation_reserve * speculation_.rank());
  Slot *const begin = candidates.slots + from, *const end = candidates.slots + candidates.count;
  std::int64_t likely = end - begin;
  if (candidates.threshold_distance < infinite) {
    // Without quantization errors, what is left of the bound is the estimate.
    const float estimate = threshold(block().model, candidates.threshold_distance, facts(query).square, {}, {});
    likely =
        partition_by(begin, end, Slot{estimate, 0}, [](const Slot& a, const Slot& b) { return a.t <= b.t; }) - begin;
  }
  if (likely <= k) return likely;
  select_nth(begin, begin + k, begin + likely, nearer);
  return k;
}

void Int8Filter::tighten_by_nearest(int query) {
  const std::int64_t likely = bring_likely(query, 0);
  if (likely == 0) return;
  rank(query, 0, likely);
  candidates(query).remove_first(likely);
}

double Int8Filter::speculative_key(int query, std::int64_t rank) {
  QueryResult& result = this->result(query);
  const Candidates& candidates = this->candidates(query);
  if (result.pool.count > 0) return speculative_key_of_pool(result.pool, rank);
  if (has_negligible_error(query)) {
    if (candidates.count < rank) return infinite;
    return key_of_nearest(query, rank, candidates.count, [&](const Slot& slot) { return upper_of_slot(query, slot); });
  }
  if (candidates.refined < rank) return infinite;
  return key_of_nearest(query, rank, candidates.refined,
                        [&](const Slot& slot) { return refinement_.upper_of(query, slot); });
}

// Candidates.

void Int8Filter::drop_excluded(int query) {
  if (result(query).given_up) return;
  speculate(*this, query);
  const ThresholdCoeffs coeffs = coeffs_for(query);
  result(query).passed +=
      candidates(query).compact([&](std::size_t tile) { return refinement_.threshold_for(query, tile); },
                                [&](std::size_t tile) { return up32(int8_bound(coeffs, block().chunk.tiles[tile])); });
}

void Int8Filter::compact(int query) {
  // An estimate reads no row. Where none lowers the threshold, or it leaves too many, rows tell it.
  if (tighten_by_estimates(query)) {
    drop_excluded(query);
    if (!crowded(query)) return;
  }
  // Thresholds tighten by refined rows alone, but where their distances are those of projected rows.
  if (refines(query) && result(query).pool.count == 0 && !block().model.projected) return compact_refined(query);
  if (has_negligible_error(query)) {
    tighten_by_uppers(query, candidates(query).count, [&](const Slot& slot) { return upper_of_slot(query, slot); });
  } else {
    tighten_by_nearest(query);
  }
  drop_excluded(query);
}

void Int8Filter::rank_candidates(int query) {
  if (refines(query)) refine_candidates(query);
  Candidates& candidates = this->candidates(query);
  const std::int64_t k = result(query).pool.k;
  if (result(query).matches == nullptr && k > 0 && candidates.count > k) {  // the nearest tell which others may answer
    select_nth(candidates.slots, candidates.slots + k, candidates.slots + candidates.count, nearer);
    rank(query, 0, k);
    candidates.remove_first(k);
    if (refines(query)) candidates.refined = candidates.count;
    drop_excluded(query);
  }
  rank(query, 0, candidates.count);
}

void Int8Filter::refine(int query, std::int64_t end) {
  refinement_.refine(query, end);
  if (refinement_.over_budget(query)) give_up(query);
}

void Int8Filter::tighten_by_refined(int query) {
  tighten_by_uppers(query, candidates(query).refined,
                    [&](const Slot& slot) { return refinement_.upper_of(query, slot); });
}

void Int8Filter::refine_likely(int query) {
  refine(query, candidates(query).refined + bring_likely(query, candidates(query).refined));
  tighten_by_refined(query);
  drop_excluded(query);
}

void Int8Filter::compact_refined(int query) {
  refine_likely(query);
  if (!crowded(query)) return;
  refine(query, candidates(query).count);
  tighten_by_refined(query);
  drop_excluded(query);
}

void Int8Filter::refine_candidates(int query) {
  const QueryResult& result = this->result(query);
  const bool tightens = result.pool.count == 0 && !block().model.projected;
  if (tightens && result.matches == nullptr) refine_likely(query);
  refine(query, candidates(query).count);
  if (tightens) tighten_by_refined(query);
  drop_excluded(query);
}

}  // namespace vicinal::cpu
