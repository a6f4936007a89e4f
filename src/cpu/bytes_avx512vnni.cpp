// Tiles of bytes with AVX-512 VNNI: 64 products and their sums by fours in one instruction, 14 queries by 32 rows in
// registers as for floats. Internal linkage throughout, for the reason given in kernels_avx512.cpp.
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
constexpr int query_words = 1;
constexpr int tile_lanes = 16;

#include "cpu/words_512.inc"

// Spelt out, so that sums stay where they are; see kernels_avx512.cpp.
VICINAL_INLINE Vi add_products(Vi s, Vi q, Vi r) {
  __asm__("vpdpbusd %1, %2, %0" : "+v"(s) : "v"(q), "v"(r));
  return s;
}

#include "cpu/quads_whole.inc"

VICINAL_INLINE Vi add_bytes(Vi s, Vi bytes, Vi nibbles) { return add_products(s, bytes, nibbles); }

#include "cpu/second_text.inc"
#include "cpu/tile_bytes.inc"
#include "cpu/tile_text.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace

constinit const ByteKernels bytes_avx512vnni = {"avx512vnni", supported, query_lanes, QueryLayout::quads, tile<Quads>, second_sums};

}  // namespace vicinal::cpu
