// What the kernels of the permutation index are given: ranks of objects and queries, and memory for what they count and
// find. It is plain data, for both sides of a launch; every pointer is to memory that the kernels reach.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/divide.hpp"

namespace vicinal::cuda {

inline constexpr int rank_threads = 256;
inline constexpr int strip_objects = 256;       // that a warp looks at, 32 at a time, in order
inline constexpr int rank_queries_at_once = 8;  // of a block
inline constexpr int most_rank_words = 32;      // four ranks a word: 128 permutants

/// Four words, so that they are loaded at once.
struct alignas(16) RankWords {
  std::uint32_t of[4];
};
/// Words that kernels have: ranks are padded to one of these with zeros.
inline int padded_rank_words(std::int64_t permutants) noexcept {
  int words = 4;
  while (words * 4 < permutants) words *= 2;
  return words;
}

inline std::int64_t strips_of(std::int64_t count) noexcept { return divide_up(count, strip_objects); }

struct RanksArgs {
  // [word][pitch]: ranks 4 w to 4 w + 3 of each object, so that lanes read side by side.
  const std::uint32_t* objects = nullptr;
  std::int64_t pitch = 0, count = 0;
  const std::uint32_t* queries = nullptr;  // [query][words], aligned to 16 bytes
  std::int64_t query_count = 0;
  int words = 0;                         // padded_rank_words
  std::int64_t candidates = 0;           // 1 to count
  std::uint32_t bins = 0;                // footrules are even: half of the largest, and one
  std::uint32_t* histogram = nullptr;    // [query][bins], zeros at first
  std::uint32_t* last = nullptr;         // [query] half the score of the last candidate
  std::uint32_t* equal_taken = nullptr;  // [query] how many of that score are candidates
  std::uint32_t* below = nullptr;        // [query][strip] objects under that score, then: in the strips before
  std::uint32_t* equal = nullptr;        // [query][strip] the same of objects at it
  std::uint32_t* found = nullptr;        // [query][candidates]; those of footrule_emit ascend
  std::int64_t strips = 0;               // strips_of(count)
  // sampled.cuh alone:
  std::int64_t capacity = 0;           // of each list
  std::uint32_t* counts = nullptr;     // [query] of its list, and beyond its capacity; zeros at first
  unsigned long long* list = nullptr;  // [query][capacity]: half the score << 32 | number
  std::uint32_t* failed = nullptr;     // [query] its candidates were not found
};

}  // namespace vicinal::cuda
