// A whole matching by the device's code, on the emulator: src/cuda/match/search.hpp with memory of the host, held against the host's,
// pair by pair. Ties within groups and between them, lone rows, several slabs, batches, and images that do not fit together.
#include <gtest/gtest.h>

#include <random>

#include "backend/backend.hpp"
#include "cuda/match/search.hpp"
#include "pipeline/match_output.hpp"
#include "unit/cuda/emulated_device.hpp"

namespace {

using namespace vicinal;
using emulated::Device;

/// Rows around few centres, some of them equal.
std::vector<std::uint8_t> rows(unsigned seed, std::int64_t count, std::int64_t columns, int spread, int divisor) {
  std::mt19937 random(seed), centres(7);
  std::vector<std::uint8_t> around(static_cast<std::size_t>(20 * columns)), made;
  for (auto& x : around) x = static_cast<std::uint8_t>(centres() % 256);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t centre = random() % 20 * static_cast<std::size_t>(columns);
    const bool same = random() % 3 == 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const int moved = around[centre + static_cast<std::size_t>(c)] +
                        (same ? 0 : static_cast<int>(random() % (2 * static_cast<unsigned>(spread) + 1)) - spread);
      made.push_back(static_cast<std::uint8_t>(std::clamp(moved, 0, 255) / divisor));
    }
  }
  return made;
}

struct Ask {
  std::vector<std::int64_t> counts;
  std::int64_t columns = 128;
  int spread = 25, divisor = 1;
  Metric metric = Metric::sqeuclidean;
  MatchRule rule = {.key = MatchKey::square, .max_distance = INFINITY};
  Mutual mutual = Mutual::tested;
  std::int64_t budget = 1 << 30, batch = 1 << 30;
  DType dtype = DType::u8;
};

void check(const Ask& ask) {
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<std::vector<float>> floats;
  std::vector<Points> images;
  for (const std::int64_t count : ask.counts) {
    bytes.push_back(rows(static_cast<unsigned>(bytes.size()) + 1, count, ask.columns, ask.spread, ask.divisor));
    floats.emplace_back(bytes.back().begin(), bytes.back().end());
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    images.emplace_back(ask.dtype == DType::f32 ? static_cast<const void*>(floats[i].data()) : bytes[i].data(),
                        ask.dtype, ask.counts[i], ask.columns);
  const std::vector<ImagePair> pairs = image_pairs("exhaustive", static_cast<std::int64_t>(images.size()));
  const MatchSpec spec{.images = images, .pairs = pairs, .metric = ask.metric, .rule = ask.rule, .mutual = ask.mutual};
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Stats stats;
  MatchOutput want(spec, DistanceType::f64), got(spec, DistanceType::f64);
  const auto into = [](MatchOutput& output) {
    return [&](std::span<const std::int64_t> some, std::span<const std::int64_t> counts) {
      return output.take(some, counts);
    };
  };
  ASSERT_TRUE(cpu_backend().match()->match(spec, into(want), thread_pool, stats));
  const auto matching = byte_matching(spec, true);
  ASSERT_TRUE(matching);
  Device device;
  cuda::MatchSearch<Device>(device, spec, *matching, thread_pool, 3, ask.budget, ask.batch).run(into(got));
  const Matches here = want.finish(1), there = got.finish(1);
  EXPECT_EQ(there.offsets, here.offsets);
  EXPECT_TRUE(there.rows == here.rows);
  EXPECT_TRUE(there.ratios == here.ratios);
  for (std::size_t i = 0; i < std::min(here.distances.size(), there.distances.size()); ++i)
    EXPECT_EQ(there.distances[i], here.distances[i]);
  EXPECT_GT(here.rows.size(), 0u);
  EXPECT_TRUE(device.held.empty());
}

constexpr double infinite = INFINITY;

TEST(CudaMatch, SquaresEveryWay) {
  for (const Mutual mutual : {Mutual::tested, Mutual::nearest, Mutual::one_way})
    check({.counts = {260, 1, 90, 0},
           .rule = {.key = MatchKey::square, .ratio = 0.999, .max_distance = infinite},
           .mutual = mutual});
  check({.counts = {90, 70}, .rule = {.key = MatchKey::square, .has_ratio = false, .max_distance = infinite}});
  check({.counts = {90, 70}, .rule = {.key = MatchKey::square, .strict = false, .ratio = 1, .max_distance = 500}});
}

TEST(CudaMatch, AnglesAndRoots) {
  check({.counts = {200, 150},
         .divisor = 6,  // else all angles are 0
         .metric = Metric::inner_product,
         .rule = {.key = MatchKey::product, .ratio = 0.99999, .max_distance = 3},
         .mutual = Mutual::one_way});
  check({.counts = {200, 150},
         .columns = 20,
         .metric = Metric::inner_product,
         .rule = {.key = MatchKey::product, .has_ratio = false, .max_distance = 3}});
  check({.counts = {200, 150},
         .metric = Metric::euclidean,
         .rule = {.key = MatchKey::distance, .ratio = 0.99, .max_distance = infinite},
         .mutual = Mutual::one_way,
         .dtype = DType::f32});
}

TEST(CudaMatch, Bits) {
  check({.counts = {200, 150},
         .columns = 32,
         .metric = Metric::hamming,
         .rule = {.key = MatchKey::distance, .ratio = 0.95, .max_distance = infinite}});
}

TEST(CudaMatch, SeveralSlabs) {
  for (const std::int64_t columns : {200, 500})
    check({.counts = {150, 140},
           .columns = columns,
           .rule = {.key = MatchKey::square, .ratio = 0.999, .max_distance = infinite},
           .mutual = Mutual::one_way});
}

TEST(CudaMatch, FewColumnsTie) {
  for (const Mutual mutual : {Mutual::tested, Mutual::nearest, Mutual::one_way})
    check({.counts = {270, 260},
           .columns = 2,
           .spread = 2,
           .rule = {.key = MatchKey::square, .has_ratio = false, .max_distance = infinite},
           .mutual = mutual});
}

TEST(CudaMatch, BatchesAndWaves) {
  Ask ask{.counts = {40, 30, 20, 50},
          .columns = 16,
          .rule = {.key = MatchKey::square, .ratio = 0.95, .max_distance = infinite}};
  ask.batch = 1;
  check(ask);
  ask.budget = 2 * 256 * (128 + 4);
  check(ask);
  ask.budget -= 1;
  EXPECT_THROW(check(ask), Error);
}

}  // namespace
