// Tiles of bytes of every instruction set: every sum to the bit against 64-bit integers, hits exactly where NOT (t < limit), both
// sides of a tile, limits that rise during the call, nothing read or written past an end. And rows in bytes: equal in
// every table, with quantization errors that are what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/bound_groups.hpp"
#include "cpu/isa/kernels.hpp"
#include "unit/cpu/isa/guarded.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t int8_dims[] = {1, 2, 3, 4, 5, 8, 31, 32, 33, 128, 129, 200, 300};  // in quads
constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min(),
                       highest = std::numeric_limits<std::int32_t>::max();

/// One call's operands, all ending at inaccessible pages, and what the call reported.
struct Int8Tile {
  using Values = std::map<std::pair<int, int>, std::int32_t>;  // (query, row) to t

  /// extreme: bytes at the ends of their ranges alone, which is what saturates where it can.
  Int8Tile(const Int8Kernels& table, std::int64_t quads_, int query_panels_, int row_panels_, std::uint64_t seed,
           bool extreme)
      : kernels(table), quads(quads_), query_panels(query_panels_), row_panels(row_panels_),
        query_count(query_panels * table.query_lanes), row_count(row_panels * panel_rows),
        queries(query_count * query_width(table.layout, quads)), rows(row_count * quads), term(row_count),
        thresholds(query_count), partial(std::int64_t{query_count} * panel_rows), query_term(query_count),
        column_thresholds(row_count), raw_queries(static_cast<std::size_t>(query_count * quads * 4)),
        raw_rows(static_cast<std::size_t>(row_count * quads * 4)) {
    std::mt19937_64 random(seed);
    const int most = table.most_code, least = most == most_code_of_bytes ? -128 : -most;
    for (std::int8_t& x : raw_queries)
      x = static_cast<std::int8_t>(extreme ? (random() % 4 == 0 ? most : least)
                                           : static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1)) +
                                                 least);
    for (std::uint8_t& x : raw_rows)
      x = static_cast<std::uint8_t>(extreme ? (random() % 8 == 0 ? 0 : 255) : random() % 256);
    for (int q = 0; q < query_count; ++q)
      for (std::int64_t k = 0; k < quads; ++k) pack_query(q, k);
    for (int r = 0; r < row_count; ++r)
      for (std::int64_t k = 0; k < quads; ++k)
        std::memcpy(&rows[(r / panel_rows * quads + k) * panel_rows + r % panel_rows],
                    &raw_rows[static_cast<std::size_t>((r * quads + k) * 4)], 4);
    for (std::int32_t& x : term) x = static_cast<std::int32_t>(random() % 2000000) - 1000000;
    for (std::int32_t& x : query_term) x = static_cast<std::int32_t>(random() % 2000000) - 1000000;
    std::fill(thresholds.begin(), thresholds.end(), lowest);
    std::fill(column_thresholds.begin(), column_thresholds.end(), lowest);
    std::fill(partial.begin(), partial.end(), 12345);  // scratch: what it held must not matter
  }

  void pack_query(int q, std::int64_t k) {
    const int lanes = kernels.query_lanes;
    const std::int8_t* four = &raw_queries[static_cast<std::size_t>((q * quads + k) * 4)];
    std::int32_t* to = &queries[q / lanes * lanes * query_width(kernels.layout, quads) +
                                query_position(kernels.layout, lanes, q % lanes, k)];
    const std::int16_t halves[4] = {four[0], four[2], four[1], four[3]};
    kernels.layout == QueryLayout::halves ? std::memcpy(to, halves, 8) : std::memcpy(to, four, 4);
  }

  std::int64_t product(int q, int r) const {
    std::int64_t sum = 0;
    for (std::int64_t j = 0; j < quads * 4; ++j)
      sum += std::int64_t{raw_queries[static_cast<std::size_t>(q * quads * 4 + j)]} *
             raw_rows[static_cast<std::size_t>(r * quads * 4 + j)];
    return sum;
  }

  void run(bool both) {
    kernels.tile({.queries = queries.data(),
                  .rows = rows.data(),
                  .row_term = term.data(),
                  .thresholds = thresholds.data(),
                  .dims = quads,
                  .query_panels = query_panels,
                  .row_panels = row_panels,
                  .multiplier = 1,
                  .partial = partial.data(),
                  .on_hit =
                      [](void* context, int query, int panel, std::uint32_t hit, const std::int32_t* values) {
                        auto& tile = *static_cast<Int8Tile*>(context);
                        tile.note(tile.found, tile.thresholds[query], -1, query, panel, hit, values);
                        if (tile.after_hit) std::fill(tile.thresholds.begin(), tile.thresholds.end(), highest);
                      },
                  .context = this,
                  .query_term = query_term.data(),
                  .column_thresholds = both ? column_thresholds.data() : nullptr,
                  .on_column_hit =
                      [](void* context, int query, int panel, std::uint32_t hit, const std::int32_t* values) {
                        auto& tile = *static_cast<Int8Tile*>(context);
                        tile.note(tile.found_columns, 0, panel * panel_rows, query, panel, hit, values);
                      },
                  .last_queries = last_queries,
                  .rows_far = rows_far,
                  .distances = distances});
  }

  void note(Values& into, std::int32_t limit, int first_row, int query, int panel, std::uint32_t hit,
            const std::int32_t* values) {
    ++calls;
    if (inside != nullptr) {
      inside->found.clear();
      inside->found_columns.clear();
      inside->run(calls % 2 == 0);
    }
    ASSERT_TRUE(query >= 0 && query < query_count && panel >= 0 && panel < row_panels);
    ASSERT_NE(hit, 0u) << "a call without a row";
    for (int j = 0; j < panel_rows; ++j) {
      if ((hit >> j & 1) == 0) continue;
      ASSERT_GE(values[j], first_row < 0 ? limit : column_thresholds[first_row + j])
          << "reported against the limit as it is now";
      ASSERT_TRUE(into.emplace(std::pair(query, panel * panel_rows + j), values[j]).second) << "reported twice";
    }
  }

  const Int8Kernels& kernels;
  std::int64_t quads;
  int query_panels, row_panels, query_count, row_count;
  Guarded<std::int32_t> queries, rows, term, thresholds, partial, query_term, column_thresholds;
  std::vector<std::int8_t> raw_queries;
  std::vector<std::uint8_t> raw_rows;
  int last_queries = 0;
  bool rows_far = false;
  std::int32_t* distances = nullptr;
  bool after_hit = false;      // the first hit raises every limit to the highest
  Int8Tile* inside = nullptr;  // each hit runs it
  Values found, found_columns;
  int calls = 0;
};

