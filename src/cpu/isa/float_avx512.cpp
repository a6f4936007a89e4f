// The AVX-512 table (F, BW, DQ, VL with FMA and F16C): vectors of 16 floats and 8 doubles, 14 queries by 32 rows in
// registers. The algorithms are in the files of generic/; here are the primitives, each an instruction or a few.
// Everything has internal linkage, and nothing from the standard library with code in it is used: the linker could
// otherwise pick a copy compiled here for a machine that lacks these instructions.
#include <cpuid.h>

#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 14;  // 28 sums, two rows, a query and one to spare: all 32 registers
constexpr int float_lanes = 16;
constexpr int tile_lanes = float_lanes;
constexpr int double_lanes = 8;

VICINAL_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
VICINAL_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// ---- floats: tiles ----

using Vf = __m512;

VICINAL_INLINE Vf load(const float* p) { return _mm512_load_ps(p); }
VICINAL_INLINE void store(float* p, Vf v) { _mm512_store_ps(p, v); }
VICINAL_INLINE Vf broadcast(const float* p) { return _mm512_set1_ps(*p); }
VICINAL_INLINE Vf fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }
VICINAL_INLINE Vf abs(Vf a) { return _mm512_abs_ps(a); }
VICINAL_INLINE Vf least(Vf t, Vf so_far) { return _mm512_min_ps(t, so_far); }
VICINAL_INLINE Vf max_abs(Vf a, Vf b) { return _mm512_range_ps(a, b, 0xb); }

// Spelt out, because with intrinsics g++ 12 clears one sum and copies it 27 times, and rotates sums through other
// registers and the stack: 5 % of a tile at 64 dimensions, a fifth at 8.
VICINAL_INLINE Vf zero() {
  Vf v;
  __asm__ volatile("vpxord %0, %0, %0" : "=v"(v));
  return v;
}
VICINAL_INLINE Vf add_product(Vf s, Vf q, Vf r) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(s) : "v"(q), "v"(r));
  return s;
}

// The mask goes through k1..k7 in place; left to itself the compiler puts it in k0, which cannot be a mask of the
// next comparison, and moves it (4 cycles) every time. 30 is "greater, ordered, quiet": a NaN is never excluded.
using Excluded = __mmask16;
constexpr int test_chains = 4;
VICINAL_INLINE Excluded excluded(Vf t, Vf threshold) {
  Excluded k;
  __asm__("vcmpps $30, %2, %1, %0" : "=Yk"(k) : "v"(t), "v"(threshold));
  return k;
}
VICINAL_INLINE Excluded still(Excluded k, Vf t, Vf threshold) {
  __asm__("vcmpps $30, %2, %1, %0%{%0%}" : "+Yk"(k) : "v"(t), "v"(threshold));
  return k;
}
VICINAL_INLINE Excluded both(Excluded k, Excluded l) { return _kand_mask16(k, l); }
VICINAL_INLINE bool all(Excluded k) { return _kortestc_mask16_u8(k, k) != 0; }
VICINAL_INLINE std::uint32_t hits(Vf t0, Vf t1, Vf threshold0, Vf threshold1) {
  return static_cast<std::uint32_t>(_mm512_cmp_ps_mask(t0, threshold0, _CMP_NGT_UQ)) |
         static_cast<std::uint32_t>(_mm512_cmp_ps_mask(t1, threshold1, _CMP_NGT_UQ)) << 16;
}

// ---- floats: packing ----

VICINAL_INLINE __mmask16 first_floats(int n) { return static_cast<__mmask16>((1u << n) - 1); }
VICINAL_INLINE Vf load_floats(const float* p, int n) { return _mm512_maskz_loadu_ps(first_floats(n), p); }
VICINAL_INLINE Vf flip_bytes(Vf v) { return _mm512_xor_ps(v, _mm512_castsi512_ps(_mm512_set1_epi8(-128))); }
VICINAL_INLINE void store_floats(float* p, int n, Vf v) { _mm512_mask_storeu_ps(p, first_floats(n), v); }

