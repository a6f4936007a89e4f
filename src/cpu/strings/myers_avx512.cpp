// AVX-512 (F, BW): two vectors of 64 bytes a block, so 128 words of up to 8 letters, 64 of 16, 32 of 32, 16 of 64.
// Three-way logic makes a letter of the query eleven instructions for all of them. Internal linkage throughout, for the
// reason given in float_avx512.cpp.
#include "cpu/strings/myers.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>
#include <tuple>

#include "cpu/isa/other_tables.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

using V = __m512i;
constexpr int chains = 2;

VICINAL_INLINE V load(const std::byte* p) { return _mm512_load_si512(p); }
VICINAL_INLINE void store(void* p, V v) { _mm512_store_si512(p, v); }
VICINAL_INLINE V zero() { return _mm512_setzero_si512(); }
VICINAL_INLINE V ones() { return _mm512_set1_epi8(-1); }
VICINAL_INLINE V both(V a, V b) { return _mm512_and_si512(a, b); }
VICINAL_INLINE V either(V a, V b) { return _mm512_or_si512(a, b); }
VICINAL_INLINE V flip_both(V a, V b) { return _mm512_ternarylogic_epi64(a, b, b, 0x0C); }
// Bit 4a + 2b + c of the constant is the result.
VICINAL_INLINE V xor_either(V a, V b, V c) { return _mm512_ternarylogic_epi64(a, b, c, 0xBE); }
VICINAL_INLINE V either_neither(V a, V b, V c) { return _mm512_ternarylogic_epi64(a, b, c, 0xF1); }
VICINAL_INLINE V right16(V a, int bits) { return _mm512_srli_epi16(a, static_cast<unsigned>(bits)); }
VICINAL_INLINE V top(V a) { return _mm512_maskz_srli_epi64(0xFF, a, 63); }

#include "cpu/strings/lanes.inc"

alignas(64) constexpr std::int8_t bits_of_nibble[64] = {
    0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
VICINAL_INLINE V bits_of_bytes(V a) {
  const V low = broadcast<8>(15), count = load(reinterpret_cast<const std::byte*>(bits_of_nibble));
  return _mm512_add_epi8(_mm512_shuffle_epi8(count, both(a, low)),
                         _mm512_shuffle_epi8(count, both(_mm512_srli_epi16(a, 4), low)));
}
template <int W>
VICINAL_INLINE V surplus(V p, V n) {
  const V bytes = _mm512_sub_epi8(bits_of_bytes(p), bits_of_bytes(n));
  if constexpr (W == 8) return bytes;
  if constexpr (W == 64)  // a byte is within -8..8: as an unsigned one 8 higher, eight of them 64 higher
    return _mm512_sub_epi64(_mm512_sad_epu8(_mm512_add_epi8(bytes, broadcast<8>(8)), zero()), broadcast<64>(64));
  const V pairs = _mm512_maddubs_epi16(broadcast<8>(1), bytes);
  return W == 16 ? pairs : _mm512_madd_epi16(pairs, broadcast<16>(1));
}
template <int W>
VICINAL_INLINE std::uint64_t at_most(V a, int limit) {
  const V most = broadcast<W>(limit);
  if constexpr (W == 8) return _mm512_cmple_epi8_mask(a, most);
  else if constexpr (W == 16) return _mm512_cmple_epi16_mask(a, most);
  else if constexpr (W == 32) return _mm512_cmple_epi32_mask(a, most);
  else return _mm512_cmple_epi64_mask(a, most);
}
VICINAL_INLINE std::uint64_t at_most_wide(V a, std::int64_t limit) {
  return _mm512_cmple_epi64_mask(a, broadcast<64>(limit));
}
template <int W>
constexpr int lane_shift = 0;

#include "cpu/strings/myers_generic.inc"
// after it, whose primitives it uses
#include "cpu/strings/myers_band_generic.inc"

}  // namespace

constexpr Myers myers_avx512 = {sizeof(V) * chains,
                                8,
                                sizeof(Strip),
                                near<8, std::int8_t>,
                                near<16, std::int16_t>,
                                near<32, std::int32_t>,
                                near<64, std::int64_t>,
                                strips,
                                band,
                                windows};
static_assert(myers_avx512.complete());

}  // namespace vicinal::cpu
#endif