class Int8TileTest : public ::testing::TestWithParam<const Int8Kernels*> {
 protected:
  void SetUp() override {
    if (!kernels().supported()) GTEST_SKIP() << "not run: " << kernels().name;
  }
  const Int8Kernels& kernels() const { return *GetParam(); }
};

// A search's callback may search: what is left in registers that have to be shaped (AMX) must not be what the outer tile goes on with.
TEST_P(Int8TileTest, ACallbackMayRunTiles) {
  for (const bool both : {false, true}) {
    Int8Tile inner(kernels(), 5, 1, 1, 7, false), tile(kernels(), 33, 3, 2, 8, false);
    tile.inside = &inner;
    tile.run(both);
    ASSERT_EQ(static_cast<std::int64_t>(tile.found.size()), std::int64_t{tile.query_count} * tile.row_count);
    for (const auto& [pair, t] : tile.found)
      ASSERT_EQ(t, tile.product(pair.first, pair.second) + tile.term[pair.second]);
    for (const auto& [pair, t] : inner.found)
      ASSERT_EQ(t, inner.product(pair.first, pair.second) + inner.term[pair.second]);
  }
}

TEST_P(Int8TileTest, EverySumIsExactOnBothSides) {
  for (const std::int64_t quads : int8_dims)
    for (const bool extreme : {false, true})
      for (const bool both : {false, true}) {
        Int8Tile tile(kernels(), quads, 1 + static_cast<int>(quads) % 3, quads % 5 == 0 ? 3 : 1,
                      static_cast<std::uint64_t>(quads), extreme);
        tile.run(both);
        ASSERT_EQ(static_cast<std::int64_t>(tile.found.size()), std::int64_t{tile.query_count} * tile.row_count);
        ASSERT_EQ(tile.found_columns.size(), both ? tile.found.size() : 0);
        for (const auto& [pair, t] : tile.found)
          ASSERT_EQ(t, tile.product(pair.first, pair.second) + tile.term[pair.second])
              << kernels().name << " quads " << quads;
        for (const auto& [pair, u] : tile.found_columns)
          ASSERT_EQ(u, tile.product(pair.first, pair.second) + tile.query_term[pair.first])
              << kernels().name << " quads " << quads;
      }
}