// Pairs, then quadruples within 128 bits, then 128-bit quarters twice.
VICINAL_INLINE void transpose(Vf (&m)[16]) {
  Vf a[16];
  VICINAL_UNROLL
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
  }
  VICINAL_UNROLL
  for (int i = 0; i < 16; i += 4) {
    VICINAL_UNROLL
    for (int j = 0; j < 2; ++j) {
      const __m512d lo = _mm512_castps_pd(a[i + j]);
      const __m512d hi = _mm512_castps_pd(a[i + 2 + j]);
      m[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
      m[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
    }
  }
  // m[4g + c] now holds, in quarter q, rows 4g..4g+3 of column 4q + c.
  VICINAL_UNROLL
  for (int c = 0; c < 4; ++c) {
    const Vf x = _mm512_shuffle_f32x4(m[c], m[4 + c], 0x88);       // columns c, 8 + c of rows 0-3, 4-7
    const Vf y = _mm512_shuffle_f32x4(m[c], m[4 + c], 0xdd);       // columns 4 + c, 12 + c
    const Vf z = _mm512_shuffle_f32x4(m[8 + c], m[12 + c], 0x88);  // the same of rows 8-11, 12-15
    const Vf w = _mm512_shuffle_f32x4(m[8 + c], m[12 + c], 0xdd);
    m[c] = _mm512_shuffle_f32x4(x, z, 0x88);
    m[4 + c] = _mm512_shuffle_f32x4(y, w, 0x88);
    m[8 + c] = _mm512_shuffle_f32x4(x, z, 0xdd);
    m[12 + c] = _mm512_shuffle_f32x4(y, w, 0xdd);
  }
}

// ---- doubles ----

using Vd = __m512d;
using Md = __mmask8;

VICINAL_INLINE Md first_lanes(int n) { return static_cast<Md>((1u << n) - 1); }
VICINAL_INLINE Vd zero_double() { return _mm512_setzero_pd(); }
VICINAL_INLINE Vd broadcast(const double* p) { return _mm512_set1_pd(*p); }
VICINAL_INLINE Vd load(const double* p) { return _mm512_loadu_pd(p); }
VICINAL_INLINE Vd load_part(const double* p, int n) { return _mm512_maskz_loadu_pd(first_lanes(n), p); }
VICINAL_INLINE void store(double* p, Vd v) { _mm512_storeu_pd(p, v); }
VICINAL_INLINE void store_part(double* p, int n, Vd v) { _mm512_mask_storeu_pd(p, first_lanes(n), v); }
VICINAL_INLINE Vd fma(Vd a, Vd b, Vd c) { return _mm512_fmadd_pd(a, b, c); }
VICINAL_INLINE Vd abs(Vd a) { return _mm512_abs_pd(a); }
VICINAL_INLINE Vd max(Vd a, Vd b) { return _mm512_max_pd(a, b); }
VICINAL_INLINE Vd min(Vd a, Vd b) { return _mm512_min_pd(a, b); }
VICINAL_INLINE Vd blend(Md m, Vd a, Vd b) { return _mm512_mask_blend_pd(m, a, b); }
// Classes: quiet NaN, +infinity, -infinity, signalling NaN.
VICINAL_INLINE unsigned bad_lanes(Vd a) { return _mm512_fpclass_pd_mask(a, 0x99); }
VICINAL_INLINE unsigned cmpgt(Vd a, Vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ); }
VICINAL_INLINE Md comes_before(Vd key, Vd row, Vd k, Vd r) {
  const Md equal = _mm512_cmp_pd_mask(key, k, _CMP_EQ_OQ);
  return _kor_mask8(_mm512_cmp_pd_mask(key, k, _CMP_LT_OQ), _mm512_mask_cmp_pd_mask(equal, row, r, _CMP_LT_OQ));
}
VICINAL_INLINE Vd lane_up(Vd before, Vd v) {
  return _mm512_castsi512_pd(_mm512_alignr_epi64(_mm512_castpd_si512(v), _mm512_castpd_si512(before), 7));
}
VICINAL_INLINE Vd rounded(Vd a) { return _mm512_cvtps_pd(_mm512_cvtpd_ps(a)); }
VICINAL_INLINE void narrow_store(float* p, Vd a) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(a)); }
VICINAL_INLINE void narrow_store_part(float* p, int n, Vd a) {
  _mm256_mask_storeu_ps(p, first_lanes(n), _mm512_cvtpd_ps(a));
}

