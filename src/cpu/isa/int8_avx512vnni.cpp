// Tiles of int8 with AVX-512 VNNI: 64 products and their sums by fours in one instruction, 14 queries by 32 rows in
// registers as for floats. Internal linkage throughout, for the reason given in float_avx512.cpp.
#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

#include "cpu/isa/simd_512vnni.inc"

bool supported() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

#include "cpu/isa/generic/table_int8.inc"

}  // namespace

constexpr Int8Kernels int8_avx512vnni = table_of_int8("avx512vnni", QueryLayout::quads);
static_assert(int8_avx512vnni.complete());

}  // namespace vicinal::cpu
