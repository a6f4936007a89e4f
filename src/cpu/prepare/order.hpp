// Rows, or queries, in the order of their sizes, and arrays of what is known of them brought into it.
#pragma once
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/parallel.hpp"

namespace vicinal::cpu {

inline constexpr std::int64_t order_bytes = std::int64_t{1} << 19;  // while they are sorted
inline constexpr std::int64_t ordered_between_polls = 65536;

/// Fills order[count] with numbers by sizes, to 2^-8 of these, and among equals by number: a counting sort.
template <class Number>
void order_by_size(const float* sizes, std::int64_t count, ThreadPool& thread_pool, Number* order) {
  constexpr int key_bits = 16, dropped_bits = 31 - key_bits;
  static_assert(order_bytes >= (std::int64_t{8} << key_bits), "the positions of all keys");
  const auto key = [&](std::int64_t i) {
    return std::bit_cast<std::uint32_t>(sizes[i]) >> dropped_bits & ((1u << key_bits) - 1);
  };
  std::vector<std::int64_t> next((std::size_t{1} << key_bits) + 1);
  const auto each = [&](const auto& body) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % ordered_between_polls == 0) thread_pool.poll(0);
      body(i);
    }
  };
  each([&](std::int64_t i) { ++next[key(i) + 1]; });
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  each([&](std::int64_t i) { order[next[key(i)]++] = static_cast<Number>(i); });
}

/// values[i] becomes what values[order[i]] was, in place, one cycle of the permutation after another.
template <class T>
void bring_into_order(std::vector<T>& values, const std::vector<std::int64_t>& order, ThreadPool& thread_pool) {
  std::vector<bool> there(values.size());
  std::int64_t moved = 0;
  for (std::size_t first = 0; first < values.size(); ++first) {
    if (there[first]) continue;
    T kept = std::move(values[first]);
    for (std::size_t i = first;;) {
      if (moved++ % ordered_between_polls == 0) thread_pool.poll(0);
      there[i] = true;
      const auto from = static_cast<std::size_t>(order[i]);
      if (from == first) {
        values[i] = std::move(kept);
        break;
      }
      values[i] = std::move(values[from]);
      i = from;
    }
  }
}

}  // namespace vicinal::cpu
