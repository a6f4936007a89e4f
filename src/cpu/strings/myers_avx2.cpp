// AVX2: two vectors of 32 bytes a block, so 64 words of up to 8 letters, 32 of 16, 16 of 32, 8 of 64. Internal linkage
// throughout, for the reason given in float_avx512.cpp.
#include "cpu/strings/myers.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>
#include <tuple>

#include "cpu/isa/other_tables.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

using V = __m256i;
constexpr int chains = 2;

VICINAL_INLINE V load(const std::byte* p) { return _mm256_load_si256(reinterpret_cast<const V*>(p)); }
VICINAL_INLINE void store(void* p, V v) { _mm256_store_si256(static_cast<V*>(p), v); }
VICINAL_INLINE V zero() { return _mm256_setzero_si256(); }
VICINAL_INLINE V ones() { return _mm256_set1_epi8(-1); }
VICINAL_INLINE V both(V a, V b) { return _mm256_and_si256(a, b); }
VICINAL_INLINE V either(V a, V b) { return _mm256_or_si256(a, b); }
VICINAL_INLINE V flip_both(V a, V b) { return _mm256_andnot_si256(a, b); }
VICINAL_INLINE V xor_either(V a, V b, V c) { return either(_mm256_xor_si256(a, b), c); }
VICINAL_INLINE V either_neither(V a, V b, V c) { return either(a, flip_both(either(b, c), ones())); }
VICINAL_INLINE V right16(V a, int bits) { return _mm256_srli_epi16(a, bits); }
VICINAL_INLINE V top(V a) { return _mm256_srli_epi64(a, 63); }

#include "cpu/strings/lanes.inc"

VICINAL_INLINE V bits_of_bytes(V a) {
  const V low = broadcast<8>(15), count = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2,
                                                           1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  return _mm256_add_epi8(_mm256_shuffle_epi8(count, both(a, low)),
                         _mm256_shuffle_epi8(count, both(_mm256_srli_epi16(a, 4), low)));
}
template <int W>
VICINAL_INLINE V surplus(V p, V n) {
  const V bytes = _mm256_sub_epi8(bits_of_bytes(p), bits_of_bytes(n));
  if constexpr (W == 8) return bytes;
  if constexpr (W == 64)  // a byte is within -8..8: as an unsigned one 8 higher, eight of them 64 higher
    return _mm256_sub_epi64(_mm256_sad_epu8(_mm256_add_epi8(bytes, broadcast<8>(8)), zero()), broadcast<64>(64));
  const V pairs = _mm256_maddubs_epi16(broadcast<8>(1), bytes);
  return W == 16 ? pairs : _mm256_madd_epi16(pairs, broadcast<16>(1));
}
VICINAL_INLINE std::uint64_t not_above(V above) { return ~static_cast<std::uint32_t>(_mm256_movemask_epi8(above)); }
template <int W>
VICINAL_INLINE std::uint64_t at_most(V a, int limit) {
  const V most = broadcast<W>(limit);
  if constexpr (W == 8) return not_above(_mm256_cmpgt_epi8(a, most)) & 0xFFFFFFFFu;
  else if constexpr (W == 16) return not_above(_mm256_cmpgt_epi16(a, most)) & 0x55555555u;
  else if constexpr (W == 32) return not_above(_mm256_cmpgt_epi32(a, most)) & 0x11111111u;
  else return not_above(_mm256_cmpgt_epi64(a, most)) & 0x01010101u;
}
VICINAL_INLINE std::uint64_t at_most_wide(V a, std::int64_t limit) {
  return not_above(_mm256_cmpgt_epi64(a, broadcast<64>(limit))) & 0x01010101u;
}
template <int W>
constexpr int lane_shift = W == 8    ? 0
                           : W == 16 ? 1
                           : W == 32 ? 2
                                     : 3;

#include "cpu/strings/myers_generic.inc"
// after it, whose primitives it uses
#include "cpu/strings/myers_band_generic.inc"

}  // namespace

constexpr Myers myers_avx2 = {sizeof(V) * chains,
                              8,
                              sizeof(Strip),
                              near<8, std::int8_t>,
                              near<16, std::int16_t>,
                              near<32, std::int32_t>,
                              near<64, std::int64_t>,
                              strips,
                              band,
                              windows};
static_assert(myers_avx2.complete());

}  // namespace vicinal::cpu
#endif
