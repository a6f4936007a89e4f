// The first c objects by (score, number), out of scores that are small integers: counted, not sorted. Two or three passes over
// the scores whatever c is; cut_by_sorting is the way of the papers, which sort everything, and gives the same.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace vicinal {

class Cut {
 public:
  /// Numbers of the first `wanted` (1 to count) in ascending order of number, to `out`. largest: no score is above it.
  void by_counting(const std::uint32_t* scores, std::int64_t count, std::uint32_t largest, std::int64_t wanted,
                   std::uint32_t* out) {
    const Last last = last_of(scores, count, largest, wanted);
    std::int64_t equal = last.equal, found = 0;
    for (std::int64_t i = 0; found < wanted; ++i) {
      const bool same = scores[i] == last.score, taken = scores[i] < last.score || (same && equal > 0);
      equal -= static_cast<std::int64_t>(same);
      out[found] = static_cast<std::uint32_t>(i);
      found += static_cast<std::int64_t>(taken);
    }
  }

  /// The same in order of (score, number).
  static std::vector<std::uint32_t> by_sorting(const std::uint32_t* scores, std::int64_t count, std::int64_t wanted) {
    std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
    });
    order.resize(static_cast<std::size_t>(wanted));
    return order;
  }

 private:
  /// Everything below `score` is taken, and the first `equal` of those that have it.
  struct Last {
    std::uint32_t score;
    std::int64_t equal;
  };

  /// Some bits of the score at a time, from the highest.
  Last last_of(const std::uint32_t* scores, std::int64_t count, std::uint32_t largest, std::int64_t wanted) {
    constexpr int bits_at_once = 12;
    std::uint64_t above = 0;  // bits of the wanted score that are known
    int unknown = static_cast<int>(std::bit_width(largest));
    const int all = unknown;
    while (unknown > 0) {
      const int shift = std::max(0, unknown - bits_at_once);
      const std::uint64_t mask = (std::uint64_t{1} << (unknown - shift)) - 1;
      counts_.assign(mask + 1, 0);
      if (unknown == all) {
        for (std::int64_t i = 0; i < count; ++i) ++counts_[scores[i] >> shift];
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          if (std::uint64_t{scores[i]} >> unknown == above) ++counts_[scores[i] >> shift & mask];
      }
      std::uint64_t bin = 0;
      while (wanted > counts_[bin]) wanted -= counts_[bin++];
      above = above << (unknown - shift) | bin;
      unknown = shift;
    }
    return {static_cast<std::uint32_t>(above), wanted};
  }

  std::vector<std::int64_t> counts_;
};

}  // namespace vicinal
