// The distances of strings that are counts of edits, or functions of such a count and the two lengths: the canonical
// value, in one rounding of binary64, and its inverse, which turns what a query still wants into a number of edits.
// Host and device.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/key.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// levenshtein, hamming: the count. normalized_levenshtein: 2 edits / (a + b + edits), 0 for two empty strings.
inline double string_value(Metric metric, std::int64_t edits, std::int64_t a, std::int64_t b) noexcept {
  if (metric != Metric::normalized_levenshtein || edits == 0) return static_cast<double>(edits);
  return static_cast<double>(2 * edits) / static_cast<double>(a + b + edits);
}

inline double string_key(Metric metric, DistanceType type, std::int64_t edits, std::int64_t a,
                         std::int64_t b) noexcept {
  return fold_key(string_value(metric, edits, a, b), type, false);
}

/// The most edits between strings of lengths a and b whose key is at most `key`; -1 where none is, and no more than the
/// longer length. Grows with b.
inline std::int64_t most_edits(Metric metric, DistanceType type, double key, std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t all = std::max(a, b);
  if (!(key >= 0)) return -1;
  if (metric != Metric::normalized_levenshtein)
    return key >= static_cast<double>(all) ? all : static_cast<std::int64_t>(key);
  if (key >= 1) return all;
  std::int64_t edits = std::min(all, static_cast<std::int64_t>(key * static_cast<double>(a + b) / (2 - key)));
  while (edits > 0 && string_key(metric, type, edits, a, b) > key) --edits;
  while (edits < all && string_key(metric, type, edits + 1, a, b) <= key) ++edits;
  return edits;
}

}  // namespace vicinal
