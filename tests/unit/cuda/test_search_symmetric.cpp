// Graphs whose tiles serve both of their sides, on a device of compute capability 9.0 as the emulator has it, against the CPU's answers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <type_traits>

#include "cuda/search/filter/filter_test.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

TEST(BlockPairs, EveryPairOfTilesIsMetOnce) {
  for (const std::int64_t tiles : {1, 2, 3, 4, 5, 6, 7, 8, 13, 63, 64, 65, 66, 130, 515})
    for (const auto& [least, queries] : {std::pair{1, 256}, {4, 256}, {32, 256}, {1, 192}, {32, 192}}) {
      SCOPED_TRACE(std::to_string(tiles) + " tiles, " + std::to_string(least) + " runs, " + std::to_string(queries));
      const cuda::BlockPairs pairs = cuda::block_pairs(tiles, queries, least);
      const std::int64_t each = pairs.block_tiles;
      ASSERT_EQ(each * cuda::tile_rows % queries, 0);
      const auto all = static_cast<std::size_t>(tiles);
      std::vector<int> met(all * all);
      for (std::int64_t visit = 0; visit < pairs.runs(); ++visit)
        for (std::int64_t block = 0; block < pairs.blocks(); ++block) {
          const cuda::BlockPairs::Span span = pairs.span(block, visit);
          ASSERT_GE(span.tiles, 0);
          for (std::int64_t i = 0; i < span.tiles; ++i)
            for (std::int64_t own = each * block; own < std::min(tiles, each * (block + 1)); ++own) {
              const std::int64_t other = (span.tile + i) % tiles;
              ++met[static_cast<std::size_t>(own * tiles + other)];
              if (other / each != block) ++met[static_cast<std::size_t>(other * tiles + own)];
            }
        }
      for (const int times : met) ASSERT_EQ(times, 1);
    }
}

constexpr std::int64_t many = 2700;         // rows: 22 tiles, the last of them and the last block short
constexpr double mostly = 3, never = -100;  // rows besides: how often guesses are right
cuda::SpeculationRule symmetric_rule(double besides = mostly) {
  return {.least_k = 1,
          .any_k_queries = 0,
          .least_k_of_long_rows = 1,
          .deviations = 0,
          .rows_besides = besides,
          .least_k_of_many = 1,
          .least_runs = 2,
          .most_passed = 1e9};
}

/// The lists of all rows among themselves, with equal bits. self: a row is a neighbour of its own.
Answer graph(const Points& rows, Ask ask, bool self = false) {
  ask.graph = !self;
  ask.symmetric = ask.wgmma = true;
  const Answer got = by_device(rows, rows, ask);
  EXPECT_GT(got.launches.symmetric, 0);
  EXPECT_LE(got.used_bytes, got.planned_bytes);
  GraphOptions options{.search = ask.options, .include_self = self};
  options.search.run.device = "cpu";
  expect_same(got.result, knn_graph(rows, options));
  return got;
}

TEST(CudaSymmetric, GraphsOfBothWidthsAndEveryMetricOfSquares) {
  for (const std::int64_t dims : {40, 100})
    for (const Metric metric : {Metric::euclidean, Metric::sqeuclidean, Metric::cosine, Metric::correlation}) {
      if (sampled() && (dims == 40) != (metric == Metric::sqeuclidean || metric == Metric::cosine)) continue;
      SCOPED_TRACE(std::string(metric_info(metric).name) + ", " + std::to_string(dims) + " columns");
      const std::vector<float> rows = gaussian(1, many * dims, 1);
      const Answer got = graph(view(rows, dims),
                               {.options = {.k = 4, .metric = metric}, .slots = 200, .speculation = symmetric_rule()},
                               metric == Metric::cosine);
      EXPECT_EQ(got.launches.reestimated, 1);
      EXPECT_LT(got.launches.gathered, 30);
      EXPECT_EQ(got.redone, 0);
    }
}

