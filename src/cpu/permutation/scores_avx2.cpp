// See scores.hpp: 32 ranks an instruction.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "cpu/isa/other_tables.hpp"
#include "cpu/permutation/scores.hpp"

namespace vicinal::cpu {
namespace {

inline __m256i load(const std::uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256i load_half(const std::uint8_t* at) {
  return _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

struct Footrule {  // sums in lanes of 64 bits
  static __m256i term(__m256i q, __m256i x) { return _mm256_sad_epu8(q, x); }
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi64(a, b); }
};
struct Rho {  // in lanes of 32
  static __m256i term(__m256i q, __m256i x) {
    const __m256i d = _mm256_sub_epi8(_mm256_max_epu8(q, x), _mm256_min_epu8(q, x)), zero = _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi8(d, zero), high = _mm256_unpackhi_epi8(d, zero);
    return _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high));
  }
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
};

template <class How>
__m256i row_sum(const ScoreArgs& a, const std::uint8_t* row) {
  if (a.stride == 16) return How::term(load_half(a.query), load_half(row));
  __m256i sum = How::term(load(a.query), load(row));
  for (std::int64_t i = 32; i < a.stride; i += 32) sum = How::add(sum, How::term(load(a.query + i), load(row + i)));
  return sum;
}

/// Two rows' totals side by side: lanes of 64 bits that hold a number below 2^32 each.
template <class How>
void sums(const ScoreArgs& a) {
  std::int64_t row = 0;
  for (; row + 2 <= a.count; row += 2) {
    __m256i first = row_sum<How>(a, a.rows + row * a.stride), second = row_sum<How>(a, a.rows + (row + 1) * a.stride);
    __m256i both;
    if constexpr (std::is_same_v<How, Footrule>) both = _mm256_or_si256(first, _mm256_slli_epi64(second, 32));
    else both = _mm256_add_epi32(_mm256_unpacklo_epi32(first, second), _mm256_unpackhi_epi32(first, second));
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    const __m128i one = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(a.out + row), one);
  }
  if (row == a.count) return;
  alignas(32) std::uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), row_sum<How>(a, a.rows + row * a.stride));
  a.out[row] = 0;
  for (const std::uint32_t lane : lanes) a.out[row] += lane;
}

void differing(const ScoreArgs& a) {
  for (std::int64_t row = 0; row < a.count; ++row) {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < a.stride; i += 8) {
      std::uint64_t x, y;
      std::memcpy(&x, a.query + i, 8);
      std::memcpy(&y, a.rows + row * a.stride + i, 8);
      sum += static_cast<std::uint64_t>(_mm_popcnt_u64(x ^ y));
    }
    a.out[row] = static_cast<std::uint32_t>(sum);
  }
}

std::int64_t within(const WithinArgs& a) {
  std::int64_t found = 0;
  const bool half = a.stride == 16;
  for (std::int64_t row = 0; row < a.count; ++row) {
    const std::uint8_t* at = a.rows + row * a.stride;
    bool inside = true;
    for (std::int64_t i = 0; i < a.stride && inside; i += 32) {
      const __m256i above =
          _mm256_sub_epi8(half ? load_half(at) : load(at + i), half ? load_half(a.low) : load(a.low + i));
      const __m256i beyond = _mm256_subs_epu8(above, half ? load_half(a.width) : load(a.width + i));
      inside = _mm256_testz_si256(beyond, beyond) != 0;
    }
    a.out[found] = a.first + static_cast<std::uint32_t>(row);
    found += static_cast<std::int64_t>(inside);
  }
  return found;
}

}  // namespace

constexpr Scores scores_avx2 = {"avx2", sums<Footrule>, sums<Rho>, differing, within};
static_assert(scores_avx2.complete());

}  // namespace vicinal::cpu
#endif
