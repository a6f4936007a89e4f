// See filter.hpp; the inequalities are in core/bound.hpp.
#include "cpu/filter/filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace vicinal::cpu {

float FilterTask::threshold_at(int query, const FilterNorms& maxima) const {
  const QueryState& state = states[query];
  if (state.abandoned) return -std::numeric_limits<float>::infinity();
  const QueryFacts& q = facts[query];
  return threshold(model, state.theta, q.square, q.norms, maxima);
}

void FilterTask::face(const FilterNorms& maxima, int padded) {
  facing = maxima;
  for (int q = 0; q < padded; ++q)
    thr[q] = q < queries ? threshold_at(q, maxima) : -std::numeric_limits<float>::infinity();
}

TileArgs FilterTask::tile_args(const float* panels, int query_panels, float* partial) {
  const std::int64_t begin = tile * tile_rows, used = std::min<std::int64_t>(tile_rows, chunk.count - begin);
  return {.queries = panels,
          .rows = chunk.panels.data() + begin * model.dims,
          .row_term = chunk.terms.data() + begin,
          .thr = thr,
          .dims = model.dims,
          .query_panels = query_panels,
          .row_panels = static_cast<int>((used + panel_rows - 1) / panel_rows),
          .multiplier = multiplier(model.sum),
          .partial = partial,
          .on_hit = &FilterTask::on_hit,
          .context = this};
}

void FilterTask::start_bytes() {
  if (whole) {
    unit = int8_unit(model.sum, step, chunk.steps[0]);
    const std::int64_t padded = (queries + bytes->query_lanes - 1) / bytes->query_lanes * bytes->query_lanes;
    for (int q = 0; q < padded; ++q) limits[q] = q < queries ? whole_limit(q) : every_sum;
    return;
  }
  for (int q = 0; q < queries; ++q)
    lines[q] = threshold_coeffs(model, states[q].theta, facts[q].square, facts[q].norms);
}

Int8TileArgs FilterTask::face_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial,
                                    std::int64_t which_tile) {
  tile = which_tile;
  const auto at = static_cast<std::size_t>(tile);
  facing = chunk.tiles[at];
  unit = int8_unit(model.sum, step, chunk.steps[at]);
  inverse = 1 / unit;
  const std::int64_t begin = tile * tile_rows, used = std::min<std::int64_t>(tile_rows, chunk.count - begin);
  const auto row_panels = static_cast<int>((used + panel_rows - 1) / panel_rows);
  if (whole)
    for (int r = 0; r < row_panels * panel_rows; ++r) seeds[r] = -(chunk.squares[begin + r] >> 1);
  else
    for (int r = 0; r < row_panels * panel_rows; ++r) seeds[r] = int8_bias(chunk.terms[begin + r], inverse);
  for (int q = 0; !whole && q < query_panels * bytes->query_lanes; ++q)
    limits[q] = q < queries && !states[q].abandoned && !states[q].idle
                    ? int8_threshold(lines[q], facing, inverse, shift_of(q))
                    : every_sum;
  const std::int64_t quads = quads_of(model.dims);
  return {.queries = panels,
          .rows = chunk.quads.data() + begin * quads,
          .row_term = seeds,
          .thr = limits,
          .dims = quads,
          .query_panels = query_panels,
          .row_panels = row_panels,
          .multiplier = 1,
          .partial = partial,
          .on_hit = &FilterTask::on_int8_hit,
          .context = this};
}

void FilterTask::run_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial,
                           std::int64_t which_tile) {
  bytes->tile(face_bytes(panels, query_panels, partial, which_tile));
}

