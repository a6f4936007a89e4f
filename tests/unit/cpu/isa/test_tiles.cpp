// The filter's tiles of every instruction set: the error of each t against fp64, hits exactly where NOT (t > thresholds)
// for the t that is handed out, thresholds that fall during the call, and nothing read or written past an end.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu/isa/kernels.hpp"
#include "unit/cpu/isa/guarded.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t tile_dims[] = {1,  2,  3,  4,   5,   7,   8,   15,  16,  17, 31,
                                      32, 33, 64, 127, 128, 129, 256, 257, 300, 784};
constexpr double unit = 0x1p-24;

constexpr Sum all_sums[] = {Sum::products, Sum::magnitudes, Sum::largest};

/// One call's operands, all ending at inaccessible pages, and what the call reported.
struct Tile {
  using Values = std::map<std::pair<int, int>, float>;  // (query, row) to t

  Tile(const Kernels& table, std::int64_t d, int query_panels_, int row_panels_, std::uint64_t seed)
      : kernels(table), dims(d), query_panels(query_panels_), row_panels(row_panels_),
        query_count(query_panels * table.query_lanes), row_count(row_panels * panel_rows), queries(query_count * d),
        rows(row_count * d), term(row_count), thresholds(query_count), partial(std::int64_t{query_count} * panel_rows) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (float& x : queries) x = normal(random);
    for (float& x : rows) x = normal(random);
    for (float& x : term) x = 10 * normal(random);
    std::fill(thresholds.begin(), thresholds.end(), infinite);
    std::fill(partial.begin(), partial.end(), not_a_number);  // scratch: what it held must not matter
  }

  void run(Sum sum) {
    const TileFn kernel = kernels.tile_of(sum);
    kernel({.queries = queries.data(),
            .rows = rows.data(),
            .row_term = term.data(),
            .thresholds = thresholds.data(),
            .dims = dims,
            .query_panels = query_panels,
            .row_panels = row_panels,
            .multiplier = multiplier,
            .partial = partial.data(),
            .on_hit = on_hit,
            .context = this,
            .last_queries = last_queries,
            .rows_far = rows_far,
            .distances = distances});
  }

  static void on_hit(void* context, int query, int panel, std::uint32_t hit, const float* values) {
    Tile& tile = *static_cast<Tile*>(context);
    ASSERT_GE(query, 0);
    ASSERT_LT(query, tile.query_count);
    ASSERT_GE(panel, 0);
    ASSERT_LT(panel, tile.row_panels);
    ASSERT_NE(hit, 0u) << "a call without a row";
    ++tile.calls;
    for (int j = 0; j < panel_rows; ++j) {
      if ((hit >> j & 1) == 0) continue;
      ASSERT_FALSE(values[j] > tile.thresholds[query]) << "reported against the threshold as it is now";
      ASSERT_TRUE(tile.found.emplace(std::pair(query, panel * panel_rows + j), values[j]).second) << "reported twice";
    }
    if (tile.after_hit) std::fill(tile.thresholds.begin(), tile.thresholds.end(), -infinite);
  }

  float query_at(int q, std::int64_t k) const {
    const int lanes = kernels.query_lanes;
    return queries[(q / lanes) * dims * lanes + k * lanes + q % lanes];
  }
  float row_at(int r, std::int64_t k) const {
    return rows[(r / panel_rows) * dims * panel_rows + k * panel_rows + r % panel_rows];
  }

  const Kernels& kernels;
  std::int64_t dims;
  int query_panels, row_panels, query_count, row_count;
  Guarded<float> queries, rows, term, thresholds, partial;
  float multiplier = -2;
  int last_queries = 0;
  bool rows_far = false;
  float* distances = nullptr;
  bool after_hit = false;  // the first hit lowers every threshold to -infinity
  Values found;
  int calls = 0;
};

class TileTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!kernels().supported()) GTEST_SKIP() << "not run: " << kernels().name;
  }
  const Kernels& kernels() const { return *GetParam(); }
};

