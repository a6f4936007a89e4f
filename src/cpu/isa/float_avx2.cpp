// The AVX2 table (with FMA and F16C): vectors of 8 floats and 4 doubles, 6 queries by 16 rows in registers, so that a
// panel of 32 rows is two microtiles and may be reported in two calls. The algorithms are in the files of generic/;
// here are the primitives, each an instruction or a few. Internal linkage throughout, for the reason given in
// float_avx512.cpp.
#include <cpuid.h>
#include <immintrin.h>

#include "cpu/isa/kernels.hpp"
#include "cpu/isa/vector_macros.hpp"

namespace vicinal::cpu {
namespace {

constexpr int query_lanes = 6;  // 12 sums, two rows, a query and one to spare: all 16 registers
constexpr int float_lanes = 8;
constexpr int tile_lanes = float_lanes;
constexpr int double_lanes = 4;

VICINAL_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
VICINAL_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// ---- floats: tiles ----

using Vf = __m256;

VICINAL_INLINE Vf load(const float* p) { return _mm256_load_ps(p); }
VICINAL_INLINE void store(float* p, Vf v) { _mm256_store_ps(p, v); }
VICINAL_INLINE Vf broadcast(const float* p) { return _mm256_broadcast_ss(p); }
VICINAL_INLINE Vf zero() { return _mm256_setzero_ps(); }
VICINAL_INLINE Vf fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }
VICINAL_INLINE Vf abs(Vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
VICINAL_INLINE Vf least(Vf t, Vf so_far) { return _mm256_min_ps(t, so_far); }
VICINAL_INLINE Vf max_abs(Vf a, Vf b) { return _mm256_max_ps(a, abs(b)); }

// Spelt out so that sums stay where they are; see float_avx512.cpp.
VICINAL_INLINE Vf add_product(Vf s, Vf q, Vf r) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(s) : "x"(q), "x"(r));
  return s;
}

using Excluded = __m256;        // all ones where every pair so far was excluded
constexpr int test_chains = 2;  // more would not fit beside twelve t
VICINAL_INLINE Excluded excluded(Vf t, Vf threshold) { return _mm256_cmp_ps(t, threshold, _CMP_GT_OQ); }
VICINAL_INLINE Excluded still(Excluded k, Vf t, Vf threshold) { return _mm256_and_ps(k, excluded(t, threshold)); }
VICINAL_INLINE Excluded both(Excluded k, Excluded l) { return _mm256_and_ps(k, l); }
VICINAL_INLINE bool all(Excluded k) { return _mm256_movemask_ps(k) == 0xff; }
VICINAL_INLINE std::uint32_t hits(Vf t0, Vf t1, Vf threshold0, Vf threshold1) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(t0, threshold0, _CMP_NGT_UQ))) |
         static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(t1, threshold1, _CMP_NGT_UQ))) << 8;
}

// ---- floats: packing ----

// The first n of a vector: eight words into a run of ones followed by zeros.
alignas(64) constexpr std::int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
VICINAL_INLINE __m256i first_floats(int n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones_then_zeros + 8 - n));
}
VICINAL_INLINE Vf load_floats(const float* p, int n) {
  return n == 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first_floats(n));
}
VICINAL_INLINE Vf flip_bytes(Vf v) { return _mm256_xor_ps(v, _mm256_castsi256_ps(_mm256_set1_epi8(-128))); }
VICINAL_INLINE void store_floats(float* p, int n, Vf v) {
  if (n == 8) _mm256_storeu_ps(p, v);
  else _mm256_maskstore_ps(p, first_floats(n), v);
}

