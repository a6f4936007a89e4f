// Tiles of int8 with AVX-512 BW, for processors without VNNI: as in int8_avx2.cpp, 14 queries by 32 rows in registers.
// Rows take a quarter of the memory of floats. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 14;
constexpr int match_lanes = 12;
constexpr bool sums_wait = false;
constexpr int query_words = 2;
constexpr int tile_lanes = 16;

#include "cpu/isa/simd_512.inc"

VICINAL_INLINE Vi add_products(Vi s, const std::int32_t* q, Vi r) { return add(s, _mm512_madd_epi16(broadcast(q), r)); }

VICINAL_INLINE Vi even_bytes(Vi all) { return _mm512_and_si512(all, _mm512_set1_epi16(0xff)); }
VICINAL_INLINE Vi odd_bytes(Vi all) { return _mm512_srli_epi16(all, 8); }

#include "cpu/isa/generic/quads_halves.inc"

// Nibbles are small enough for the product of bytes: two of 15 * 128 fit 16 bits.
VICINAL_INLINE Vi add_bytes(Vi s, Vi bytes, Vi nibbles) {
  return add(s, _mm512_madd_epi16(_mm512_maddubs_epi16(nibbles, bytes), _mm512_set1_epi16(1)));
}

#include "cpu/isa/generic/refine.inc"
#include "cpu/isa/generic/tile.inc"
#include "cpu/isa/generic/tile_int8.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#include "cpu/isa/generic/table_int8.inc"
#include "cpu/isa/generic/tile_small.inc"

}  // namespace

constexpr Int8Kernels int8_avx512_few = table_of_small_codes("avx512");
constexpr Int8Kernels int8_avx512 = [] {
  Int8Kernels table = table_of_int8("avx512", QueryLayout::halves);
  table.of_few = &int8_avx512_few;
  return table;
}();
static_assert(int8_avx512_few.complete());
static_assert(int8_avx512.complete());

}  // namespace vicinal::cpu
