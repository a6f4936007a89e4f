// See filter.hpp; the inequalities are in core/bound.hpp.
#include "cpu/filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vicinal::cpu {

float FilterTask::threshold_at(int query, const FilterNorms& maxima) const {
  const QueryState& state = states[query];
  if (state.abandoned) return -std::numeric_limits<float>::infinity();
  const QueryFacts& q = facts[query];
  return threshold(model, state.theta, q.square, q.norms, maxima);
}

void FilterTask::face(const FilterNorms& maxima, int padded) {
  facing = maxima;
  for (int q = 0; q < padded; ++q) thr[q] = q < queries ? threshold_at(q, maxima) : -std::numeric_limits<float>::infinity();
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
          .multiplier = multiplier(model.form),
          .partial = partial,
          .on_hit = &FilterTask::on_hit,
          .context = this};
}

void FilterTask::call(const TileArgs& args) const {
  switch (model.form) {
    case Form::l1: return kernels.tile_l1(args);
    case Form::linf: return kernels.tile_linf(args);
    default: return kernels.tile_dot(args);
  }
}

void FilterTask::run(const float* panels, int query_panels, float* partial, std::int64_t which_tile) {
  tile = which_tile;
  face(chunk.tiles[static_cast<std::size_t>(tile)], query_panels * kernels.query_lanes);
  call(tile_args(panels, query_panels, partial));
}

void FilterTask::run_both(const float* panels, int query_panels, float* partial, std::int64_t which_tile,
                          const float* query_terms, FilterTask& facing_block) {
  tile = which_tile;
  other = &facing_block;
  TileArgs args = tile_args(panels, query_panels, partial);
  args.query_term = query_terms;
  args.row_thr = other->thr + (tile * tile_rows - other->first);
  args.on_column_hit = &FilterTask::on_column_hit;
  call(args);
}

bool FilterTask::make_room(int query) {
  QueryState& state = states[query];
  if (state.count + panel_rows <= capacity) return true;
  if (state.matches == nullptr) drop(query);
  if (state.matches != nullptr || state.count > state.pool.k + (capacity - panel_rows - state.pool.k) / 2) settle(query);
  return !state.abandoned;
}

void FilterTask::on_hit(void* context, int query, int panel, std::uint32_t rows, const float* values) {
  auto& task = *static_cast<FilterTask*>(context);
  if (query >= task.queries || task.states[query].abandoned) return;
  const std::int64_t begin = task.tile * tile_rows + static_cast<std::int64_t>(panel) * panel_rows;
  const std::int64_t absent = begin + panel_rows - task.chunk.count;
  if (absent > 0) rows &= 0xFFFFFFFFu >> absent;
  if (!task.make_room(query)) return;
  for (; rows != 0; rows &= rows - 1) {
    const int lane = std::countr_zero(rows);
    if (task.filter.allows(task.rows[query], task.chunk.first + begin + lane))
      task.keep(query, values[lane], static_cast<std::uint32_t>(begin + lane));
  }
}

void FilterTask::on_column_hit(void* context, int query, int panel, std::uint32_t rows, const float* values) {
  auto& task = *static_cast<FilterTask*>(context);
  FilterTask& other = *task.other;
  if (query >= task.queries) return;
  const std::int64_t row = task.first + query;  // the block's query as a row
  const std::int64_t begin = task.tile * tile_rows + static_cast<std::int64_t>(panel) * panel_rows - other.first;
  for (; rows != 0; rows &= rows - 1) {
    const int lane = std::countr_zero(rows);
    const auto facing_query = static_cast<int>(begin + lane);
    if (facing_query >= other.queries || other.states[facing_query].abandoned) continue;
    if (!other.filter.allows(other.rows[facing_query], row) || !other.make_room(facing_query)) continue;
    other.keep(facing_query, values[lane], static_cast<std::uint32_t>(row));
  }
}

void FilterTask::tighten(int query, double bound) {
  QueryState& state = states[query];
  if (!(bound < state.bound)) return;
  state.bound = bound;
  state.theta = theta_of_key(model, bound, facts[query].scale);
  thr[query] = threshold_at(query, facing);
}

void FilterTask::drop(int query) {
  QueryState& state = states[query];
  const QueryFacts& q = facts[query];
  const std::int64_t k = state.pool.k;
  const auto tile_of = [](const Slot& slot) { return static_cast<std::int64_t>(slot.row / tile_rows); };
  if (state.count >= k && k > 0) {
    // k distinct rows with proved upper bounds: the largest of them bounds the k-th distance from above.
    std::nth_element(state.slots, state.slots + (k - 1), state.slots + state.count,
                     [](const Slot& a, const Slot& b) { return a.t < b.t; });
    double upper = -infinite;
    for (std::int64_t i = 0; i < k; ++i) {
      const Slot& slot = state.slots[i];
      upper = std::max(upper, upper_of(model, slot.t, q.square, q.norms, chunk.tiles[static_cast<std::size_t>(tile_of(slot))]));
    }
    tighten(query, value_of_upper(model, upper, q.scale));
  }
  state.passed += state.count;
  std::int64_t kept = 0, known_tile = -1;
  float limit = 0;
  for (std::int64_t i = 0; i < state.count; ++i) {
    const Slot slot = state.slots[i];
    if (tile_of(slot) != known_tile) {
      known_tile = tile_of(slot);
      limit = threshold_at(query, chunk.tiles[static_cast<std::size_t>(known_tile)]);
    }
    if (!(slot.t > limit)) state.slots[kept++] = slot;
  }
  state.passed -= kept;
  state.count = kept;
}

void FilterTask::settle(int query) {
  QueryState& state = states[query];
  if (state.count == 0) return;
  ranker.start(rows[query], facts[query]);
  std::uint32_t index[rank_block];
  for (std::int64_t begin = 0; begin < state.count; begin += rank_block) {
    const std::int64_t used = std::min(rank_block, state.count - begin);
    for (std::int64_t i = 0; i < used; ++i) index[i] = state.slots[begin + i].row;
    state.take(ranker.rank(chunk, index, 0, used));
    team.tick(0);
  }
  state.passed += state.count;
  state.settled += state.count;
  state.count = 0;
  if (state.matches != nullptr) return;
  state.pool.trim();
  if (state.pool.full()) tighten(query, state.pool.worst.key);
  if (state.settled > share) {
    state.abandoned = true;
    thr[query] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace vicinal::cpu