// Pairs, then quadruples within 128 bits, then halves.
VICINAL_INLINE void transpose(Vf (&m)[8]) {
  Vf a[8];
  VICINAL_UNROLL
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
  }
  Vf b[8];
  VICINAL_UNROLL
  for (int i = 0; i < 8; i += 4) {
    VICINAL_UNROLL
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0x44);
      b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0xee);
    }
  }
  // b[4g + c] now holds, in half h, rows 4g..4g+3 of column 4h + c.
  VICINAL_UNROLL
  for (int c = 0; c < 4; ++c) {
    m[c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
    m[4 + c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
  }
}

// ---- doubles ----

using Vd = __m256d;
using Md = __m256i;

VICINAL_INLINE Md first_lanes(int n) { return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(first_floats(n))); }
VICINAL_INLINE Vd zero_double() { return _mm256_setzero_pd(); }
VICINAL_INLINE Vd broadcast(const double* p) { return _mm256_broadcast_sd(p); }
VICINAL_INLINE Vd load(const double* p) { return _mm256_loadu_pd(p); }
VICINAL_INLINE Vd load_part(const double* p, int n) { return _mm256_maskload_pd(p, first_lanes(n)); }
VICINAL_INLINE void store(double* p, Vd v) { _mm256_storeu_pd(p, v); }
VICINAL_INLINE void store_part(double* p, int n, Vd v) { _mm256_maskstore_pd(p, first_lanes(n), v); }
VICINAL_INLINE Vd fma(Vd a, Vd b, Vd c) { return _mm256_fmadd_pd(a, b, c); }
VICINAL_INLINE Vd abs(Vd a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
VICINAL_INLINE Vd max(Vd a, Vd b) { return _mm256_max_pd(a, b); }
VICINAL_INLINE Vd min(Vd a, Vd b) { return _mm256_min_pd(a, b); }
VICINAL_INLINE Vd blend(Md m, Vd a, Vd b) { return _mm256_blendv_pd(a, b, _mm256_castsi256_pd(m)); }
// x - x is 0 for every finite x and NaN for the rest.
VICINAL_INLINE unsigned bad_lanes(Vd a) {
  const Vd d = a - a;
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(d, d, _CMP_UNORD_Q)));
}
VICINAL_INLINE unsigned cmpgt(Vd a, Vd b) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)));
}
VICINAL_INLINE Md comes_before(Vd key, Vd row, Vd k, Vd r) {
  const Vd tie = _mm256_and_pd(_mm256_cmp_pd(key, k, _CMP_EQ_OQ), _mm256_cmp_pd(row, r, _CMP_LT_OQ));
  return _mm256_castpd_si256(_mm256_or_pd(_mm256_cmp_pd(key, k, _CMP_LT_OQ), tie));
}
VICINAL_INLINE Vd lane_up(Vd before, Vd v) {
  return _mm256_shuffle_pd(_mm256_permute2f128_pd(before, v, 0x21), v, 0x5);
}
VICINAL_INLINE Vd rounded(Vd a) { return _mm256_cvtps_pd(_mm256_cvtpd_ps(a)); }
VICINAL_INLINE void narrow_store(float* p, Vd a) { _mm_storeu_ps(p, _mm256_cvtpd_ps(a)); }
VICINAL_INLINE void narrow_store_part(float* p, int n, Vd a) {
  _mm_maskstore_ps(p, _mm256_castsi256_si128(first_floats(n)), _mm256_cvtpd_ps(a));
}

VICINAL_INLINE int four_low_bytes(Vd a) {
  constexpr auto high = static_cast<long long>(0xffffffff0800ffff), low = static_cast<long long>(0xffffffffffff0800);
  const __m256i lowest = _mm256_shuffle_epi8(_mm256_castpd_si256(a), _mm256_set_epi64x(-1, high, -1, low));
  return _mm_cvtsi128_si32(_mm_or_si128(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256(lowest, 1)));
}
VICINAL_INLINE void low_bytes(std::int8_t* p, Vd a) {
  const int four = four_low_bytes(a);
  __builtin_memcpy(p, &four, 4);
}
VICINAL_INLINE void low_bytes_part(std::int8_t* p, int n, Vd a) {
  const int four = four_low_bytes(a);
  for (int i = 0; i < n; ++i) p[i] = static_cast<std::int8_t>(four >> 8 * i);
}

