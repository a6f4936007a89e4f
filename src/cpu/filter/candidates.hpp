// Candidates are the rows that a filter could not exclude. They wait in a fixed number of slots a query until canonical
// distances rank them. Slots never overflow: when they fill, the threshold tightens and what it excludes is dropped; if
// too many remain they are ranked on the spot.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/bound.hpp"
#include "core/nth.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// One candidate. `t` is the filter's distance of the row at `position` of the packed chunk.
struct Slot {
  float t;
  std::uint32_t position;
  std::int64_t tile() const noexcept { return static_cast<std::int64_t>(position / tile_rows); }
};

/// An order, since no slot holds a NaN, which proves nothing and so counts as the best possible.
inline constexpr auto nearer = [](const Slot& a, const Slot& b) { return a.t < b.t; };
inline float never_nan(float t) noexcept { return std::isnan(t) ? -std::numeric_limits<float>::infinity() : t; }

/// The candidates of one query in one split of the chunk, and the state of its threshold.
struct Candidates {
  Slot* slots = nullptr;
  std::int64_t count = 0;
  std::int64_t refined = 0;           // the first `refined` of them hold a t of the second-level code
  std::int64_t compaction_point = 0;  // count at which they are compacted next
  std::int64_t refinements = 0;       // rows that were ever refined
  double threshold_distance =
      infinite;              // QueryResult::threshold_key as a true distance in filter units, inflated for key rounding
  bool speculative = false;  // no k rows are known to be within the threshold
  bool suspended = false;    // this query has visited all rows, while others visit them once more

  /// A panel of rows may be appended before the next compaction.
  bool has_room() const noexcept { return count + panel_rows <= compaction_point; }
  void append(float t, std::uint32_t position) noexcept { slots[count++] = {never_nan(t), position}; }
  /// Brings the `nearest` nearest of the first `among` slots to the front, the farthest of them last.
  void bring_nearest(std::int64_t nearest, std::int64_t among) noexcept {
    select_nth(slots, slots + (nearest - 1), slots + among, nearer);
  }
  /// Removes the first slots, whose rows were ranked.
  void remove_first(std::int64_t ranked) noexcept {
    std::copy(slots + std::max(ranked, count - ranked), slots + count, slots);
    count -= ranked;
  }
  void clear() noexcept { count = refined = 0; }
  /// Removes what is beyond the threshold of its tile, in units of t, and keeps the order of the rest. Each threshold
  /// is a function of the tile: one for refined slots, one for the others. Returns how many slots were removed.
  template <class RefinedThreshold, class Threshold>
  std::int64_t compact(const RefinedThreshold& refined_threshold, const Threshold& threshold);

 private:
  template <class Threshold>
  std::int64_t compact_part(std::int64_t begin, std::int64_t end, std::int64_t kept, const Threshold& threshold);
};

template <class Threshold>
std::int64_t Candidates::compact_part(std::int64_t begin, std::int64_t end, std::int64_t kept,
                                      const Threshold& threshold) {
  std::int64_t known_tile = -1;
  float threshold_filter = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Slot slot = slots[i];
    if (slot.tile() != known_tile) {
      known_tile = slot.tile();
      threshold_filter = threshold(static_cast<std::size_t>(known_tile));
    }
    slots[kept] = slot;  // which of them are kept cannot be guessed, so there is no branch
    kept += slot.t > threshold_filter ? 0 : 1;
  }
  return kept;
}

template <class RefinedThreshold, class Threshold>
std::int64_t Candidates::compact(const RefinedThreshold& refined_threshold, const Threshold& threshold) {
  const std::int64_t before = count, first_level = refined;
  refined = compact_part(0, refined, 0, refined_threshold);
  count = compact_part(first_level, count, refined, threshold);
  return before - count;
}

}  // namespace vicinal::cpu