TEST_P(Int8TileTest, HitsAreExactlyThePairsNotBelowTheLimit) {
  for (const std::int64_t quads : {1, 7, 33, 200})
    for (const bool both : {false, true}) {
      Int8Tile tile(kernels(), quads, 2, 3, static_cast<std::uint64_t>(quads) + 1000, false);
      for (int q = 0; q < tile.query_count; ++q) {
        const auto t =
            static_cast<std::int32_t>(tile.product(q, 5 * q % tile.row_count) + tile.term[5 * q % tile.row_count]);
        const std::int32_t choices[] = {lowest, highest, t, t + 1, t - 1000, t + 1000};  // a tie is a hit
        tile.thresholds[q] = choices[q % 6];
      }
      for (int r = 0; r < tile.row_count; ++r) {
        const auto u =
            static_cast<std::int32_t>(tile.product(r % tile.query_count, r) + tile.query_term[r % tile.query_count]);
        const std::int32_t choices[] = {highest, u, u + 1, u + 2000};
        tile.column_thresholds[r] = choices[r % 4];
      }
      tile.run(both);
      for (int q = 0; q < tile.query_count; ++q)
        for (int r = 0; r < tile.row_count; ++r) {
          ASSERT_EQ(tile.found.count({q, r}) == 1, tile.product(q, r) + tile.term[r] >= tile.thresholds[q])
              << kernels().name << " " << q << " " << r;
          ASSERT_EQ(tile.found_columns.count({q, r}) == 1,
                    both && tile.product(q, r) + tile.query_term[q] >= tile.column_thresholds[r])
              << kernels().name << " " << q << " " << r;
        }
    }
}

// One pair in a whole call, at every place of it: nothing else opens the way to the exact test.
TEST_P(Int8TileTest, FewQueriesOfTheLastPanelHaveTheSameSums) {
  for (const std::int64_t quads : {1, 7, 32, 130, 200})
    for (const int query_panels : {1, 2})
      for (const bool both : {false, true})
        for (int last = 1; last <= kernels().query_lanes; ++last) {
          Int8Tile tile(kernels(), quads, query_panels, 3, static_cast<std::uint64_t>(quads + last), false);
          const int queries = (query_panels - 1) * kernels().query_lanes + last;
          for (int q = queries; q < tile.query_count; ++q) tile.thresholds[q] = highest;
          tile.run(both);
          const Int8Tile::Values want = std::exchange(tile.found, {}), columns = std::exchange(tile.found_columns, {});
          tile.last_queries = last;
          for (const bool far : {false, true}) {
            tile.rows_far = far;
            tile.found.clear();
            tile.found_columns.clear();
            tile.run(both);
            EXPECT_TRUE(tile.found == want && tile.found_columns == columns)
                << quads << " quads, " << query_panels << " panels, " << last << " queries, far: " << far;
          }
        }
}

TEST_P(Int8TileTest, AllSumsOfAQueryAloneAreHandedOut) {
  for (const std::int64_t quads : int8_dims)
    for (const int row_panels : {1, 2, 3, tile_panels})
      for (const bool extreme : {false, true})
        for (const bool far : {false, true}) {
          Int8Tile tile(kernels(), quads, 1, row_panels, static_cast<std::uint64_t>(quads), extreme);
          Guarded<std::int32_t> sums(tile.row_count);
          tile.last_queries = 1;
          tile.rows_far = far;
          tile.distances = sums.data();
          tile.run(false);
          EXPECT_EQ(tile.calls, 0);
          for (int r = 0; r < tile.row_count; ++r)
            ASSERT_EQ(sums[r], tile.product(0, r) + tile.term[r]) << quads << " quads, row " << r << ", far: " << far;
        }
}

