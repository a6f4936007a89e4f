// The seven truncated sorts of Sismanis, Pitsianis and Sun (2012), section II, one
// file each: plain, readable siblings of threshold.cpp. Each takes the ordered
// keys of a row (select/ordered.hpp) and leaves its k smallest by (key, position).
#pragma once
#include <cstdint>

namespace vicinal::cpu {

template <class Key>
struct Ranked {
  Key key;
  std::int64_t position;
};

template <class Key>
inline bool before(const Ranked<Key>& a, const Ranked<Key>& b) noexcept {
  return a.key < b.key || (a.key == b.key && a.position < b.position);
}

/// best[0..k) becomes the answer in order. 1 <= k <= count. Scratch is the algorithm's own; throws bad_alloc.
template <class Key>
using TruncatedFn = void (*)(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best);

struct Truncated {
  const char* name;
  TruncatedFn<std::uint32_t> narrow;  // keys of values up to 32 bits
  TruncatedFn<std::uint64_t> wide;
};

extern const Truncated truncated_bubble, truncated_insertion, truncated_heap, truncated_merge, truncated_quick,
    truncated_radix, truncated_bitonic;

}  // namespace vicinal::cpu
