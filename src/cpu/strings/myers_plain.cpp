// The reference in plain C++: one word of 64 bits is one lane, and a block is one word. Also what reads words so long
// that the masks of several would not fit a cache.
#include "cpu/isa/other_tables.hpp"
#include "cpu/isa/vector_macros.hpp"
#include "cpu/strings/myers.hpp"

namespace vicinal::cpu {
namespace {

using V = std::uint64_t;
constexpr int chains = 1;

VICINAL_INLINE V load(const std::byte* p) { return *reinterpret_cast<const V*>(p); }
VICINAL_INLINE void store(void* p, V v) { *static_cast<V*>(p) = v; }
VICINAL_INLINE V zero() { return 0; }
VICINAL_INLINE V ones() { return ~V{0}; }
VICINAL_INLINE V both(V a, V b) { return a & b; }
VICINAL_INLINE V either(V a, V b) { return a | b; }
VICINAL_INLINE V flip_both(V a, V b) { return ~a & b; }
VICINAL_INLINE V xor_either(V a, V b, V c) { return (a ^ b) | c; }
VICINAL_INLINE V either_neither(V a, V b, V c) { return a | ~(b | c); }
VICINAL_INLINE V top(V a) { return a >> 63; }
template <int W>
VICINAL_INLINE V add(V a, V b) {
  return a + b;
}
template <int W>
VICINAL_INLINE V subtract(V a, V b) {
  return a - b;
}
template <int W>
VICINAL_INLINE V one() {
  return 1;
}
template <int W>
VICINAL_INLINE V broadcast(std::int64_t value) {
  return static_cast<V>(value);
}
template <int W>
VICINAL_INLINE V surplus(V p, V n) {
  return static_cast<V>(__builtin_popcountll(p) - __builtin_popcountll(n));
}
template <int W>
VICINAL_INLINE std::uint64_t at_most(V a, int limit) {
  return static_cast<std::int64_t>(a) <= limit ? 1 : 0;
}
VICINAL_INLINE std::uint64_t at_most_wide(V a, std::int64_t limit) {
  return static_cast<std::int64_t>(a) <= limit ? 1 : 0;
}
template <int W>
constexpr int lane_shift = 0;

#include "cpu/strings/myers_generic.inc"

}  // namespace

constexpr Myers myers_plain = {sizeof(V) * chains,     64,     sizeof(Strip), nullptr, nullptr, nullptr,
                               near<64, std::int64_t>, strips, nullptr,       nullptr};
static_assert(myers_plain.complete());

}  // namespace vicinal::cpu
