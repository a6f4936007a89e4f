// THE total order (semantics C3): (key, id) ascending, where the key is exactly the value that is returned.
// Inner products descend, so their key is stored negated (exact, and the sign of a zero comes back on the way out).
// -0 equals +0; no NaN gets here; a missing entry is id -1 after everything.
#pragma once
#include <cstdint>
#include <limits>

#include "core/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

struct Entry {
  double key;  // folded: smaller is nearer
  std::int64_t id;
};

inline bool before(const Entry& a, const Entry& b) noexcept { return a.key < b.key || (a.key == b.key && a.id < b.id); }

/// The same without a branch, for selections (core/nth.hpp).
inline constexpr auto before_by_number = [](const Entry& a, const Entry& b) noexcept {
  return (static_cast<int>(a.key < b.key) | (static_cast<int>(a.key == b.key) & static_cast<int>(a.id < b.id))) != 0;
};

/// The canonical value rounded once to the output type, widened back exactly, and folded.
inline double fold_key(double canonical, DistanceType type, bool descends) noexcept {
  const double value = type == DistanceType::f32 ? static_cast<double>(static_cast<float>(canonical)) : canonical;
  return descends ? -value : value;
}

/// No canonical sum of a row whose key is at most `key` is greater. The metric is its sum or the sum's root.
inline double reach_of(Metric metric, DistanceType type, double key) noexcept {
  const bool wide = type == DistanceType::f64;
  const double value = wide ? key * (1 + 0x1p-50) + 0x1p-1000 : key * (1 + 0x1p-22) + 0x1p-149;
  return holds_for(metrics_of_roots, metric) ? value * value : value;
}

/// Writes a folded key as the output type.
inline void store_key(double key, DistanceType type, bool descends, void* out, std::int64_t at) noexcept {
  const double value = descends ? -key : key;
  if (type == DistanceType::f64) {
    static_cast<double*>(out)[at] = value;
  } else if (type == DistanceType::u32) {
    static_cast<std::uint32_t*>(out)[at] = static_cast<std::uint32_t>(value);
  } else {
    static_cast<float*>(out)[at] = static_cast<float>(value);
  }
}

/// The folded key of what store_key wrote.
inline double load_key(const void* in, DistanceType type, bool descends, std::int64_t at) noexcept {
  double value;
  if (type == DistanceType::f64) {
    value = static_cast<const double*>(in)[at];
  } else if (type == DistanceType::u32) {
    value = static_cast<double>(static_cast<const std::uint32_t*>(in)[at]);
  } else {
    value = static_cast<double>(static_cast<const float*>(in)[at]);
  }
  return descends ? -value : value;
}

/// What a missing entry holds.
inline void store_missing(DistanceType type, bool descends, std::int64_t* ids, void* out, std::int64_t at) noexcept {
  ids[at] = -1;
  if (type == DistanceType::u32) {
    static_cast<std::uint32_t*>(out)[at] = std::numeric_limits<std::uint32_t>::max();
  } else {
    store_key(std::numeric_limits<double>::infinity(), type, descends, out, at);
  }
}

}  // namespace vicinal