TEST_P(Int8TileTest, DistancesAreThoseOfTheBound) {
  std::mt19937_64 random(5);
  for (const double unit : {1.0, 1 / 3.0, 0x1p-20, 1e6, 1e-30, 1e30}) {
    Guarded<float> terms(tile_rows), t(tile_rows);
    Guarded<std::int32_t> sums(tile_rows);
    const double shift = 128.0 * (static_cast<double>(random() % 100000) - 50000);
    for (int r = 0; r < tile_rows; ++r) {
      const float odd[] = {-infinite, 0, -0.0F, 1, -1, 3e38F, 0x1p-149F};
      terms[r] = r % 3 == 0 ? odd[random() % std::size(odd)]
                            : std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())), r % 60 - 40);
      sums[r] = static_cast<std::int32_t>(random()) >> random() % 31;
    }
    for (const std::int64_t count : {panel_rows, tile_rows}) {
      float* const out = t.end() - count;
      kernels().distances({.sums = sums.end() - count,
                           .terms = terms.end() - count,
                           .unit = unit,
                           .shift = shift,
                           .count = count,
                           .t = out});
      for (std::int64_t r = 0; r < count; ++r) {
        const double product = static_cast<double>(*(sums.end() - count + r)) - shift;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[r]),
                  std::bit_cast<std::uint32_t>(product_distance(*(terms.end() - count + r), product, unit)))
            << *(terms.end() - count + r) << ", " << product << " * " << unit;
      }
    }
  }
}

// Blocks are the same and packed rows are, whichever of the two serves a search.
TEST_P(Int8TileTest, WhatServesFewQueriesHasPanelsOfAsManyQueries) {
  const bool apart = kernels().of_few != nullptr;
  const Int8Kernels* const with_few[] = {&int8_avx512amx, &int8_avx512, &int8_avx2};
  EXPECT_EQ(apart, std::find(std::begin(with_few), std::end(with_few), &kernels()) != std::end(with_few));
  for (const std::int64_t queries : {1, 2}) EXPECT_EQ(kernels().serving(queries) != &kernels(), apart) << queries;
  EXPECT_EQ(kernels().serving(3), &kernels());
  EXPECT_EQ(kernels().serving(1)->query_lanes, kernels().query_lanes);
}

TEST_P(Int8TileTest, ASingleHitIsFoundWhereverItIs) {
  Int8Tile tile(kernels(), 3, 2, 1, 21, false);
  std::fill(tile.term.begin(), tile.term.end(), -(1 << 30));
  for (int q = 0; q < tile.query_count; ++q)
    for (int r = 0; r < tile.row_count; ++r) {
      std::fill(tile.thresholds.begin(), tile.thresholds.end(), highest);
      tile.term[r] = 0;
      tile.thresholds[q] = static_cast<std::int32_t>(tile.product(q, r));
      tile.found.clear();
      tile.run(false);
      tile.term[r] = -(1 << 30);
      ASSERT_EQ(tile.found.size(), 1u) << "query " << q << " row " << r;
      ASSERT_EQ(tile.found.begin()->first, std::pair(q, r));
    }
}

TEST_P(Int8TileTest, ALimitThatRisesInsideACallCountsFromThereOn) {
  Int8Tile tile(kernels(), 33, 3, 4, 9, false);
  tile.after_hit = true;
  tile.run(false);
  EXPECT_EQ(tile.calls, 1);
}

TEST_P(Int8TileTest, BiasesAreThoseOfTheBound) {
  std::mt19937_64 random(3);
  const float odd[] = {0,       -0.0F,    infinite, -infinite, not_a_number, 1,     -1,
                       0x1p30F, -0x1p30F, 0x1p31F,  -0x1p40F,  0.5F,         -0.5F, 3e38F};
  for (const double inverse : {1.0, 1 / 3.0, 0x1p-20, 1e6, 1e-30}) {
    Guarded<float> terms(tile_rows);
    alignas(64) std::int32_t out[tile_rows];
    for (float& x : terms) {
      const auto style = random() % 3;
      x = style == 0 ? odd[random() % std::size(odd)]
                     : std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                                  style == 1 ? -20 : static_cast<int>(random() % 60) - 50);
    }
    for (const std::int64_t count : {panel_rows, tile_rows}) {
      kernels().biases(
          {.terms = terms.end() - count, .inverse = inverse, .most = most_bias, .count = count, .out = out});
      for (std::int64_t r = 0; r < count; ++r)
        ASSERT_EQ(out[r], int8_bias(*(terms.end() - count + r), inverse))
            << *(terms.end() - count + r) << " * " << inverse;
    }
  }
}

