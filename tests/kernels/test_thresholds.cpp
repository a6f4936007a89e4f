// Initial thresholds against the bounds of all groups of a sample: at least as many groups as are wanted are within a threshold, which is what it rests on.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/search/filter/initial_thresholds.cuh"
#include "kernels/emulated.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::int64_t dims = 24, queries = 70;

/// A sample of `sampled` of `tiles` tiles, of sums that sum(query, group) makes.
struct Sample {
  std::vector<TileMetadata> rows, of_queries;
  std::vector<QuantizedQuery> quantized;
  std::vector<QueryState> states;
  std::vector<int> nearest;
  InitialThresholds task;

  template <class MakeSum>
  Sample(Metric metric, std::int64_t tiles, std::int64_t sampled, std::uint32_t want, const MakeSum& make)
      : rows(static_cast<std::size_t>(tiles)), of_queries(1), quantized(queries),
        states(queries), task{.args = {.rows = {},
                                       .queries = {},
                                       .model = int8_model(metric, DistanceType::f32, dims, 1.0)},
                              .nearest = nullptr,
                              .groups = sampled * groups_a_tile,
                              .want = want} {
    std::mt19937 rng(static_cast<unsigned>(tiles + sampled + want));
    std::uniform_real_distribution<float> real(0.5F, 1.0F);
    for (TileMetadata& tile : rows) {
      tile.step = 0.01F * real(rng);
      tile.inverse = 1 / static_cast<double>(tile.step);
      tile.e = 0.02F * real(rng);
      tile.n = 5 * real(rng);
      tile.maxima = {static_cast<double>(tile.e), static_cast<double>(tile.n)};
    }
    of_queries[0].step = 0.008F;
    for (QuantizedQuery& query : quantized) {
      query.norms = {0.015 * static_cast<double>(real(rng)), 5.0};
      query.square = 20 + static_cast<double>(real(rng));
    }
    for (std::int64_t i = 0; i < queries * task.groups; ++i)
      nearest.push_back(make(i / task.groups, i % task.groups, rng));
    task.nearest = nearest.data();
    SearchArgs& args = task.args;
    args.rows.tile_metadata = rows.data();
    args.rows.count = tiles * tile_rows;
    args.queries.tile_metadata = of_queries.data();
    args.queries.quantized = quantized.data();
    args.queries.count = queries;
    args.states = states.data();
    args.visits = {.count = tiles, .step = tiles == 1 ? 1 : tiles / 2 + 1};
    while (std::gcd(args.visits.step, tiles) != 1) ++args.visits.step;
  }
  double bound(std::int64_t query, std::int64_t group) const {
    return bound_of_group(task.args, quantized[static_cast<std::size_t>(query)], of_queries[0].step,
                          rows[static_cast<std::size_t>(task.args.visits.at(group / groups_a_tile))],
                          nearest[static_cast<std::size_t>(query * task.groups + group)]);
  }
  /// The key that the want-th smallest bound says, or infinity.
  double least(std::int64_t query) const {
    std::vector<double> bounds;
    for (std::int64_t group = 0; group < task.groups; ++group) bounds.push_back(bound(query, group));
    std::sort(bounds.begin(), bounds.end());
    const double upper = bounds[task.want - 1];
    return upper < infinite ? value_of_upper(task.args.model, upper, quantized[static_cast<std::size_t>(query)].scale)
                            : infinite;
  }
  void run() {
    ASSERT_TRUE(thresholds_by_warp(task));
    ::emulated::Launch launch;
    launch(3, initial_threads, 0, initial_thresholds_by_warp, task);
  }
};

template <class MakeSum>
void check(Metric metric, std::int64_t tiles, std::int64_t sampled, std::uint32_t want, const MakeSum& make,
           double loose) {
  Sample sample(metric, tiles, sampled, want, make);
  sample.run();
  for (std::int64_t query = 0; query < queries; ++query) {
    const double least = sample.least(query), is = sample.states[static_cast<std::size_t>(query)].threshold_key;
    ASSERT_GE(is, least) << "query " << query;  // fewer groups than are wanted would be within it
    if (loose > 0 && least < infinite) ASSERT_LE(is, least + loose * std::abs(least)) << "query " << query;
  }
}

int spread(std::int64_t, std::int64_t, std::mt19937& rng) { return -150000 + static_cast<int>(rng() % 100000); }

TEST(Thresholds, AreBoundsOfEnoughGroups) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (const std::int64_t sampled : {256, 300, 700})
      for (const std::uint32_t want : {1u, 11u, 32u}) {
        SCOPED_TRACE(sampled);
        check(metric, 2000, sampled, want, spread, 0.2);
      }
}

TEST(Thresholds, OfGroupsThatBoundNothing) {
  // Sums beyond either end, beside ten that bound: more are wanted than there are, or just as many.
  const auto ends = [](std::int64_t, std::int64_t group, std::mt19937& rng) {
    return group % 205 == 7 ? -120000 - static_cast<int>(rng() % 1000) : rng() % 2 == 0 ? 1 << 29 : -(1 << 29);
  };
  check(Metric::euclidean, 256, 256, 10, ends, 0.05);
  check(Metric::euclidean, 256, 256, 11, ends, 0);
  check(
      Metric::euclidean, 256, 256, 4, [](auto, auto, auto&) { return -(1 << 29); }, 0);
}

TEST(Thresholds, OfEqualSums) {
  check(
      Metric::sqeuclidean, 512, 512, 16, [](auto, auto, auto&) { return -123456; }, 1);
}

}  // namespace
}  // namespace vicinal::cuda