TEST(CudaSymmetric, GraphsOfLongRows) {
  for (const std::int64_t dims : {140, 300, 520}) {
    if (sampled() && dims != 300) continue;
    SCOPED_TRACE(dims);
    const std::vector<float> rows = gaussian(2, many * dims, 1);
    const Answer got = graph(view(rows, dims), {.options = {.k = 4}, .slots = 200, .speculation = symmetric_rule()});
    EXPECT_GT(got.launches.two_bytes, 0);
    EXPECT_LT(got.launches.gathered, 30);
  }
}

// Products of inner products are of queries with a scale of their own: tiles serve one side.
TEST(CudaSymmetric, InnerProductsServeOneSide) {
  const std::int64_t dims = 20;
  const std::vector<float> rows = gaussian(3, many * dims, 1);
  Ask ask{.options = {.k = 4, .metric = Metric::inner_product}, .slots = 200, .graph = true, .wgmma = true};
  ask.speculation = symmetric_rule();
  ask.symmetric = true;
  const Answer got = by_device(view(rows, dims), view(rows, dims), ask);
  EXPECT_EQ(got.launches.symmetric, 0);
  GraphOptions options{.search = ask.options};
  options.search.run.device = "cpu";
  expect_same(got.result, knn_graph(view(rows, dims), options));
}

// Rows that may not answer are no part of a group: tiles serve one side, whatever the plan says.
TEST(CudaSymmetric, EligibleRowsServeOneSide) {
  const std::int64_t dims = 16;
  const std::vector<float> rows = gaussian(12, many * dims, 1);
  std::vector<std::uint64_t> bitmap((many + 63) / 64, 0x0123456789abcdefu);
  for (const int kind : {0, 1, 2}) {
    Ask ask{.options = {.k = 4}, .slots = 200, .graph = true, .wgmma = true};
    if (kind == 0) ask.options.eligible.first = 1;
    if (kind == 1) ask.options.eligible.last = many - 2;
    if (kind == 2) ask.options.eligible.bitmap = bitmap;
    ask.speculation = symmetric_rule();
    ask.symmetric = true;
    const Answer got = by_device(view(rows, dims), view(rows, dims), ask);
    EXPECT_EQ(got.launches.symmetric, 0);
    GraphOptions options{.search = ask.options};
    options.search.run.device = "cpu";
    expect_same(got.result, knn_graph(view(rows, dims), options));
    EXPECT_TRUE(RowFilter::filters(ask.options.eligible, many, 0));
  }
  EXPECT_FALSE(RowFilter::filters({}, many, 0));
  Eligible range;
  range.first = 7;
  range.last = 6 + many;
  EXPECT_FALSE(RowFilter::filters(range, many, 7));
  range.last = 5 + many;
  EXPECT_TRUE(RowFilter::filters(range, many, 7));
}

// Of bytes that stay whole, in runs that are taken together whatever their sizes are.
TEST(CudaSymmetric, BytesInRunsTakenTogether) {
  const std::int64_t dims = 24, rows = sampled() ? 8300 : 16500;  // two runs of 4,096 rows and more
  std::mt19937 random(4);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * dims));
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  const Points points(bytes.data(), DType::u8, rows, dims);
  const Answer got = graph(points, {.options = {.k = 4}, .slots = 300, .speculation = symmetric_rule()});
  EXPECT_EQ(got.redone, 0);
}

// Lengths and steps of all sizes, a cluster, isolated rows, rows that are equal and rows that no filter has.
std::vector<float> rows_of_all_kinds(std::int64_t dims) {
  std::vector<float> rows = gaussian(5, many * dims, 1);
  const auto row = [&](std::int64_t i) { return std::span(rows).subspan(static_cast<std::size_t>(i * dims), dims); };
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < 900; ++i)
    for (const double size = std::exp(1.5 * normal(random)); float& value : row(i))
      value = static_cast<float>(value * size);
  for (std::int64_t i = 900; i < 1500; ++i)
    for (float& value : row(i)) value = static_cast<float>(2 + value * 1e-3);
  for (std::int64_t i = 1500; i < 1800; ++i) std::ranges::copy(row(1500), row(i).begin());
  for (std::int64_t i = 1800; i < 1820; ++i)
    for (float& value : row(i)) value *= 1e4F;
  for (float& value : row(1820)) value *= 1e30F;
  for (float& value : row(1821)) value *= 1e-30F;
  return rows;
}