TEST_P(Int8TileTest, SecondSumsAreExact) {
  std::mt19937_64 random(11);
  for (const std::int64_t stride : {64, 128, 832, 16384})
    for (const bool extreme : {false, true}) {
      constexpr std::int64_t row_count = 9;
      Guarded<std::int8_t> first_codes(stride), second_codes(stride);
      Guarded<std::uint8_t> rows(row_count * stride);
      for (std::int8_t& x : first_codes)
        x = static_cast<std::int8_t>(extreme ? -128 : static_cast<int>(random() % 256) - 128);
      for (std::int8_t& x : second_codes)
        x = static_cast<std::int8_t>(extreme ? -128 : static_cast<int>(random() % 256) - 128);
      for (std::uint8_t& x : rows) x = static_cast<std::uint8_t>(extreme ? 255 : random() % 256);
      const std::uint32_t index[] = {8, 0, 3, 3, 7, 1};
      for (int count = 0; count <= 6; ++count) {
        std::int32_t found[7];
        std::fill(found, found + 7, 12345);
        kernels().second_sums({.first_codes = first_codes.data(),
                               .second_codes = second_codes.data(),
                               .rows = rows.data(),
                               .stride = stride,
                               .index = index,
                               .count = count,
                               .out = found});
        for (int i = 0; i < count; ++i) {
          std::int64_t sum = 0;
          for (std::int64_t k = 0; k < stride; ++k) {
            const std::uint8_t both = rows[index[i] * stride + k];
            sum += std::int64_t{second_codes[k]} * (both / 16) + std::int64_t{first_codes[k]} * (both % 16);
          }
          ASSERT_EQ(found[i], sum) << kernels().name << " stride " << stride;
        }
        ASSERT_EQ(found[count], 12345) << "written past the end";
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, Int8TileTest,
                         ::testing::Values(&int8_plain, &int8_avx2, &int8_avxvnni, &int8_avx512, &int8_avx512vnni,
                                           &int8_avx512amx, int8_avx2.of_few, int8_avx512.of_few),
                         [](const auto& info) {
                           const bool few = info.param->most_code < most_code_of_bytes;
                           return std::string(info.param->name) + (few ? "_few" : "");
                         });

class Int8RowTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!kernels().supported()) GTEST_SKIP() << "not run: " << kernels().name;
  }
  const Kernels& kernels() const { return *GetParam(); }
  static Int8QuantizeArgs moved(const Guarded<double>& row, const Guarded<double>& centre, double step,
                                std::int64_t dims, std::int8_t* out) {
    return {.row = row.data(),
            .dtype = DType::f64,
            .centre = centre.data(),
            .shift = 0.125,
            .scale = 0.5,
            .step = step,
            .inverse = 1 / step,
            .dims = dims,
            .out = out};
  }
};

TEST_P(Int8RowTest, RowsAreThoseOfThePlainTableAndQuantizationErrorsAreTrue) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (std::int64_t dims = 1; dims <= 70; ++dims)
    for (const double step : {0.01, 1.0 / 64, 3e-9, 0.5}) {  // 3e-9: held to the ends of a byte
      Guarded<double> row(dims), centre(dims);
      Guarded<std::int8_t> bytes(dims), expected(dims);
      for (double& x : row) x = normal(random);
      for (double& x : centre) x = step == 0.5 ? 0 : 0.1 * normal(random);
      if (step == 0.5)
        for (double& x : row) x = 0.25 * std::floor(4 * x);  // halves of a step: to even
      Int8QuantizeArgs args = moved(row, centre, step, dims, bytes.data());
      const Int8Facts facts = kernels().round_to_int8(args);
      args.out = expected.data();
      const Int8Facts plain = float_plain.round_to_int8(args);
      long double xx = 0, nn = 0, ee = 0, largest = 0;
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < dims; ++i) {
        ASSERT_EQ(bytes[i], expected[i]) << kernels().name << " dims " << dims << " step " << step;
        const double x = (row[i] - 0.125) * 0.5 - centre[i];
        const long double rounded = static_cast<long double>(step) * bytes[i];
        xx += static_cast<long double>(x) * x, nn += rounded * rounded, ee += (x - rounded) * (x - rounded);
        largest = std::max(largest, fabsl(x));
        sum += bytes[i];
      }
      EXPECT_EQ(facts.sum, sum);
      EXPECT_EQ(plain.sum, sum);
      EXPECT_EQ(kernels().largest_of(args), static_cast<double>(largest));
      for (const RowFacts& f : {facts.facts, plain.facts}) {
        EXPECT_NEAR(f.xx, static_cast<double>(xx), 1e-12 * static_cast<double>(xx));
        EXPECT_NEAR(f.nn, static_cast<double>(nn), 1e-12 * static_cast<double>(nn));
        EXPECT_NEAR(f.ee, static_cast<double>(ee), 1e-12 * static_cast<double>(ee) + 1e-28);
      }
    }
}