VICINAL_INLINE void low_bytes(std::int8_t* p, Vd a) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm512_cvtepi64_epi8(_mm512_castpd_si512(a)));
}
VICINAL_INLINE void low_bytes_part(std::int8_t* p, int n, Vd a) {
  _mm512_mask_cvtepi64_storeu_epi8(p, first_lanes(n), _mm512_castpd_si512(a));
}

template <bool largest>
VICINAL_INLINE Vd reduce(const Vd* row) {
  const auto join = [](Vd a, Vd b) { return largest ? max(a, b) : a + b; };
  Vd four[4];
  VICINAL_UNROLL
  for (int i = 0; i < 4; ++i) {
    const Vd a = row[2 * i];
    const Vd b = row[2 * i + 1];
    four[i] = join(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
  }
  Vd two[2];
  VICINAL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const Vd a = four[2 * i];
    const Vd b = four[2 * i + 1];
    two[i] = join(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
  }
  const Vd mixed = join(_mm512_unpacklo_pd(two[0], two[1]), _mm512_unpackhi_pd(two[0], two[1]));
  return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
}
VICINAL_INLINE Vd sum_rows(const Vd* row) { return reduce<false>(row); }
VICINAL_INLINE Vd max_rows(const Vd* row) { return reduce<true>(row); }
VICINAL_INLINE double largest(Vd a) { return _mm512_reduce_max_pd(a); }
VICINAL_INLINE double smallest(Vd a) { return _mm512_reduce_min_pd(a); }

// ---- elements to doubles ----

VICINAL_INLINE Vd from_halves(__m128i x) { return _mm512_cvtps_pd(_mm256_cvtph_ps(x)); }
VICINAL_INLINE Vd from_bfloats(__m128i x) {
  return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)));
}
VICINAL_INLINE Vd from_unsigned(__m128i x) { return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(x)); }
VICINAL_INLINE Vd from_signed(__m128i x) { return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(x)); }
VICINAL_INLINE __m128i eight_bytes(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
VICINAL_INLINE __m128i eight_words(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

VICINAL_INLINE Vd widen(const double* p) { return load(p); }
VICINAL_INLINE Vd widen(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
VICINAL_INLINE Vd widen(const f16* p) { return from_halves(eight_words(p)); }
VICINAL_INLINE Vd widen(const bf16* p) { return from_bfloats(eight_words(p)); }
VICINAL_INLINE Vd widen(const std::uint8_t* p) { return from_unsigned(eight_bytes(p)); }
VICINAL_INLINE Vd widen(const std::int8_t* p) { return from_signed(eight_bytes(p)); }

VICINAL_INLINE Vd widen_part(const double* p, int n) { return load_part(p, n); }
VICINAL_INLINE Vd widen_part(const float* p, int n) {
  return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first_lanes(n), p));
}
VICINAL_INLINE Vd widen_part(const f16* p, int n) { return from_halves(_mm_maskz_loadu_epi16(first_lanes(n), p)); }
VICINAL_INLINE Vd widen_part(const bf16* p, int n) { return from_bfloats(_mm_maskz_loadu_epi16(first_lanes(n), p)); }
VICINAL_INLINE Vd widen_part(const std::uint8_t* p, int n) {
  return from_unsigned(_mm_maskz_loadu_epi8(first_floats(n), p));
}
VICINAL_INLINE Vd widen_part(const std::int8_t* p, int n) {
  return from_signed(_mm_maskz_loadu_epi8(first_floats(n), p));
}

#include "cpu/isa/generic/canonical.inc"
#include "cpu/isa/generic/kd_tree.inc"
#include "cpu/isa/generic/prepare.inc"
#include "cpu/isa/generic/tile.inc"
#include "cpu/isa/generic/tile_float.inc"

bool supported() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#include "cpu/isa/generic/table.inc"

}  // namespace

constexpr Kernels float_avx512 = table_of("avx512", true);
static_assert(float_avx512.complete());

}  // namespace vicinal::cpu
