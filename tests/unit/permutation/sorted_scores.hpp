// What a top-c partition must choose, by sorting everything.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

/// Numbers of the first `wanted` objects by (score, number), in that order.
inline std::vector<std::uint32_t> first_by_score(const std::vector<std::uint32_t>& scores, std::int64_t wanted) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] < scores[b]; });
  order.resize(static_cast<std::size_t>(wanted));
  return order;
}
