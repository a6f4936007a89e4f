// Tiles of rows and blocks of queries: how many there are of each, which rows of a tile are a group, what its rows have
// in common, and in which order tiles are visited.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/bound.hpp"
#include "core/bound_groups.hpp"
#include "core/visit_order.hpp"

namespace vicinal::cuda {

inline constexpr int tile_rows = 128;      // rows or queries that share a step and a pair of maxima
inline constexpr int block_queries = 256;  // of a block of the filter
inline constexpr int slab_queries = 192;   // the same, of rows of several slabs whose groups are tested
inline constexpr int groups_a_tile = 8;    // groups of 16 rows, whose nearest ones give a first threshold

/// The swizzle of a slab: where a 16-byte chunk of a line is among the line's chunks, so that eight lines meet in no
/// bank. Tensor cores read them so.
VICINAL_HOST_DEVICE inline int swizzled_chunk(int slab, int line, int chunk) {
  return slab == 64 ? chunk ^ (line >> 1 & 3) : chunk ^ (line & 7);
}

inline constexpr int group_rows = 16;
/// Bytes of a row whose groups may be tested: its sums are floats, too.
inline constexpr std::int64_t most_grouped_width = 1024;
static_assert(most_grouped_width * 128 * 128 <= 1 << 24);
/// Whether kernels test groups of rows for so many queries of so many
/// columns: for few of longer rows their warpgroups would have no queries.
VICINAL_HOST_DEVICE constexpr bool tests_groups(std::int64_t queries, std::int64_t dims) {
  return dims <= most_grouped_width && (dims <= 128 || queries > tile_rows);
}
static_assert(group_rows * groups_a_tile == tile_rows);
/// Row `i` of a group, within the tile: the rows of which a thread of a warpgroup has the sums.
VICINAL_HOST_DEVICE inline constexpr int row_of_group(int group, int i) {
  return group / 4 * 64 + i / 2 * 8 + group % 4 * 2 + i % 2;
}
/// A thread has the sums of two groups of a tile, one a half, which share a threshold: the 32 rows of a pair.
inline constexpr int pairs_a_tile = groups_a_tile / 2, rows_a_pair = 2 * group_rows;
VICINAL_HOST_DEVICE inline constexpr int row_of_pair(int pair, int i) {
  return row_of_group(pair + i / group_rows * pairs_a_tile, i % group_rows);
}
VICINAL_HOST_DEVICE inline constexpr int pair_of_row(int row) { return row % 8 / 2; }

/// What a tile's rows have in common, and what the filter adds for each of them; it travels with the tile.
struct alignas(16) TileMetadata {
  float terms[tile_rows];
  GroupNorms pairs[pairs_a_tile];
  double inverse;  // 1 / step
  FilterNorms maxima;
  float step, e, n, quick_inverse;  // e, n: the maxima, rounded up
};

/// Tiles are visited in the order i * step % count (core/visit_order.hpp), so that any part of it is a sample.
struct Visits {
  std::int64_t count = 1, step = 1;
  VICINAL_HOST_DEVICE std::int64_t at(std::int64_t i) const {
    const auto far = static_cast<unsigned long long>(i) * static_cast<unsigned long long>(step);
    if (far >> 32 == 0 && count >> 32 == 0)  // a device divides these in a fifth of the time
      return static_cast<std::uint32_t>(far) % static_cast<std::uint32_t>(count);
    return static_cast<std::int64_t>(far % static_cast<unsigned long long>(count));
  }
  VICINAL_HOST_DEVICE std::int64_t after(std::int64_t position) const {
    return position + step < count ? position + step : position + step - count;
  }
};
inline Visits visits_of(std::int64_t count) {
  const VisitOrder order(std::max<std::int64_t>(count, 1));
  return {std::max<std::int64_t>(count, 1), order.at(1)};
}

}  // namespace vicinal::cuda