TEST(CudaSymmetric, RowsOfAllKinds) {
  const std::int64_t dims = 30;
  std::vector<float> rows = rows_of_all_kinds(dims);
  for (const bool self : {false, true}) {
    if (sampled() && self) continue;
    graph(view(rows, dims), {.options = {.k = 6}, .slots = 200, .speculation = symmetric_rule()}, self);
  }
  if (sampled()) return;
  // Rows without a direction, which are at a distance of 1 from all others.
  for (const std::int64_t zero : {7, 2000})
    std::ranges::fill(std::span(rows).subspan(static_cast<std::size_t>(zero * dims), dims), 0.0F);
  graph(view(rows, dims), {.options = {.k = 6, .metric = Metric::cosine, .degenerate = Degenerate::one},
                           .slots = 200,
                           .speculation = symmetric_rule()});
}

// Where a first part lets more pass than it should, tiles serve one side after all, from the beginning.
TEST(CudaSymmetric, WhereMuchPassesTilesServeOneSide) {
  const std::int64_t dims = 30;
  const std::vector<float> rows = rows_of_all_kinds(dims);
  Ask ask{.options = {.k = 6}, .slots = 200, .speculation = symmetric_rule()};
  ask.speculation.most_passed = 0;
  const Answer one = graph(view(rows, dims), ask);
  EXPECT_EQ(one.launches.symmetric, 1);  // of two parts
  EXPECT_GE(one.launches.reestimated, 1);
  if (sampled()) return;
  ask.speculation.most_passed = 1e9;
  const Answer both = graph(view(rows, dims), ask);
  EXPECT_EQ(both.launches.symmetric, 2);
  EXPECT_LE(one.launches.gathered, both.launches.gathered + many / 20);
}

TEST(CudaSymmetric, MissedQueriesSeeAllRowsAgain) {
  const std::int64_t dims = 16;
  const std::vector<float> rows = gaussian(8, many * dims, 1);
  Ask ask{.options = {.k = 4}, .slots = 200, .speculation = symmetric_rule(never)};
  const Answer got = graph(view(rows, dims), ask);  // by the nearest row of a sample
  EXPECT_GT(got.launches.gathered, many / 2);
  // What is not verified is not the answer: lists are short, as of rows at no finite distance.
  ask.unchecked = ask.graph = ask.symmetric = ask.wgmma = true;
  EXPECT_THROW(by_device(view(rows, dims), view(rows, dims), ask), Error);
}

// A query for which more rows would pass than may keeps their number as its count, and no slot of it is filled. The query that has its position when rows and queries
// are in one order begins with none.
TEST(CudaSymmetric, WhoComesToThePositionOfACrowdedQueryBeginsAnew) {
  const std::int64_t dims = 12, crowded = 250;
  std::vector<float> rows = gaussian(9, many * dims, 1);
  for (std::int64_t i = 0; i < crowded; ++i)  // farther away, so that more rows look alike
    for (std::int64_t j = 0; j < dims; ++j)
      rows[static_cast<std::size_t>((i * 10 + 1) * dims + j)] *= std::exp(static_cast<float>(i) / 60);
  Ask ask{.options = {.k = 4}, .slots = 255, .speculation = symmetric_rule()};
  ask.speculation.most_passing = 0.11;
  const Answer got = graph(view(rows, dims), ask);
  EXPECT_GT(got.launches.gathered, 10);
  EXPECT_LE(got.launches.gathered, crowded);
}

