// Tiles of bytes with AVX-512 BW, for processors without VNNI: as in bytes_avx2.cpp, 14 queries by 32 rows in registers. Little
// faster than floats, but rows take a quarter of the memory. Internal linkage throughout, for the reason given in kernels_avx512.cpp.
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns of the undefined operands inside its own intrinsics (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "cpu/kernels.hpp"
#include "cpu/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 14;
constexpr int query_words = 2;
constexpr int tile_lanes = 16;

#include "cpu/words_512.inc"

VICINAL_INLINE Vi add_products(Vi s, const std::int32_t* q, Vi r) { return add(s, _mm512_madd_epi16(spread(q), r)); }

template <class Micro>
VICINAL_INLINE void bytes_step(Micro& m, const std::int32_t* q, const std::int32_t* r) {
  VICINAL_UNROLL
  for (int h = 0; h < 2; ++h) {
    const Vi all = load(r + h * tile_lanes);
    const Vi even = _mm512_and_si512(all, _mm512_set1_epi16(0xff));
    const Vi odd = _mm512_srli_epi16(all, 8);
    VICINAL_UNROLL
    for (int i = 0; i < query_lanes; ++i) {
      m.sum[i][h] = add_products(add_products(m.sum[i][h], q + 2 * i, even), q + 2 * i + 1, odd);
    }
  }
}

#include "cpu/tile_bytes.inc"
#include "cpu/tile_text.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

constinit const ByteKernels bytes_avx512 = {"avx512", supported, query_lanes, query_words, tile<Quads>};

}  // namespace vicinal::cpu
