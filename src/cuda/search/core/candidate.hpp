// What passes a filter: candidates, one by one or in groups of rows, as they wait to be scattered, and the slots that
// hold them until they are ranked.
#pragma once
#include <cstdint>

#include "core/both.hpp"
#include "cuda/search/core/tiles.hpp"

namespace vicinal::cuda {

/// A slot holds a row that passed the filter: its position, and t, at most the filter's distance of it.
struct Slot {
  std::uint32_t position;
  float t;
};

/// A candidate is a row that passed, with its query, both by
/// position, and the filter's sum, before it is scattered to a slot.
struct alignas(16) Candidate {
  std::uint32_t query, position;
  int sum;
  unsigned product;  // 1: it is a row of a group, and the sum bounds the product alone, without the row's bias
};

/// Low bits of products that candidates of groups go without, of rows of so many bytes: the 16 that are left have the
/// sign, too, and are enough to tell rows apart.
VICINAL_HOST_DEVICE inline constexpr int lost_product_bits(std::int64_t width) {
  return width < 512 ? 8 : width < 1024 ? 9 : 10;
}
static_assert(
    [] {
      for (std::int64_t width = 64; width <= most_grouped_width; width += 64)
        if (width * 128 * 128 >> lost_product_bits(width) >= 1 << 15) return false;  // of bytes that all are -128
      return true;
    }(),
    "16 bits hold what is left of a product");

/// A group of rows, of which some passed, with their query: `position` is the first row's.
struct alignas(16) GroupCandidate {
  std::uint32_t query, position;
  int most, threshold;  // the largest product; rows from the threshold on passed
  // Without their low bits, of rows row_of_group(g, 2 * i) and, in the upper half, (g, 2 * i + 1).
  std::uint32_t products[8];

  VICINAL_HOST_DEVICE int high_bits(int i) const {
    return static_cast<std::int16_t>(products[i / 2] >> (i % 2 * 16) & 0xffff);
  }
  /// A bit for each row of the group that may have passed: all that did, and those that only lost bits tell from them.
  VICINAL_HOST_DEVICE unsigned passed(int lost) const {
    const int least = threshold >> lost;
    unsigned rows = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < group_rows; ++i) rows |= (high_bits(i) >= least ? 1u : 0u) << i;
    return rows;
  }
  /// At least the product of row i, and more by the lost bits at most.
  VICINAL_HOST_DEVICE int product_bound(int i, int lost) const {
    const int bound = (high_bits(i) + 1) * (1 << lost) - 1;
    return bound < most ? bound : most;
  }
  VICINAL_HOST_DEVICE std::uint32_t position_of(int i) const {
    return position + static_cast<std::uint32_t>(row_of_group(0, i));
  }
};

}  // namespace vicinal::cuda
