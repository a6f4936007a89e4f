// Counts of differing bits with AVX2: those of nibbles come from a table in a register,
// and bytes of counts are made whole before they leave 255. 4 queries by 16 rows in
// registers. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include <immintrin.h>

#include "cpu/isa/bits.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 4;
constexpr int tile_lanes = 8;
constexpr std::int64_t words_at_once = 31;  // of 8 ones a byte

#include "cpu/isa/simd_256.inc"

VICINAL_INLINE Vi differing(Vi q, Vi r) { return _mm256_xor_si256(q, r); }
VICINAL_INLINE Vi add_ones(Vi counts, Vi bits) {
  const Vi ones = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const Vi low = _mm256_shuffle_epi8(ones, low_nibbles(bits));
  const Vi high = _mm256_shuffle_epi8(ones, high_nibbles(bits));
  return _mm256_add_epi8(counts, _mm256_add_epi8(low, high));
}
VICINAL_INLINE Vi whole(Vi counts) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(counts, _mm256_set1_epi8(1)), _mm256_set1_epi16(1));
}

#include "cpu/isa/generic/bits.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2");
}

}  // namespace

constexpr BitKernels bits_avx2 = {"avx2", supported, query_lanes, tile};
static_assert(bits_avx2.complete());

}  // namespace vicinal::cpu
