// Tiles of int8 with AVX2, whose product of bytes saturates (255 * 127 twice does not fit 16 bits): bytes are taken as
// numbers of 16 bits, even columns and odd ones apart, whose products and sums by twos are exact. 6 queries by 16 rows
// in registers. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include <immintrin.h>

#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 6;
constexpr int match_lanes = 6;
constexpr bool sums_wait = false;
constexpr int query_words = 2;
constexpr int tile_lanes = 8;

#include "cpu/isa/simd_256.inc"

VICINAL_INLINE Vi add_products(Vi s, const std::int32_t* q, Vi r) { return add(s, _mm256_madd_epi16(broadcast(q), r)); }

VICINAL_INLINE Vi even_bytes(Vi all) { return _mm256_and_si256(all, _mm256_set1_epi16(0xff)); }
VICINAL_INLINE Vi odd_bytes(Vi all) { return _mm256_srli_epi16(all, 8); }

#include "cpu/isa/generic/quads_halves.inc"

// Nibbles are small enough for the product of bytes: two of 15 * 128 fit 16 bits.
VICINAL_INLINE Vi add_bytes(Vi s, Vi bytes, Vi nibbles) {
  return add(s, _mm256_madd_epi16(_mm256_maddubs_epi16(nibbles, bytes), _mm256_set1_epi16(1)));
}

#include "cpu/isa/generic/refine.inc"
#include "cpu/isa/generic/tile.inc"
#include "cpu/isa/generic/tile_int8.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2");
}

#include "cpu/isa/generic/table_int8.inc"
#include "cpu/isa/generic/tile_small.inc"

}  // namespace

constexpr Int8Kernels int8_avx2_few = table_of_small_codes("avx2");
constexpr Int8Kernels int8_avx2 = [] {
  Int8Kernels table = table_of_int8("avx2", QueryLayout::halves);
  table.of_few = &int8_avx2_few;
  return table;
}();
static_assert(int8_avx2_few.complete());
static_assert(int8_avx2.complete());

}  // namespace vicinal::cpu
