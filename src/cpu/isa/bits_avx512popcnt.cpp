// Counts of differing bits with AVX-512 VPOPCNTDQ: 512 bits of a pair of rows in three instructions, 14 queries by 32
// rows in registers. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include "cpu/isa/bits.hpp"
#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 14;
constexpr int tile_lanes = 16;
constexpr std::int64_t words_at_once = INT64_MAX;

#include "cpu/isa/simd_512.inc"

VICINAL_INLINE Vi differing(Vi q, Vi r) { return _mm512_xor_si512(q, r); }
VICINAL_INLINE Vi add_ones(Vi counts, Vi bits) { return add(counts, _mm512_popcnt_epi32(bits)); }
VICINAL_INLINE Vi whole(Vi counts) { return counts; }

#include "cpu/isa/generic/bits.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vpopcntdq");
}

}  // namespace

constexpr BitKernels bits_avx512popcnt = {"avx512popcnt", supported, query_lanes, tile};
static_assert(bits_avx512popcnt.complete());

}  // namespace vicinal::cpu
