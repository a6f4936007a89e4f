// The top-c partition: the first c objects by (score, number), out of scores that are small integers: counted, not
// sorted, as the papers do. Two or three passes over the scores whatever c is, by one thread or by those of a thread
// pool.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"

namespace vicinal {

/// Partitions objects by their scores: the first c by (score, number), and the others.
class TopCPartition {
 public:
  /// Numbers of the first `wanted` (1 to count) in ascending order of number, to `out`. largest: no score is above it.
  void by_counting(const std::uint32_t* scores, std::int64_t count, std::uint32_t largest, std::int64_t wanted,
                   std::uint32_t* out) {
    const auto alone = [](const auto& body) { body(0); };
    partition(scores, count, 1, largest, wanted, out, alone);
  }
  /// The same by several threads, a part of the scores each.
  void by_counting(const std::uint32_t* scores, std::int64_t count, std::uint32_t largest, std::int64_t wanted,
                   std::uint32_t* out, ThreadPool& thread_pool) {
    const std::int64_t parts = std::clamp<std::int64_t>(count / least_part, 1, thread_pool.threads());
    const auto together = [&](const auto& body) {
      thread_pool.for_each(parts, [&](std::int64_t part, int) { body(static_cast<std::size_t>(part)); });
    };
    partition(scores, count, parts, largest, wanted, out, together);
  }
  /// Memory of the counters.
  static std::int64_t bytes(int parts) noexcept { return parts * (std::int64_t{8} << bits_at_once); }

 private:
  static constexpr int bits_at_once = 12;
  static constexpr std::int64_t least_part = 1 << 14;

  /// Scores [begin, end), and how many of them are below the score of the last candidate and at it, as far as its bits
  /// are known.
  struct Part {
    std::int64_t begin = 0, end = 0, below = 0, equal = 0;
    std::vector<std::int64_t> counts;
  };

  template <class Each>
  void partition(const std::uint32_t* scores, std::int64_t count, std::int64_t parts, std::uint32_t largest,
                 std::int64_t wanted, std::uint32_t* out, const Each& each) {
    parts_.resize(static_cast<std::size_t>(parts));
    for (std::int64_t i = 0; i < parts; ++i) {
      Part& part = parts_[static_cast<std::size_t>(i)];
      part.begin = count * i / parts;
      part.end = count * (i + 1) / parts;
      part.below = 0;
      part.equal = part.end - part.begin;
    }
    std::int64_t equal = wanted;  // of the last score: so many are taken
    const std::uint32_t last = last_score(scores, largest, equal, each);
    each([&](std::size_t number) {
      std::int64_t position = 0, equal_before = 0;
      for (std::size_t i = 0; i < number; ++i) {
        position += parts_[i].below;
        equal_before += parts_[i].equal;
      }
      position += std::min(equal, equal_before);
      const Part& part = parts_[number];
      std::int64_t left = std::max<std::int64_t>(0, equal - equal_before);
      const std::int64_t end = position + part.below + std::min(left, part.equal);
      for (std::int64_t i = part.begin; position < end; ++i) {
        const bool same = scores[i] == last, taken = scores[i] < last || (same && left > 0);
        left -= static_cast<std::int64_t>(same);
        out[position] = static_cast<std::uint32_t>(i);
        position += static_cast<std::int64_t>(taken);
      }
    });
  }

  /// Some bits of the score at a time, from the highest. wanted becomes how many of those that have it are.
  template <class Each>
  std::uint32_t last_score(const std::uint32_t* scores, std::uint32_t largest, std::int64_t& wanted, const Each& each) {
    std::uint64_t above = 0;  // bits of the wanted score that are known
    int unknown = static_cast<int>(std::bit_width(largest));
    const int all = unknown;
    while (unknown > 0) {
      const int shift = std::max(0, unknown - bits_at_once);
      const std::uint64_t mask = (std::uint64_t{1} << (unknown - shift)) - 1;
      each([&](std::size_t number) {
        Part& part = parts_[number];
        part.counts.assign(mask + 1, 0);
        if (unknown == all) {
          for (std::int64_t i = part.begin; i < part.end; ++i) ++part.counts[scores[i] >> shift];
        } else {
          for (std::int64_t i = part.begin; i < part.end; ++i)
            if (std::uint64_t{scores[i]} >> unknown == above) ++part.counts[scores[i] >> shift & mask];
        }
      });
      std::uint64_t bin = 0;
      for (;; ++bin) {
        std::int64_t here = 0;
        for (const Part& part : parts_) here += part.counts[bin];
        if (wanted <= here) break;
        wanted -= here;
        for (Part& part : parts_) part.below += part.counts[bin];
      }
      for (Part& part : parts_) part.equal = part.counts[bin];
      above = above << (unknown - shift) | bin;
      unknown = shift;
    }
    return static_cast<std::uint32_t>(above);
  }

  std::vector<Part> parts_;
};

}  // namespace vicinal