void FilterTask::meet_bytes(const std::int32_t* panels, int query_panels, std::int32_t* partial,
                            std::int64_t which_tile, std::int32_t* query_terms, FilterTask& facing_block) {
  Int8TileArgs args = face_bytes(panels, query_panels, partial, which_tile);
  other = &facing_block;
  other->unit = unit;
  other->inverse = inverse;
  other->facing = chunk.tiles[static_cast<std::size_t>(first / tile_rows)];
  for (int r = 0; r < args.row_panels * panel_rows; ++r)
    other->limits[r] = r < other->queries && !other->states[r].abandoned
                           ? int8_threshold(other->lines[r], other->facing, inverse, 0)
                           : every_sum;
  // As a row a query has no 128 in its sums.
  for (int q = 0; q < query_panels * bytes->query_lanes; ++q)
    query_terms[q] =
        q < queries ? int8_bias(chunk.terms[first + q], inverse) - static_cast<std::int32_t>(facts[q].shift) : 0;
  args.query_term = query_terms;
  args.row_thr = other->limits;
  args.on_column_hit = &FilterTask::on_int8_column_hit;
  bytes->tile(args);
}

void FilterTask::run(const float* panels, int query_panels, float* partial, std::int64_t which_tile) {
  tile = which_tile;
  face(chunk.tiles[static_cast<std::size_t>(tile)], query_panels * kernels.query_lanes);
  kernels.tile_of(model.sum)(tile_args(panels, query_panels, partial));
}

void FilterTask::run_both(const float* panels, int query_panels, float* partial, std::int64_t which_tile,
                          const float* query_terms, FilterTask& facing_block) {
  tile = which_tile;
  other = &facing_block;
  TileArgs args = tile_args(panels, query_panels, partial);
  args.query_term = query_terms;
  args.row_thr = other->thr + (tile * tile_rows - other->first);
  args.on_column_hit = &FilterTask::on_column_hit;
  kernels.tile_of(model.sum)(args);
}

bool FilterTask::make_room(int query) {
  QueryState& state = states[query];
  if (state.count + panel_rows <= state.due) return true;
  if (state.matches == nullptr) drop(query);
  if (state.matches != nullptr || crowded(query)) settle(query);
  plan_next(query);
  return !state.abandoned;
}

void FilterTask::plan_next(int query) const {
  QueryState& state = states[query];
  // Bytes tighten by ranking some k rows, which is worth a few times as many that are kept in vain; so it is done before all
  // slots are full.
  const std::int64_t wanted = 2 * state.count + (tight(query) || seen > 0 ? 1 : 3) * state.pool.k + 3 * panel_rows;
  state.due = bytes == nullptr || state.matches != nullptr ? capacity : std::min(capacity, wanted);
}

template <class TOf>
void FilterTask::take(int query, int panel, std::uint32_t hits, const TOf& t_of) {
  if (query >= queries || states[query].abandoned) return;
  const std::int64_t begin = tile * tile_rows + std::int64_t{panel} * panel_rows;
  const std::int64_t absent = begin + panel_rows - chunk.count;
  if (absent > 0) hits &= 0xFFFFFFFFu >> absent;
  if (!make_room(query)) return;
  for (; hits != 0; hits &= hits - 1) {
    const int lane = std::countr_zero(hits);
    const auto place = static_cast<std::uint32_t>(begin + lane);
    if (filter.allows(rows[query], chunk.first + chunk.row_at(place))) keep(query, t_of(lane), place);
  }
}

template <class TOf>
void FilterTask::take_columns(int query, int panel, std::uint32_t hits, const TOf& t_of) {
  if (query >= queries) return;
  const auto place = static_cast<std::uint32_t>(first + query);  // of the block's query as a row
  const std::int64_t begin = tile * tile_rows + std::int64_t{panel} * panel_rows - other->first;
  for (; hits != 0; hits &= hits - 1) {
    const int lane = std::countr_zero(hits);
    const auto facing_query = static_cast<int>(begin + lane);
    if (facing_query >= other->queries || other->states[facing_query].abandoned) continue;
    if (!other->filter.allows(other->rows[facing_query], chunk.row_at(place)) || !other->make_room(facing_query))
      continue;
    other->keep(facing_query, t_of(lane), place);
  }
}

void FilterTask::on_hit(void* context, int query, int panel, std::uint32_t hits, const float* values) {
  static_cast<FilterTask*>(context)->take(query, panel, hits, [&](int lane) { return values[lane]; });
}

