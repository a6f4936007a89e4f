// See int8_exact.hpp. Sums start from -floor(|r|^2 / 2), so that 2
// (shift - sum) + (|r|^2 mod 2) = |r|^2 - 2 q.r, which is Slot::t.
#include "cpu/filter/int8_exact.hpp"

#include <algorithm>
#include <cmath>

#include "core/canonical.hpp"

namespace vicinal::cpu {
namespace {

/// Slot::t of a row by its sum and its squared norm, in units of the data.
float exact_t(std::int32_t sum, std::int32_t square, double shift) noexcept {
  return static_cast<float>(2 * (static_cast<std::int64_t>(shift) - sum) + (square & 1));
}

}  // namespace

/// |q|^2 in units of the data.
double Int8ExactFilter::square_of(int query) const noexcept {
  return 2 * facts(query).square / int8_.unit_of(block(), query, 0);
}

/// No row whose key is within the threshold has a larger squared distance, in units of the data.
double Int8ExactFilter::threshold_square(int query) const noexcept {
  return std::floor(reach_of(block().spec.metric, block().spec.type, result(query).threshold_key));
}

double Int8ExactFilter::key_of(int query, const Slot& slot) const noexcept {
  const SearchSpec& spec = block().spec;
  return fold_key(canonical_value(spec.metric, square_of(query) + static_cast<double>(slot.t), 0, 0), spec.type, false);
}

/// Sums below it belong to squared distances beyond threshold_square, whatever the last bit of |r|^2.
std::int32_t Int8ExactFilter::threshold_for(int query) const noexcept {
  if (result(query).given_up || candidates(query).suspended) return excludes_all;
  const double threshold_sum = facts(query).shift + (square_of(query) - threshold_square(query)) / 2;
  return threshold_sum > -0x1p31 ? whole_above(threshold_sum) : std::numeric_limits<std::int32_t>::min();
}

void Int8ExactFilter::start() {
  for (int q = 0; q < int8_.padded_queries(block().queries); ++q)
    int8_.threshold_int[q] = q < block().queries ? threshold_for(q) : excludes_all;
}

void Int8ExactFilter::filter_tile(const std::int32_t* panels, int query_panels, std::int64_t tile) {
  tile_ = tile;
  const std::int32_t* squares = block().chunk.squares.data() + tile * tile_rows;
  for (int r = 0; r < block().row_panels(tile) * panel_rows; ++r) int8_.biases[r] = -(squares[r] >> 1);
  Int8TileArgs args = int8_tile_args(block(), int8_, panels, query_panels, tile);
  if (measures()) return measure_tile(args, squares);
  args.on_hit = &Int8ExactFilter::on_hit;
  args.context = this;
  int8_.kernels.tile(args);
}

void Int8ExactFilter::measure_tile(const Int8TileArgs& args, const std::int32_t* squares) {
  alignas(64) std::int32_t sums[tile_rows];
  Int8TileArgs measured = args;
  measured.distances = sums;
  int8_.kernels.tile(measured);
  float* const t = next_distances();
  const double shift = facts(0).shift;
  for (int r = 0; r < args.row_panels * panel_rows; ++r) t[r] = exact_t(sums[r], squares[r], shift);
  note_measured(tile_);
}

void Int8ExactFilter::on_hit(void* context, int query, int panel, std::uint32_t hits, const std::int32_t* values) {
  auto& filter = *static_cast<Int8ExactFilter*>(context);
  const double shift = filter.facts(query).shift;
  const std::int32_t* squares =
      filter.block().chunk.squares.data() + filter.tile_ * tile_rows + std::int64_t{panel} * panel_rows;
  filter.append_rows(filter.tile_, query, panel, hits,
                     [&](int lane) { return exact_t(values[lane], squares[lane], shift); });
}

double Int8ExactFilter::speculative_key(int query, std::int64_t rank) {
  Candidates& candidates = this->candidates(query);
  if (candidates.count < rank) return infinite;
  candidates.bring_nearest(rank, candidates.count);
  return key_of(query, candidates.slots[rank - 1]);
}

void Int8ExactFilter::compact(int query) {
  Candidates& candidates = this->candidates(query);
  const std::int64_t k = result(query).pool.k, before = candidates.count;
  if (candidates.count >= k && k > 0) {
    candidates.bring_nearest(k, candidates.count);
    tighten(query, key_of(query, candidates.slots[k - 1]));
  }
  speculate(*this, query);
  const double threshold_filter = threshold_square(query) - square_of(query);
  Slot* const end = candidates.slots + candidates.count;
  candidates.count = std::remove_if(candidates.slots, end,
                                    [&](const Slot& slot) { return static_cast<double>(slot.t) > threshold_filter; }) -
                     candidates.slots;
  result(query).passed += before - candidates.count;
}

void Int8ExactFilter::rank_candidates(int query) {
  QueryResult& result = this->result(query);
  const Candidates& candidates = this->candidates(query);
  const PackedRows& chunk = block().chunk;
  for (std::int64_t i = 0; i < candidates.count; ++i) {
    const Slot& slot = candidates.slots[i];
    result.pool.offer({key_of(query, slot), block().spec.first_id + chunk.first + chunk.row_at(slot.position)});
  }
  result.passed += candidates.count;
  result.pool.trim();
  if (result.pool.full()) tighten(query, result.pool.worst.key);
}

}  // namespace vicinal::cpu
