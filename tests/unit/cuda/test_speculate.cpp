// Guesses of thresholds, as far as they are arithmetic (src/cuda/search/filter/speculate.hpp), and units of work.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/search/filter/speculate.hpp"
#include "cuda/search/filter/units.hpp"

namespace {

using namespace vicinal;

TEST(Speculate, TilesThatServeBothSides) {
  const cuda::SpeculationRule rule;
  const auto both = [&](std::int64_t tiles, std::int64_t dims, std::int64_t k) {
    return cuda::symmetric_speculation(cuda::speculation_of(rule, tiles * 128, tiles, dims, k, true, 4096), rule, tiles,
                                       dims, k, k + 1);
  };
  const cuda::Speculation million = both(8192, 128, 15);
  EXPECT_TRUE(million.serves_both());
  EXPECT_EQ(million.pairs.runs(), 33);
  EXPECT_EQ(million.first_runs.tiles, 9);  // a quarter of them
  EXPECT_EQ(million.first_runs.rank, 17);  // 4.5 expected of 9 / 32, 5 deviations of 1.8, and 3
  EXPECT_EQ(million.slots, million.passing);
  EXPECT_LT(million.slots, cuda::least_speculative_slots);
  // Of few rows there are as many slots as where tiles serve one side, and of fewer still too few runs.
  const cuda::Speculation few = both(512, 128, 15);
  EXPECT_TRUE(few.serves_both());
  EXPECT_EQ(few.slots, cuda::least_speculative_slots);
  EXPECT_GT(few.slots, few.passing);
  EXPECT_FALSE(both(100, 128, 15).serves_both());
  EXPECT_FALSE(both(8192, 128, 4).serves_both());  // thresholds are proved
  EXPECT_EQ(both(8192, 784, 15).pairs.block_tiles, 3);
}

TEST(Speculate, RanksOfASample) {
  const cuda::SpeculationRule fixed;
  EXPECT_EQ(fixed.rank(1000, 1.0 / 8), 181);  // 125 expected, 5 deviations of 10.46, and 3
  EXPECT_EQ(fixed.rank(100, 1.0 / 16), 22);
  EXPECT_EQ((cuda::SpeculationRule{.least_k = 1, .deviations = 0, .rows_besides = -1000}).rank(100, 0.5), 1);
  const cuda::Speculation million = cuda::speculation_of(fixed, 1000, 8192, 128, 100, false, 4096);
  EXPECT_EQ(million.small_batch.tiles, 512);
  EXPECT_EQ(million.small_batch.rank, 22);
  EXPECT_LT(million.slots, 4096);
  // Many queries have a smaller sample, and a quarter of the tiles to guess again from.
  EXPECT_FALSE(million.reestimates(256));
  EXPECT_EQ(million.sample(256).tiles, 512);
  EXPECT_TRUE(million.reestimates(257));
  EXPECT_EQ(million.sample(257).tiles, 256);
  EXPECT_EQ(million.sample(257).rank, 15);
  EXPECT_EQ(million.first_part.tiles, 2048);
  EXPECT_EQ(million.first_part.rank, 50);
  EXPECT_EQ(cuda::speculation_of(fixed, 10240, 8192, 128, 1000, false, 26128).sample(10240).tiles, 512);
  EXPECT_FALSE(cuda::speculation_of(fixed, 1000, 8192, 128, 15, false, 4096).active());
  // Of few queries all lists are guessed, with slots for many more than are expected to pass.
  const cuda::Speculation batch = cuda::speculation_of(fixed, 256, 8192, 128, 1, false, 4096);
  EXPECT_EQ(batch.small_batch.rank, 5);
  EXPECT_GE(batch.slots, 20 * batch.small_batch.rank * 8192 / batch.small_batch.tiles);
  EXPECT_FALSE(cuda::speculation_of(fixed, 257, 8192, 128, 1, false, 4096).active());
  EXPECT_FALSE(cuda::speculation_of(fixed, 1000, 32, 128, 100, false, 4096).active());  // all rows have slots
  EXPECT_FALSE(cuda::speculation_of(fixed, 1000, 100, 128, 1000, false, 4096).active());
  EXPECT_LE(
      cuda::speculation_of(fixed, 1000, 1 << 20, 128, 100, false, 1 << 20).small_batch.tiles * cuda::groups_a_tile,
      cuda::most_speculative_groups);
  // A longer list has more slots, and never fewer where less of the corpus is the sample.
  for (const std::int64_t tiles : {300, 8192, 1 << 17})
    for (std::int64_t k = 32; k < 4096; k += 17)
      EXPECT_LE(cuda::speculative_slots(tiles, 128, k), cuda::speculative_slots(tiles, 128, k + 17));
}

/// A query of a list of five rows, as it is when all tiles have passed.
cuda::QueryState searched(std::uint32_t found, double threshold_key, bool overflowed = false) {
  cuda::QueryState state;
  state.best = found;
  state.threshold_key = threshold_key;
  state.given_up = overflowed;
  return state;
}

TEST(Speculate, AListProvesItsThreshold) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(verifies(searched(5, 1.0), 5, 1.0));  // what ties with the last was ranked as well
  EXPECT_TRUE(verifies(searched(5, 1.0), 5, 0.0));
  EXPECT_TRUE(verifies(searched(5, -1.0), 5, -1.0));
  EXPECT_FALSE(verifies(searched(5, -1.0), 5, -0.999));
  EXPECT_FALSE(verifies(searched(4, 1.0), 5, 0.0));
  EXPECT_FALSE(verifies(searched(0, 1.0), 5, inf));
  EXPECT_FALSE(verifies(searched(5, 1.0), 5, std::nextafter(1.0, 2.0)));
  EXPECT_FALSE(verifies(searched(5, 1.0), 5, inf));
  EXPECT_FALSE(verifies(searched(5, 1.0), 5, std::nan("")));
  EXPECT_FALSE(verifies(searched(5, std::nan("")), 5, 1.0));
  EXPECT_FALSE(verifies(searched(5, 1.0, true), 5, 0.0));
  EXPECT_TRUE(verifies(searched(5, inf), 5, 7.0));   // nothing was excluded
  EXPECT_FALSE(verifies(searched(4, inf), 5, 7.0));  // and fewer than k were there
}

TEST(FilterUnits, UnitsEndTogether) {
  for (const std::int64_t workers : {3, 108, 132})
    for (const std::int64_t blocks : {1, 2, 7, 40, 131, 500})
      for (const std::int64_t tiles : {1, 5, 200, 256, 512, 2560, 8192, 100000}) {
        const cuda::Units units = cuda::even_units(tiles, blocks, workers);
        SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(blocks) + " blocks, " +
                     std::to_string(tiles) + " tiles");
        EXPECT_EQ(units.parts, (tiles + units.tiles - 1) / units.tiles);  // every tile, and no unit without one
        const std::int64_t rounds = (units.parts * blocks + workers - 1) / workers;
        const double even = static_cast<double>(tiles * blocks) / static_cast<double>(workers);
        if (even > 400) {
          EXPECT_LT(static_cast<double>(rounds * units.tiles), even * 1.06);
        }
      }
  // 40 blocks of queries and 132 multiprocessors: 33 units a block are ten rounds.
  EXPECT_EQ(cuda::even_units(8192, 40, 132).parts, 33);
}

}  // namespace
