// The order of rows in a k-d tree: a permutation whose runs hold the same rows whatever number of threads split them.
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

}  // namespace
}  // namespace vicinal::cpu