template <bool largest>
VICINAL_INLINE Vd reduce(const Vd* row) {
  const auto join = [](Vd a, Vd b) { return largest ? max(a, b) : a + b; };
  const Vd x = join(_mm256_permute2f128_pd(row[0], row[1], 0x20), _mm256_permute2f128_pd(row[0], row[1], 0x31));
  const Vd y = join(_mm256_permute2f128_pd(row[2], row[3], 0x20), _mm256_permute2f128_pd(row[2], row[3], 0x31));
  const Vd mixed = join(_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
  return _mm256_permute4x64_pd(mixed, 0xd8);
}
VICINAL_INLINE Vd sum_rows(const Vd* row) { return reduce<false>(row); }
VICINAL_INLINE Vd max_rows(const Vd* row) { return reduce<true>(row); }
VICINAL_INLINE double largest(Vd a) {
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}
VICINAL_INLINE double smallest(Vd a) {
  const __m128d two = _mm_min_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_min_sd(two, _mm_unpackhi_pd(two, two)));
}

// ---- elements to doubles ----

VICINAL_INLINE Vd from_halves(__m128i x) { return _mm256_cvtps_pd(_mm_cvtph_ps(x)); }
VICINAL_INLINE Vd from_bfloats(__m128i x) {
  return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(x), 16)));
}
VICINAL_INLINE Vd from_unsigned(__m128i x) { return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(x)); }
VICINAL_INLINE Vd from_signed(__m128i x) { return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(x)); }
VICINAL_INLINE __m128i four_words(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
VICINAL_INLINE __m128i four_bytes(const void* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return _mm_cvtsi32_si128(x);
}
// n < 4 elements put together in a general register: a narrow store and a wide load of it would stall.
template <class T>
VICINAL_INLINE __m128i gather_part(const T* p, int n) {
  std::uint64_t all = 0;
  for (int i = 0; i < n; ++i) {
    std::uint16_t one = 0;
    __builtin_memcpy(&one, p + i, sizeof(T));
    all |= static_cast<std::uint64_t>(one) << (8 * static_cast<int>(sizeof(T)) * i);
  }
  return _mm_cvtsi64_si128(static_cast<long long>(all));
}

VICINAL_INLINE Vd widen(const double* p) { return load(p); }
VICINAL_INLINE Vd widen(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
VICINAL_INLINE Vd widen(const f16* p) { return from_halves(four_words(p)); }
VICINAL_INLINE Vd widen(const bf16* p) { return from_bfloats(four_words(p)); }
VICINAL_INLINE Vd widen(const std::uint8_t* p) { return from_unsigned(four_bytes(p)); }
VICINAL_INLINE Vd widen(const std::int8_t* p) { return from_signed(four_bytes(p)); }

VICINAL_INLINE Vd widen_part(const double* p, int n) { return load_part(p, n); }
VICINAL_INLINE Vd widen_part(const float* p, int n) {
  return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm256_castsi256_si128(first_floats(n))));
}
VICINAL_INLINE Vd widen_part(const f16* p, int n) { return from_halves(gather_part(p, n)); }
VICINAL_INLINE Vd widen_part(const bf16* p, int n) { return from_bfloats(gather_part(p, n)); }
VICINAL_INLINE Vd widen_part(const std::uint8_t* p, int n) { return from_unsigned(gather_part(p, n)); }
VICINAL_INLINE Vd widen_part(const std::int8_t* p, int n) { return from_signed(gather_part(p, n)); }

#include "cpu/isa/generic/canonical.inc"
#include "cpu/isa/generic/kd_tree.inc"
#include "cpu/isa/generic/prepare.inc"
#include "cpu/isa/generic/tile.inc"
#include "cpu/isa/generic/tile_float.inc"

bool supported() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#include "cpu/isa/generic/table.inc"

}  // namespace

constexpr Kernels float_avx2 = table_of("avx2", true);
static_assert(float_avx2.complete());

}  // namespace vicinal::cpu
