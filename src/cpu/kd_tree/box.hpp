// The box of some points, for orders of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/kd_tree/kd_tree.hpp"

namespace vicinal::cpu {

inline constexpr std::int64_t block_rows = 8192;  // a thread's piece of what all threads order

/// The least and the greatest of each column.
struct Box {
  double low[most_kd_tree_dims], high[most_kd_tree_dims];
  Box() {
    std::fill_n(low, most_kd_tree_dims, std::numeric_limits<double>::infinity());
    std::fill_n(high, most_kd_tree_dims, -std::numeric_limits<double>::infinity());
  }
  void take(const double* least, const double* greatest, std::int64_t dims) noexcept {
    for (std::int64_t j = 0; j < dims; ++j) {
      low[j] = std::min(low[j], least[j]);
      high[j] = std::max(high[j], greatest[j]);
    }
  }
  std::int64_t widest(std::int64_t dims) const noexcept {
    std::int64_t widest = 0;
    for (std::int64_t j = 1; j < dims; ++j)
      if (high[j] - low[j] > high[widest] - low[widest]) widest = j;
    return widest;
  }
};

}  // namespace vicinal::cpu
