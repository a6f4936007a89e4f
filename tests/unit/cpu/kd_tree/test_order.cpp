// The orders of rows in a k-d tree and of its queries: permutations, the same whatever number of threads make them, in which neighbours come together.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cpu/kd_tree/kd_tree.hpp"

namespace vicinal::cpu {
namespace {

std::vector<std::uint32_t> order_by(int threads, const std::vector<double>& points, std::int64_t dims) {
  ThreadPool thread_pool(threads, nullptr, {}, 0);
  std::vector<std::uint32_t> order(points.size() / static_cast<std::size_t>(dims));
  kd_tree_order(points.data(), static_cast<std::int64_t>(order.size()), dims, thread_pool, order.data());
  for (std::size_t begin = 0; begin < order.size(); begin += 32)  // within a leaf any order will do
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(begin),
              order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 32, order.size())));
  return order;
}

TEST(KdTreeOrder, RunsHoldTheSameRowsForAnyNumberOfThreads) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const std::pair<const char*, double (*)(double)> kinds[] = {
      {"spread", [](double x) { return x; }},
      {"a few values", [](double x) { return std::floor(x); }},
      {"all equal", [](double) { return 3.0; }},
      {"far outliers", [](double x) { return x > 2.5 ? 1e300 * x : x; }}};
  for (const std::int64_t dims : {1, 3, 8})
    for (const std::int64_t rows : {1, 31, 33, 5000, 70'001, 150'000})
      for (const auto& [name, kind] : kinds) {
        if (rows > 100'000 && dims != 3) continue;
        std::vector<double> points(static_cast<std::size_t>(rows * dims));
        for (double& x : points) x = kind(normal(random));
        const std::vector<std::uint32_t> want = order_by(1, points, dims);
        std::vector<std::uint32_t> sorted = want;
        std::sort(sorted.begin(), sorted.end());
        for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i) << "no permutation";
        for (const int threads : {2, 7})
          EXPECT_TRUE(order_by(threads, points, dims) == want)
              << rows << " x " << dims << ", " << name << ", " << threads << " threads";
      }
}

TEST(KdTreeOrder, CellsAreInTheSameOrderForAnyNumberOfThreads) {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  const std::pair<const char*, double (*)(double)> kinds[] = {
      {"spread", [](double x) { return x; }},
      {"all equal", [](double) { return 3.0; }},
      {"far outliers", [](double x) { return x > 2.5 ? 1e300 * x : x; }},
      {"beyond fp64", [](double x) { return x > 0 ? 1.7e308 : -1.7e308; }}};
  for (const std::int64_t dims : {1, 2, 3})
    for (const std::int64_t rows : {0, 1, 32, 33, 8192, 8193, 50'000})
      for (const auto& [name, kind] : kinds) {
        std::vector<double> points(static_cast<std::size_t>(rows * dims));
        for (double& x : points) x = kind(normal(random));
        std::vector<std::uint32_t> want;
        for (const int threads : {1, 2, 7}) {
          ThreadPool thread_pool(threads, nullptr, {}, 0);
          std::vector<std::uint32_t> order(static_cast<std::size_t>(rows), 7);
          cell_order(points.data(), rows, dims, thread_pool, order.data());
          if (threads == 1) want = order;
          EXPECT_TRUE(order == want) << rows << " x " << dims << ", " << name << ", " << threads << " threads";
        }
        std::sort(want.begin(), want.end());
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(want[i], i) << "no permutation";
      }
}

TEST(KdTreeOrder, CellsOfOneColumnAscendAndOfThreeKeepNeighboursTogether) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> uniform;
  ThreadPool thread_pool(2, nullptr, {}, 0);
  constexpr std::int64_t rows = 20'000;
  for (const std::int64_t dims : {1, 3}) {
    std::vector<double> points(static_cast<std::size_t>(rows * dims));
    for (double& x : points) x = uniform(random);
    std::vector<std::uint32_t> order(rows);
    cell_order(points.data(), rows, dims, thread_pool, order.data());
    double steps = 0;  // from each to the next, in each column
    for (std::size_t i = 1; i < order.size(); ++i)
      for (std::int64_t j = 0; j < dims; ++j) {
        const auto at = [&](std::size_t k) { return points[static_cast<std::size_t>(order[k] * dims + j)]; };
        if (dims == 1) {
          ASSERT_LE(at(i - 1), at(i) + 1e-6);  // a cell
        }
        steps += std::abs(at(i) - at(i - 1));
      }
    EXPECT_LT(steps / static_cast<double>(rows * dims), dims == 1 ? 1e-4 : 0.04);  // of an order by chance a third
  }
}

}  // namespace
}  // namespace vicinal::cpu
