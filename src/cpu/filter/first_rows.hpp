// FILTER, the first rows of a query that comes alone. Where no threshold is known yet every row would be a candidate,
// until there are so many that one can be found among them. So the distances of the first tiles are all computed before
// any is tested: the least of groups of rows are k rows, whose bounds give the query its first threshold, and of the
// tiles themselves little more than the answer is left.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/bound.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// FirstRows hold the distances t of the first tiles of one query, and the least of each group of their rows.
struct FirstRows {
  static constexpr std::int64_t most_tiles = 16;  // their distances stay in the first-level cache
  /// Fewer rows become candidates one by one in less time than groups take.
  static constexpr std::int64_t least_rows = 4 * distance_groups;
  static constexpr std::int64_t groups_a_neighbor = 3;  // two of the nearest are seldom in one
  static constexpr std::int64_t most_neighbors = distance_groups / 2;

  alignas(64) float t[most_tiles * tile_rows];
  alignas(64) float least[distance_groups];  // t of the groups of rows that LowerGroupsFn has
  std::int64_t tiles[most_tiles];
  std::int64_t count = 0;   // of tiles
  FilterNorms maxima = {};  // over all of them
  double unit = 0;          // the largest of theirs, of bytes

  FirstRows() noexcept { std::fill_n(least, distance_groups, std::numeric_limits<float>::infinity()); }
  /// Joins groups while there are enough for k neighbours, since few are selected from sooner. Returns how many are left.
  std::int64_t join_groups(std::int64_t k) noexcept {
    std::int64_t groups = distance_groups;
    for (; groups >= groups_a_neighbor * 2 * k && groups > 16; groups /= 2)
      for (std::int64_t i = 0; i < groups / 2; ++i) least[i] = std::min(least[i], least[i + groups / 2]);
    return groups;
  }
  /// Where the distances of the next tile go.
  float* next() noexcept { return t + count * tile_rows; }
};

}  // namespace vicinal::cpu
