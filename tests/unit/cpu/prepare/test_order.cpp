// The order of rows and queries by their sizes, and arrays that are brought into it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stop_token>
#include <vector>

#include "cpu/prepare/order.hpp"
#include "vicinal/error.hpp"

namespace {

using namespace vicinal;
using namespace vicinal::cpu;

std::vector<std::int64_t> order_of(const std::vector<float>& sizes) {
  ThreadPool thread_pool(1, {}, {}, 0);
  std::vector<std::int64_t> order(sizes.size());
  order_by_size(sizes.data(), std::ssize(sizes), thread_pool, order.data());
  return order;
}

TEST(Order, AscendsAndKeepsEqualsInTheirOrder) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(order_of({}), std::vector<std::int64_t>{});
  EXPECT_EQ(order_of({2, 0, infinity, 2, 1e-30F, 0, 1}), (std::vector<std::int64_t>{1, 5, 4, 6, 0, 3, 2}));
  std::mt19937 random(7);
  std::lognormal_distribution<float> size;
  std::vector<float> sizes(70000);
  for (float& one : sizes) one = size(random);
  const std::vector<std::int64_t> order = order_of(sizes);
  for (std::size_t i = 1; i < order.size(); ++i)
    ASSERT_LE(sizes[static_cast<std::size_t>(order[i - 1])], sizes[static_cast<std::size_t>(order[i])] * (1 + 0x1p-7F));
}

TEST(Order, ArraysComeIntoItInPlace) {
  ThreadPool thread_pool(1, {}, {}, 0);
  std::mt19937 random(8);
  for (const int count : {0, 1, 2, 3, 17, 70000}) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::int64_t> values = order;
    bring_into_order(values, order, thread_pool);  // nothing moves
    EXPECT_EQ(values, order);
    std::shuffle(order.begin(), order.end(), random);
    bring_into_order(values, order, thread_pool);
    EXPECT_EQ(values, order) << count;
  }
}

TEST(Order, ACancelledCallEndsInIt) {
  std::stop_source stop;
  ThreadPool thread_pool(1, {}, stop.get_token(), 0);
  std::vector<std::int64_t> order{1, 0}, values = order;
  stop.request_stop();
  const float sizes[] = {2, 1};
  EXPECT_THROW(order_by_size(sizes, 2, thread_pool, order.data()), Error);
  EXPECT_THROW(bring_into_order(values, order, thread_pool), Error);
}

}  // namespace