// |t - (m acc + term)| is at most |m| times the chain's error plus one rounding of t. The chain: dims roundings of at
// most the sum of magnitudes when fused or when the differences are rounded first (dims + 1), twice dims else.
void check_error(const Tile& tile, Sum sum, int q, int r, float t) {
  double exact = 0, magnitude = 0;
  for (std::int64_t k = 0; k < tile.dims; ++k) {
    const double a = tile.query_at(q, k), b = tile.row_at(r, k);
    magnitude += sum == Sum::products ? std::abs(a * b) : std::abs(a - b);
    if (sum == Sum::products) exact += a * b;
    else if (sum == Sum::magnitudes) exact += std::abs(a - b);
    else exact = std::max(exact, std::abs(a - b));
  }
  const double d = static_cast<double>(tile.dims);
  const double roundings = sum == Sum::magnitudes ? d + 1 : tile.kernels.fused ? d : 2 * d;
  const double chain = unit * (sum == Sum::largest ? exact : roundings * magnitude);
  const double wanted = static_cast<double>(tile.multiplier) * exact + static_cast<double>(tile.term[r]);
  const double allowed = std::abs(tile.multiplier) * chain * (1 + 1e-4) + unit * std::abs(wanted) * (1 + 1e-4) + 1e-12;
  ASSERT_NEAR(t, wanted, allowed) << tile.kernels.name << " sum " << static_cast<int>(sum) << " d=" << tile.dims
                                  << " query " << q << " row " << r;
}