// Seeds draw the kinds of rows and the rule by which thresholds are guessed: guesses that are too small or too large, few slots, queries that are
// crowded, first parts that let too much pass. VICINAL_TEST_SEED is the first seed.
TEST(CudaSymmetric, AnyRuleHasTheBitsOfTheCpu) {
  const char* const first = std::getenv("VICINAL_TEST_SEED");
  const auto begin = static_cast<unsigned>(first == nullptr ? 0 : std::atoi(first));
  std::int64_t symmetric = 0;
  for (unsigned seed = begin; seed < begin + (sampled() ? 3u : 60u) && !HasFatalFailure(); ++seed) {
    std::mt19937 random(seed);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[random() % sizeof...(values)];
    };
    const std::int64_t count = one_of(many, 2049, 1800, 2304), dims = one_of(12, 8, 40, 64, 100, 130);
    std::vector<float> rows = gaussian(seed, count * dims, one_of(0.0, 0.0, 3.0));
    const unsigned share = one_of(0u, 5u, 20u, 50u);  // per cent that are not plain
    const float tight = one_of(1e-1F, 1e-2F, 1e-4F, 0.0F), far = one_of(2.0F, 10.0F, 200.0F);
    for (std::int64_t i = 0; i < count; ++i) {
      if (random() % 100 >= share) continue;
      const bool clustered = random() % 2 == 0;
      const std::int64_t centre = static_cast<std::int64_t>(random() % 4) * dims;
      for (std::int64_t j = 0; j < dims; ++j) {
        float& value = rows[static_cast<std::size_t>(i * dims + j)];
        value = clustered ? rows[static_cast<std::size_t>(centre + j)] + tight * value : far * value;
      }
    }
    Ask ask{.options = {.k = one_of(4, 1, 8, 12), .metric = one_of(Metric::euclidean, Metric::sqeuclidean)},
            .slots = one_of(255, 100, 40)};
    ask.speculation = symmetric_rule(one_of(3.0, 1.0, 0.0, -2.0));
    ask.speculation.most_passing = one_of(3.0, 0.3, 0.15, 0.11, 0.09, 0.07);
    ask.speculation.most_passed = one_of(1e9, 1e9, 0.25, 0.05, 0.0);
    ask.multiprocessors = one_of(3, 1, 7);
    ask.graph = random() % 3 != 0;
    ask.symmetric = ask.wgmma = true;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << count << " x " << dims << ", " << share
                                    << " % others, k " << ask.options.k);
    const Answer got = by_device(view(rows, dims), view(rows, dims), ask);
    symmetric += got.launches.symmetric;
    EXPECT_LE(got.used_bytes, got.planned_bytes);
    GraphOptions options{.search = ask.options, .include_self = !ask.graph};
    options.search.run.device = "cpu";
    expect_same(got.result, knn_graph(view(rows, dims), options));
  }
  EXPECT_GT(symmetric, 0);
}

// Whatever ranks a row twice, no answer has it: its k-th would be too near.
TEST(CudaSymmetric, ListsThatNameARowTwiceAreNoAnswer) {
  const std::int64_t dims = 16;
  const std::vector<float> rows = gaussian(10, 300 * dims, 1);
  Ask ask{.options = {.k = 4}};
  ask.repeats = true;
  EXPECT_THROW(by_device(view(rows, dims), view(rows, dims), ask), Error);
}

// Where a warp's segment has no room for a group, its rows have lost the query as well as the query its rows.
TEST(CudaSymmetric, GroupsThatFindNoRoomAreLostForBothSides) {
  for (const auto& [width, queries] : {std::pair{64, 256}, {128, 256}, {256, 260}})
    for (const bool symmetric : {false, true})
      for (const std::uint32_t room : {0u, 5u, 40u, 1u << 14}) {
        SCOPED_TRACE(std::to_string(width) + " columns, room for " + std::to_string(room));
        Device device;
        cuda::FilterTest test(width, queries, cuda::Int8Wgmma::facts, 4, symmetric);
        test.set_room(room);
        test.run(device);
        EXPECT_TRUE(test.by_groups());
        if (room == 1u << 14) EXPECT_EQ(test.lost(), 0);
        else EXPECT_GT(test.lost(), 100);
      }
}

}  // namespace
