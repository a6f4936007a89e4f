// UNITS: how the tiles that a filter's launch takes are dealt to the blocks of the grid.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/divide.hpp"

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

/// Units of which none is large beside the others, for segments that hold every pair of theirs.
inline Units small_units(std::int64_t tiles, std::int64_t blocks, std::int64_t workers) {
  const std::int64_t part =
      blocks == 1 ? divide_up(tiles, workers) : std::clamp<std::int64_t>(tiles * blocks / (4 * workers), 1, 64);
  return {part, divide_up(tiles, part)};
}

}  // namespace vicinal::cuda