void FilterTask::on_int8_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values) {
  auto& task = *static_cast<FilterTask*>(context);
  const double shift = task.shift_of(query);
  if (task.whole) {
    const std::int32_t* squares = task.chunk.squares.data() + task.tile * tile_rows + std::int64_t{panel} * panel_rows;
    return task.take(query, panel, hits, [&](int lane) {
      return static_cast<float>(2 * (static_cast<std::int64_t>(shift) - values[lane]) + (squares[lane] & 1));
    });
  }
  task.take(query, panel, hits, [&](int lane) { return int8_distance(values[lane], task.unit, shift); });
}

void FilterTask::on_column_hit(void* context, int query, int panel, std::uint32_t hits, const float* values) {
  static_cast<FilterTask*>(context)->take_columns(query, panel, hits, [&](int lane) { return values[lane]; });
}

void FilterTask::on_int8_column_hit(void* context, int query, int panel, std::uint32_t hits,
                                    const std::int32_t* values) {
  auto& task = *static_cast<FilterTask*>(context);
  task.take_columns(query, panel, hits, [&](int lane) { return int8_distance(values[lane], task.unit, 0); });
}

void FilterTask::set_threshold(int query) {
  if (bytes == nullptr) {
    thr[query] = threshold_at(query, facing);
  } else if (states[query].abandoned) {
    limits[query] = every_sum;
  } else if (whole) {
    limits[query] = whole_limit(query);
  } else {
    lines[query] = threshold_coeffs(model, states[query].theta, facts[query].square, facts[query].norms);
    limits[query] = int8_threshold(lines[query], facing, inverse, shift_of(query));
  }
}

void FilterTask::tighten(int query, double bound) {
  QueryState& state = states[query];
  if (!(bound < state.bound)) return;
  state.bound = bound;
  state.guessed = false;
  state.theta = theta_of_key(model, bound, facts[query].scale);
  set_threshold(query);
}

namespace {

constexpr std::int64_t guess_reserve = 2;     // rows ranked for each that a guess takes
constexpr double negligible_error = 0x1p-12;  // of the norms; bytes that are whole numbers have next to none
constexpr auto tile_of = [](const Slot& slot) { return static_cast<std::int64_t>(slot.row / tile_rows); };

}  // namespace

bool FilterTask::tight(int query) const noexcept {
  const FilterNorms& q = facts[query].norms;
  return bytes == nullptr || q.e + largest.e < negligible_error * (q.n + largest.n);
}

double FilterTask::upper_of_slot(int query, const Slot& slot) const {
  const QueryFacts& q = facts[query];
  const auto at = static_cast<std::size_t>(tile_of(slot));
  if (bytes == nullptr) return upper_of(model, slot.t, q.square, q.norms, chunk.tiles[at]);
  return int8_upper(model, slot.t, int8_unit(model.sum, step, chunk.steps[at]), q.square, q.norms, chunk.tiles[at]);
}

void FilterTask::tighten_by_uppers(int query, std::int64_t count, UpperOf upper_of) {
  QueryState& state = states[query];
  const std::int64_t k = state.pool.k;
  if (count < k || k == 0) return;
  // k distinct rows with proved upper bounds: the largest of them bounds the k-th distance from above.
  tighten(query, upper_of_nearest(query, k, count, upper_of));
}

/// A value that the `nearest` nearest of the first `count` slots are within.
double FilterTask::upper_of_nearest(int query, std::int64_t nearest, std::int64_t count, UpperOf upper_of) {
  Slot* slots = states[query].slots;
  std::nth_element(slots, slots + (nearest - 1), slots + count, nearer);
  double upper = -infinite;
  for (std::int64_t i = 0; i < nearest; ++i) upper = std::max(upper, (this->*upper_of)(query, slots[i]));
  return value_of_upper(model, upper, facts[query].scale);
}

