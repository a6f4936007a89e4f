// Tiles of int8 with AVX-VNNI: 32 products and their sums by fours in one instruction, 6 queries by 16 rows in
// registers. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include <cpuid.h>
#include <immintrin.h>

#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 6;
constexpr int match_lanes = 6;
constexpr bool sums_wait = true;
constexpr int query_words = 1;
constexpr int tile_lanes = 8;

#include "cpu/isa/simd_256.inc"

VICINAL_INLINE Vi add_products(Vi s, Vi q, Vi r) {
  __asm__("%{vex%} vpdpbusd %1, %2, %0" : "+x"(s) : "x"(q), "x"(r));
  return s;
}

#include "cpu/isa/generic/quads_vnni.inc"

VICINAL_INLINE Vi add_bytes(Vi s, Vi bytes, Vi nibbles) { return add_products(s, bytes, nibbles); }

#include "cpu/isa/generic/refine.inc"
#include "cpu/isa/generic/tile.inc"
#include "cpu/isa/generic/tile_int8.inc"

bool supported() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}

#include "cpu/isa/generic/table_int8.inc"

}  // namespace

constexpr Int8Kernels int8_avxvnni = table_of_int8("avxvnni", QueryLayout::quads);
static_assert(int8_avxvnni.complete());

}  // namespace vicinal::cpu