TEST_P(Int8RowTest, ElementsOfEveryTypeAreTakenAsTheNumbersThatTheyAre) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (int type = 0; type < dtype_count; ++type)
    for (std::int64_t dims = 1; dims <= 70; dims += dims < 34 ? 1 : 9) {
      const auto dtype = static_cast<DType>(type);
      const auto size = static_cast<std::int64_t>(dtype_size(dtype));
      Guarded<std::byte> elements(dims * size);
      Guarded<double> numbers(dims), centre(dims);
      do {  // until no half is an infinity or no number
        for (std::int64_t i = 0; i < dims * size; ++i) elements[i] = static_cast<std::byte>(random());
        for (std::int64_t i = 0; i < dims && size >= 4; ++i) {
          const double x = normal(random);
          const auto narrow = static_cast<float>(x);
          std::memcpy(elements.data() + i * size, size == 8 ? static_cast<const void*>(&x) : &narrow,
                      static_cast<std::size_t>(size));
        }
        for (std::int64_t i = 0; i < dims && size == 2; ++i) elements[2 * i + 1] &= std::byte{0xbf};
        kernels().convert[type](elements.data(), dims, numbers.data());
      } while (kernels().first_bad(numbers.data(), dims) >= 0);
      for (double& x : centre) x = normal(random);
      Guarded<std::int8_t> codes(dims), expected(dims);
      const Int8QuantizeArgs wide = moved(numbers, centre, 0.3, dims, expected.data());
      Int8QuantizeArgs args = wide;
      args.row = elements.data(), args.dtype = dtype, args.out = codes.data();
      const Int8Facts facts = kernels().round_to_int8(args), want = kernels().round_to_int8(wide);
      EXPECT_EQ(std::memcmp(codes.data(), expected.data(), static_cast<std::size_t>(dims)), 0) << type << ' ' << dims;
      EXPECT_EQ(facts.facts.xx, want.facts.xx);
      EXPECT_EQ(facts.facts.nn, want.facts.nn);
      EXPECT_EQ(facts.facts.ee, want.facts.ee);
      EXPECT_EQ(facts.sum, want.sum);
      const SecondFacts second = kernels().second_of_row(args), want_second = kernels().second_of_row(wide);
      EXPECT_EQ(std::memcmp(codes.data(), expected.data(), static_cast<std::size_t>(dims)), 0) << type << ' ' << dims;
      EXPECT_EQ(second.coarse, want_second.coarse);
      EXPECT_EQ(second.fine, want_second.fine);
      EXPECT_EQ(kernels().largest_of(args), kernels().largest_of(wide));
    }
}

TEST_P(Int8RowTest, TheLargestIsNoNumberWhereAnElementIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (std::int64_t dims = 1; dims <= 40; ++dims)
    for (std::int64_t at = 0; at < dims; ++at)
      for (const double bad : {std::nan(""), infinity, -infinity}) {
        Guarded<double> row(dims), centre(dims);
        Guarded<float> narrow(dims);
        for (double& x : row) x = 1e300;
        for (float& x : narrow) x = -3e38F;
        for (double& x : centre) x = 1;
        row[at] = bad;
        narrow[at] = static_cast<float>(bad);
        Int8QuantizeArgs args = moved(row, centre, 1, dims, nullptr);
        EXPECT_TRUE(std::isnan(kernels().largest_of(args))) << bad << " at " << at << " of " << dims;
        args.row = narrow.data(), args.dtype = DType::f32;
        EXPECT_TRUE(std::isnan(kernels().largest_of(args))) << bad << " at " << at << " of " << dims;
        narrow[at] = 0;
        EXPECT_EQ(kernels().largest_of(args), dims == 1 ? 1.0625 : (3e38F + 0.125) * 0.5 + 1) << dims;
      }
}

