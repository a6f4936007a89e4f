// UNITS: how the tiles that a filter's launch takes are dealt to the blocks of the grid, and how the pairs of blocks of
// a graph are.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/divide.hpp"
#include "cuda/search/core/tiles.hpp"

namespace vicinal::cuda {

/// Units of work: so many tiles each, and so many of them for each block of queries.
struct Units {
  std::int64_t tiles = 1, parts = 1;
};

/// Units that end together: each round of the device's blocks has one unit for each of them, or nearly so, and few
/// rounds there are, for between units the pipeline of a block runs dry.
inline Units even_units(std::int64_t tiles, std::int64_t blocks, std::int64_t workers) {
  constexpr std::int64_t drained = 2, most_rounds = 64;  // drained: tiles that a new unit costs
  Units best;
  std::int64_t least = INT64_MAX;
  for (std::int64_t rounds = 1; rounds <= most_rounds; ++rounds) {
    const std::int64_t parts = std::min(tiles, std::max<std::int64_t>(1, rounds * workers / blocks)),
                       part = divide_up(tiles, parts), used = divide_up(tiles, part),
                       time = divide_up(used * blocks, workers) * (part + drained);
    if (time >= least) continue;
    least = time;
    best = {part, used};
  }
  return best;
}

/// BlockPairs are the pairs of blocks of a graph's rows, each once, where a tile serves both of its sides. A block is of
/// whole tiles and of whole blocks of a kernel's queries. Blocks stand in a circle, and each meets those that are 0 to
/// half of the circle ahead of it: the same number for all, or nearly so. Distances come in runs, so that blocks side by
/// side read the same rows at the same time, and runs in the order of `order`, so that any part of them is a sample of
/// every block's rows.
struct BlockPairs {
  std::int64_t tiles = 0;        // of the rows
  std::int64_t block_tiles = 2;  // of a block
  std::int64_t run = 0;          // distances of a unit of work; 0: tiles serve one side
  Visits order;                  // of the runs

  VICINAL_HOST_DEVICE std::int64_t blocks() const { return divide_up(tiles, block_tiles); }
  VICINAL_HOST_DEVICE std::int64_t distances() const { return blocks() / 2 + 1; }
  VICINAL_HOST_DEVICE std::int64_t runs() const { return divide_up(distances(), run); }
  /// Of a row or a query.
  VICINAL_HOST_DEVICE std::uint32_t block_of(std::uint32_t position) const {
    return position / (static_cast<std::uint32_t>(block_tiles) * tile_rows);
  }
  /// Tiles in a row from one on, which is after the last one.
  struct Span {
    std::int64_t tile, tiles;
  };
  /// What a block meets at the distances of a visited run.
  VICINAL_HOST_DEVICE Span span(std::int64_t block, std::int64_t visit) const {
    const std::int64_t all = blocks(), first = order.at(visit) * run, end = distances();
    std::int64_t last = first + run < end ? first + run : end;
    if (last == end && all % 2 == 0 && block >= all / 2)
      --last;  // of two that face each other the first meets the other
    const std::int64_t count = last - first, begin = block + first < all ? block + first : block + first - all;
    const bool with_last = all - 1 - begin < count;  // which may be short
    return {begin * block_tiles, count * block_tiles - (with_last ? all * block_tiles - tiles : 0)};
  }
};

/// The pairs of blocks of so many tiles, for a kernel whose blocks have so many queries; in at least so many runs where
/// they are enough.
inline BlockPairs block_pairs(std::int64_t tiles, std::int64_t queries, std::int64_t least_runs) {
  constexpr std::int64_t most_tiles = 128;  // of a run
  BlockPairs pairs{.tiles = tiles, .block_tiles = std::lcm(queries, std::int64_t{tile_rows}) / tile_rows, .order = {}};
  pairs.run = std::clamp<std::int64_t>(pairs.distances() / least_runs, 1, most_tiles / pairs.block_tiles);
  pairs.order = visits_of(pairs.runs());
  return pairs;
}

/// Units of which none is large beside the others, for segments that hold every pair of theirs.
inline Units small_units(std::int64_t tiles, std::int64_t blocks, std::int64_t workers) {
  const std::int64_t part =
      blocks == 1 ? divide_up(tiles, workers) : std::clamp<std::int64_t>(tiles * blocks / (4 * workers), 1, 64);
  return {part, divide_up(tiles, part)};
}

}  // namespace vicinal::cuda