TEST_P(TileTest, EveryPairIsHandedOutOnceWithinTheErrorBound) {
  for (const Sum sum : all_sums) {
    for (const std::int64_t dims : tile_dims) {
      const int query_panels = 1 + static_cast<int>(dims) % 3;
      const int row_panels = dims % 5 == 0 ? tile_panels : 1 + static_cast<int>(dims) % 2;
      Tile tile(kernels(), dims, query_panels, row_panels, static_cast<std::uint64_t>(dims));
      if (dims % 2 == 0) tile.multiplier = 0.7f;
      tile.run(sum);
      ASSERT_EQ(static_cast<std::int64_t>(tile.found.size()), std::int64_t{tile.query_count} * tile.row_count);
      for (const auto& [pair, t] : tile.found) {
        check_error(tile, sum, pair.first, pair.second, t);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(TileTest, HitsAreExactlyThePairsNotAboveTheThreshold) {
  for (const Sum sum : all_sums) {
    for (const std::int64_t dims : tile_dims) {
      Tile all(kernels(), dims, 2, 3, static_cast<std::uint64_t>(dims) + 1000);
      Tile some(kernels(), dims, 2, 3, static_cast<std::uint64_t>(dims) + 1000);
      for (Tile* tile : {&all, &some}) {
        tile->term[3] = infinite;
        tile->term[36] = not_a_number;
        tile->term[70] = -infinite;
      }
      all.run(sum);
      // Thresholds: none, all, NaN, exactly a value (a tie is a hit), the next below it (not a hit), and quantiles.
      for (int q = 0; q < some.query_count; ++q) {
        const float value = all.found.at({q, 5 * q % some.row_count});
        const float lower = std::nextafter(value, -infinite);
        const float choices[] = {-infinite, infinite, not_a_number, value, lower, value - 3, value + 3};
        some.thresholds[q] = choices[q % 7];
      }
      some.run(sum);
      Tile::Values expected;
      for (const auto& [pair, t] : all.found) {
        if (!(t > some.thresholds[pair.first])) expected.emplace(pair, t);
      }
      ASSERT_EQ(some.found.size(), expected.size()) << kernels().name << " d=" << dims;
      for (const auto& [pair, t] : expected) {
        const auto hit = some.found.find(pair);
        ASSERT_NE(hit, some.found.end()) << "missed query " << pair.first << " row " << pair.second << " d=" << dims;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(hit->second), std::bit_cast<std::uint32_t>(t));
      }
    }
  }
}

// One pair in a whole call, at every place of it: nothing else opens the way to the exact test.
TEST_P(TileTest, FewQueriesOfTheLastPanelHaveTheSameValues) {
  for (const Sum sum : all_sums)
    for (const std::int64_t dims : {1, 5, 64, 129, 300})
      for (const int query_panels : {1, 2})
        for (int last = 1; last <= kernels().query_lanes; ++last) {
          Tile tile(kernels(), dims, query_panels, tile_panels - 1, static_cast<std::uint64_t>(dims + last));
          const int queries = (query_panels - 1) * kernels().query_lanes + last;
          for (int q = 0; q < queries; ++q) tile.thresholds[q] = static_cast<float>(q % 3 == 0 ? 3 : 1000);
          for (int q = queries; q < tile.query_count; ++q) tile.thresholds[q] = -infinite;
          tile.run(sum);
          const Tile::Values want = std::exchange(tile.found, {});
          tile.last_queries = last;
          for (const bool far : {false, true}) {
            tile.rows_far = far;
            tile.found.clear();
            tile.run(sum);
            EXPECT_TRUE(tile.found == want)
                << dims << " dims, " << query_panels << " panels, " << last << " queries, far: " << far;
          }
        }
}

TEST_P(TileTest, AllDistancesOfAQueryAloneAreHandedOut) {
  for (const Sum sum : all_sums)
    for (const std::int64_t dims : tile_dims)
      for (const int row_panels : {1, 2, 3, tile_panels - 1, tile_panels})
        for (const bool far : {false, true}) {
          Tile tile(kernels(), dims, 1, row_panels, static_cast<std::uint64_t>(dims));
          tile.term[1] = infinite;
          tile.term[2] = -infinite;
          tile.last_queries = 1;
          tile.rows_far = far;
          tile.run(sum);
          Guarded<float> t(tile.row_count);
          tile.distances = t.data();
          tile.calls = 0;
          tile.run(sum);
          EXPECT_EQ(tile.calls, 0);
          for (int r = 0; r < tile.row_count; ++r)
            ASSERT_EQ(std::bit_cast<std::uint32_t>(t[r]), std::bit_cast<std::uint32_t>(tile.found.at({0, r})))
                << dims << " dims, row " << r << ", far: " << far;
        }
}

TEST_P(TileTest, GroupsAreLoweredByTheirRows) {
  std::mt19937_64 random(6);
  const float odd[] = {infinite, -infinite, not_a_number, 0, -1};
  for (int panels = 1; panels <= tile_panels; ++panels)
    for (int round = 0; round < 20; ++round) {
      Guarded<float> t(panels * panel_rows), least(distance_groups);
      std::normal_distribution<float> normal;
      for (float& x : t) x = random() % 8 == 0 ? odd[random() % std::size(odd)] : normal(random);
      for (float& x : least) x = random() % 2 == 0 ? infinite : normal(random) - 1;
      std::vector<float> want(least.begin(), least.end());
      for (int r = 0; r < panels * panel_rows; ++r) {
        float& group = want[static_cast<std::size_t>(r % distance_groups)];
        if (t[r] < group) group = t[r];
      }
      kernels().lower_groups(t.data(), panels, least.data());
      for (int j = 0; j < distance_groups; ++j)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(least[j]),
                  std::bit_cast<std::uint32_t>(want[static_cast<std::size_t>(j)]))
            << panels << " panels, group " << j;
    }
}

TEST_P(TileTest, RowsWithinAThresholdAreThoseNotAboveIt) {
  std::mt19937_64 random(7);
  const float odd[] = {infinite, -infinite, not_a_number, 0, 1};
  for (int round = 0; round < 200; ++round) {
    Guarded<float> t(panel_rows);
    std::normal_distribution<float> normal;
    for (float& x : t) x = random() % 4 == 0 ? odd[random() % std::size(odd)] : normal(random);
    const float threshold = round % 2 == 0 ? odd[random() % std::size(odd)] : t[round % panel_rows];
    const std::uint32_t rows = kernels().rows_within(t.data(), threshold);
    for (int j = 0; j < panel_rows; ++j)
      ASSERT_EQ((rows >> j & 1) == 1, !(t[j] > threshold)) << t[j] << " within " << threshold;
  }
}

TEST_P(TileTest, ASingleHitIsFoundWhereverItIs) {
  Tile tile(kernels(), 3, 2, 1, 21);
  std::fill(tile.term.begin(), tile.term.end(), 0.0f);
  tile.run(Sum::products);
  const Tile::Values all = tile.found;
  for (const auto& [pair, t] : all) {
    std::fill(tile.term.begin(), tile.term.end(), infinite);
    std::fill(tile.thresholds.begin(), tile.thresholds.end(), -infinite);
    tile.term[pair.second] = 0;
    for (const auto& [threshold, expected] : {std::pair(t, 1u), std::pair(std::nextafter(t, -infinite), 0u)}) {
      tile.thresholds[pair.first] = threshold;
      tile.found.clear();
      tile.run(Sum::products);
      ASSERT_EQ(tile.found.size(), expected) << "query " << pair.first << " row " << pair.second;
      for (const auto& hit : tile.found) ASSERT_EQ(hit.first, pair);
    }
    tile.thresholds[pair.first] = not_a_number;
    tile.found.clear();
    tile.run(Sum::products);
    ASSERT_EQ(tile.found.size(), static_cast<std::size_t>(panel_rows)) << "a NaN threshold excludes nothing";
  }
}

TEST_P(TileTest, QueriesExcludedAsAWholeHideNoOthers) {
  Tile tile(kernels(), 3, 1, 1, 22);
  for (int excluded = 0; excluded <= tile.query_count; ++excluded) {
    std::fill(tile.thresholds.begin(), tile.thresholds.end(), infinite);
    std::fill_n(tile.thresholds.begin(), excluded, -infinite);
    tile.found.clear();
    tile.run(Sum::magnitudes);
    ASSERT_EQ(static_cast<int>(tile.found.size()), (tile.query_count - excluded) * panel_rows);
  }
}

TEST_P(TileTest, ANaNSumIsNeverExcluded) {
  for (const Sum sum : {Sum::products, Sum::magnitudes}) {
    for (const std::int64_t dims : {2, 9, 200}) {
      Tile tile(kernels(), dims, 1, 1, 5);
      tile.queries[0] = tile.queries[kernels().query_lanes] = infinite;  // query 0, dimensions 0 and 1
      tile.rows[0] = infinite;
      tile.rows[panel_rows] = -infinite;
      std::fill(tile.thresholds.begin(), tile.thresholds.end(), -infinite);
      tile.run(sum);
      ASSERT_EQ(tile.found.count({0, 0}), 1u) << "d=" << dims;
      EXPECT_TRUE(std::isnan(tile.found.at({0, 0})));
    }
  }
}

TEST_P(TileTest, AThresholdThatFallsInsideACallCountsFromThereOn) {
  for (const Sum sum : all_sums)
    for (const bool lone : {false, true}) {
      Tile tile(kernels(), 33, lone ? 1 : 3, tile_panels, 9);
      tile.last_queries = lone ? 1 : 0;
      tile.after_hit = true;
      tile.run(sum);
      EXPECT_EQ(tile.calls, 1) << "every t is finite, so nothing is a hit once all thresholds are -infinity";
      EXPECT_GE(tile.found.size(), 1u);
    }
}

// Absent queries have threshold -infinity, absent rows the term +infinity; both are zeros.
TEST_P(TileTest, AbsentLanesAreQuietWhenToldSo) {
  for (const Sum sum : all_sums) {
    Tile tile(kernels(), 17, 2, 2, 11);
    const int last_query = tile.query_count - 1, last_row = tile.row_count - 1, lanes = kernels().query_lanes;
    for (std::int64_t k = 0; k < 17; ++k) {
      tile.queries[17 * lanes + k * lanes + lanes - 1] = 0;
      tile.rows[17 * panel_rows + k * panel_rows + panel_rows - 1] = 0;
    }
    std::fill(tile.thresholds.begin(), tile.thresholds.end(), 1e30f);
    tile.thresholds[last_query] = -infinite;
    tile.term[last_row] = infinite;
    tile.run(sum);
    EXPECT_EQ(tile.found.size(), static_cast<std::size_t>(last_query) * static_cast<std::size_t>(last_row));
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, TileTest, ::testing::Values(&float_plain, &float_avx2, &float_avx512),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace vicinal::cpu