TEST_P(Int8RowTest, QuadsLieSideBySideRaisedBy128AndZerosAfterThem) {
  std::mt19937_64 random(10);
  for (std::int64_t quads = 1; quads <= 40; ++quads)
    for (const int count : {1, 2, 7, 8, 9, 15, 16, 17, 31, panel_rows}) {
      Guarded<std::int8_t> codes(count * quads * 4);
      Guarded<std::int32_t> panel(quads * panel_rows);
      for (std::int8_t& x : codes) x = static_cast<std::int8_t>(random());
      for (std::int32_t& x : panel) x = -1;
      kernels().pack_quads(codes.data(), count, quads, panel.data());
      for (std::int64_t k = 0; k < quads; ++k)
        for (int i = 0; i < panel_rows; ++i) {
          std::uint8_t four[4];
          std::memcpy(four, &panel[k * panel_rows + i], 4);
          for (int j = 0; j < 4; ++j)
            ASSERT_EQ(four[j], i < count ? codes[(i * quads + k) * 4 + j] + 128 : 0)
                << kernels().name << ' ' << quads << " quads, row " << i << " of " << count;
        }
    }
}

TEST_P(Int8RowTest, SecondBytesAreThoseOfThePlainTableAndQuantizationErrorsAreTrue) {
  std::mt19937_64 random(6);
  std::normal_distribution<double> normal;
  for (std::int64_t dims = 1; dims <= 70; ++dims)
    for (const double step : {0.01, 1.0 / 64, 3e-9}) {  // 3e-9: held to the ends of a byte
      Guarded<double> row(dims), centre(dims);
      Guarded<std::int8_t> first(dims), second(dims), expected(dims);
      for (double& x : row) x = normal(random);
      for (double& x : centre) x = 0.1 * normal(random);
      Int8QuantizeArgs args = moved(row, centre, step, dims, first.data());
      float_plain.round_to_int8(args);
      for (const bool query : {false, true}) {
        args.out = second.data();
        const SecondFacts facts = query ? kernels().second_query(args) : kernels().second_of_row(args);
        args.out = expected.data();
        const SecondFacts plain = query ? float_plain.second_query(args) : float_plain.second_of_row(args);
        long double coarse = 0, fine = 0;
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < dims; ++i) {
          ASSERT_EQ(second[i], expected[i])
              << kernels().name << " dims " << dims << " step " << step << " query " << query;
          const long double x = (row[i] - 0.125) * 0.5 - centre[i],
                            quantization_error = x - static_cast<long double>(step) * first[i];
          const auto both = static_cast<std::uint8_t>(second[i]);
          const long double p = static_cast<long double>(step) * second[i] / 256,
                            u = static_cast<long double>(step) * (16 * (both / 16) - 120.5L),
                            v = static_cast<long double>(step) * ((both % 16) - 7.5L) / 16;
          coarse += query ? p * p : (x - u) * (x - u);
          fine += query ? (quantization_error - p) * (quantization_error - p)
                        : (quantization_error - v) * (quantization_error - v);
          sum += second[i];
          if (fabsl(x) > 127 * step) continue;  // held to the ends of a byte
          ASSERT_LE(fabsl(query ? quantization_error - p : quantization_error - v),
                    step * (query ? 1.01L / 256 : 1.01L / 32))
              << "half a cell";
          ASSERT_TRUE(query || fabsl(x - u) <= step * 8.01L);
        }
        EXPECT_EQ(facts.sum, query ? sum : 0);
        for (const SecondFacts& f : {facts, plain}) {
          EXPECT_NEAR(f.coarse, static_cast<double>(coarse), 1e-12 * static_cast<double>(coarse) + 1e-28);
          const auto of_fine = static_cast<double>(fine);  // differences of numbers of about 1
          EXPECT_NEAR(f.fine, of_fine, 1e-12 * of_fine + 1e-15 * std::sqrt(of_fine) + 1e-28);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, Int8RowTest, ::testing::Values(&float_plain, &float_avx2, &float_avx512),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace vicinal::cpu