/// Of the slots after `from` at most k that look nearer than the k-th so far come first. Returns how many.
std::int64_t FilterTask::bring_nearest(int query, std::int64_t from) {
  const QueryState& state = states[query];
  const std::int64_t k = std::min(state.pool.k, guess_reserve * rank_of_guess());
  Slot *const begin = state.slots + from, *const end = state.slots + state.count;
  std::int64_t likely = end - begin;
  if (state.theta < infinite) {
    // Without quantization_errors, what is left of the bound is the estimate.
    const float estimate = threshold(model, state.theta, facts[query].square, {}, {});
    likely = std::partition(begin, end, [&](const Slot& slot) { return slot.t <= estimate; }) - begin;
  }
  if (likely <= k) return likely;
  std::nth_element(begin, begin + k, begin + likely, nearer);
  return k;
}

void FilterTask::tighten_by_nearest(int query) {
  QueryState& state = states[query];
  const std::int64_t likely = bring_nearest(query, 0);
  if (likely == 0) return;
  rank(query, 0, likely);
  std::copy(state.slots + std::max(likely, state.count - likely), state.slots + state.count, state.slots);
  state.count -= likely;
}

void FilterTask::drop(int query) {
  if (whole) return drop_whole(query);
  QueryState& state = states[query];
  if (looks_twice(query) && state.pool.count == 0) return drop_twice(query);
  tight(query) ? tighten_by_uppers(query, states[query].count, &FilterTask::upper_of_slot) : tighten_by_nearest(query);
  drop_farther(query);
}

void FilterTask::drop_farther(int query) {
  QueryState& state = states[query];
  if (state.abandoned) return;
  guess(query);
  const ThresholdCoeffs line = bytes != nullptr
                                   ? threshold_coeffs(model, state.theta, facts[query].square, facts[query].norms)
                                   : ThresholdCoeffs{};
  const auto limit_in = [&](std::size_t which_tile) {
    const FilterNorms& maxima = chunk.tiles[which_tile];
    return bytes != nullptr ? up32(int8_bound(line, maxima)) : threshold_at(query, maxima);
  };
  std::int64_t kept = 0;
  const auto sift = [&](std::int64_t begin, std::int64_t end, const auto& limit_of) {
    std::int64_t known_tile = -1;
    float limit = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const Slot slot = state.slots[i];
      if (tile_of(slot) != known_tile) {
        known_tile = tile_of(slot);
        limit = limit_of(static_cast<std::size_t>(known_tile));
      }
      if (!(slot.t > limit)) state.slots[kept++] = slot;
    }
  };
  sift(0, state.looked, [&](std::size_t which_tile) {
    return second_threshold(model, state.theta, facts[query].second, facts[query].norms.n,
                            chunk.second.tiles[which_tile]);
  });
  const std::int64_t looked = std::exchange(state.looked, kept);
  sift(looked, state.count, limit_in);
  state.passed += state.count - kept;
  state.count = kept;
}

void FilterTask::rank(int query, std::int64_t begin, std::int64_t end) {
  QueryState& state = states[query];
  ranker.start(rows[query], facts[query]);
  std::uint32_t index[rank_block];
  for (std::int64_t at = begin; at < end; at += rank_block) {
    const std::int64_t used = std::min(rank_block, end - at);
    for (std::int64_t i = 0; i < used; ++i) index[i] = chunk.row_at(state.slots[at + i].row);
    state.take(ranker.rank(chunk, index, 0, used));
    thread_pool.poll(0);
  }
  state.passed += end - begin;
  state.settled += end - begin;
  if (state.matches != nullptr) return;
  state.pool.trim();
  if (state.pool.full()) tighten(query, state.pool.worst.key);
  if (state.settled <= share) return;
  state.abandoned = true;
  set_threshold(query);
}

void FilterTask::settle(int query) {
  QueryState& state = states[query];
  if (state.count == 0) return;
  if (whole) rank_whole(query);
  else if (looks_twice(query)) rank_twice(query);
  else rank(query, 0, state.count);
  state.count = state.looked = 0;
}

}  // namespace vicinal::cpu
