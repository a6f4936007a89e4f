// The box of some points, for orders of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/isa/vector_macros.hpp"
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

template <int dims, class PointAt>
Box box_of_columns(std::int64_t begin, std::int64_t end, const PointAt& point_at) {
  const Box empty;
  double low[dims], high[dims];  // of a number of columns that is known, so that they stay in registers
  std::copy_n(empty.low, dims, low);
  std::copy_n(empty.high, dims, high);
  for (std::int64_t i = begin; i < end; ++i) {
    const double* point = point_at(i);
    VICINAL_UNROLL
    for (int j = 0; j < dims; ++j) {
      low[j] = std::min(low[j], point[j]);
      high[j] = std::max(high[j], point[j]);
    }
  }
  Box box;
  box.take(low, high, dims);
  return box;
}
/// The box of the points [begin, end) of at most most_kd_tree_dims columns.
template <class PointAt>
Box box_of(std::int64_t begin, std::int64_t end, std::int64_t dims, const PointAt& point_at) {
  switch (dims) {
    case 1: return box_of_columns<1>(begin, end, point_at);
    case 2: return box_of_columns<2>(begin, end, point_at);
    case 3: return box_of_columns<3>(begin, end, point_at);
    case 4: return box_of_columns<4>(begin, end, point_at);
    case 5: return box_of_columns<5>(begin, end, point_at);
    case 6: return box_of_columns<6>(begin, end, point_at);
    case 7: return box_of_columns<7>(begin, end, point_at);
    default: return box_of_columns<8>(begin, end, point_at);
  }
}
static_assert(most_kd_tree_dims == 8);

}  // namespace vicinal::cpu
