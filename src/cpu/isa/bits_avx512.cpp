// Counts of differing bits with AVX-512 BW, for processors without VPOPCNTDQ: those of
// nibbles come from a table in a register, and bytes of counts are made whole before they
// leave 255. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include "cpu/isa/bits.hpp"
#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 10;
constexpr int tile_lanes = 16;
constexpr std::int64_t words_at_once = 31;  // of 8 ones a byte

#include "cpu/isa/simd_512.inc"

VICINAL_INLINE Vi differing(Vi q, Vi r) { return _mm512_xor_si512(q, r); }
VICINAL_INLINE Vi add_ones(Vi counts, Vi bits) {
  const Vi ones = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const Vi low = _mm512_shuffle_epi8(ones, low_nibbles(bits));
  const Vi high = _mm512_shuffle_epi8(ones, high_nibbles(bits));
  return _mm512_add_epi8(counts, _mm512_add_epi8(low, high));
}
VICINAL_INLINE Vi whole(Vi counts) {
  return _mm512_madd_epi16(_mm512_maddubs_epi16(counts, _mm512_set1_epi8(1)), _mm512_set1_epi16(1));
}

#include "cpu/isa/generic/bits.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

constexpr BitKernels bits_avx512 = {"avx512", supported, query_lanes, tile};
static_assert(bits_avx512.complete());

}  // namespace vicinal::cpu
