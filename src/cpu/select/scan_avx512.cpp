// The scan with AVX-512: comparisons that give masks, and hits packed by them.

#include <type_traits>

#include "cpu/isa/intrinsics_512.hpp"
#include "cpu/isa/other_tables.hpp"
#include "cpu/isa/vector_macros.hpp"
#include "cpu/select/scan.hpp"
#include "select/ordered.hpp"

namespace vicinal::cpu {
namespace {

/// A value type's vector: 64 bytes as loaded, turned so that `kept` is one comparison with the threshold.
template <ValueType T>
struct Primitives {
  using Bits = typename ValueBits<T>::type;
  static constexpr bool half = T == ValueType::f16 || T == ValueType::bf16;
  static constexpr bool is_float = T == ValueType::f32 || T == ValueType::f64;
  static constexpr bool is_signed = is_signed_integer(T);
  static constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  static constexpr Bits first_half =
      static_cast<Bits>(~((T == ValueType::f16 ? 0x7c00u : 0x7f80u) | sign));  // key of the first infinity

  static VICINAL_INLINE __m512i broadcast(Bits bits) {
    if constexpr (sizeof(Bits) == 1) return _mm512_set1_epi8(static_cast<char>(bits));
    else if constexpr (sizeof(Bits) == 2) return _mm512_set1_epi16(static_cast<short>(bits));
    else if constexpr (sizeof(Bits) == 4) return _mm512_set1_epi32(static_cast<int>(bits));
    else return _mm512_set1_epi64(static_cast<long long>(bits));
  }

  Primitives(std::uint64_t threshold_key, bool largest) {
    auto threshold = static_cast<Bits>(threshold_key);
    if constexpr (half) {
      if (largest && threshold == static_cast<Bits>(~sign)) threshold = sign;  // a threshold of 0 takes either zero
      flip_ = broadcast(largest ? static_cast<Bits>(~Bits{0}) : Bits{0});
      first_ = broadcast(first_half);
      threshold_ = broadcast(static_cast<Bits>(threshold - first_half));
    } else if constexpr (is_float) {
      flip_ = broadcast(largest ? sign : Bits{0});
      threshold_ = broadcast(unordered<T>(threshold, false));
    } else {
      flip_ = broadcast(
          static_cast<Bits>((is_signed ? sign : Bits{0}) ^ (largest ? static_cast<Bits>(~Bits{0}) : Bits{0})));
      threshold_ = broadcast(threshold);
    }
  }

  /// One bit a value.
  VICINAL_INLINE std::uint64_t kept(__m512i bits) const {
    if constexpr (half) {
      const __m512i negative = _mm512_srai_epi16(bits, 15);
      const __m512i key = _mm512_xor_si512(_mm512_xor_si512(bits, _mm512_or_si512(negative, broadcast(sign))), flip_);
      return _mm512_cmple_epu16_mask(_mm512_sub_epi16(key, first_), threshold_);
    } else {
      const __m512i turned = _mm512_xor_si512(bits, flip_);
      if constexpr (T == ValueType::f32)
        return _mm512_cmp_ps_mask(_mm512_castsi512_ps(turned), _mm512_castsi512_ps(threshold_), _CMP_LE_OQ);
      else if constexpr (T == ValueType::f64)
        return _mm512_cmp_pd_mask(_mm512_castsi512_pd(turned), _mm512_castsi512_pd(threshold_), _CMP_LE_OQ);
      else if constexpr (sizeof(Bits) == 1) return _mm512_cmple_epu8_mask(turned, threshold_);
      else if constexpr (sizeof(Bits) == 2) return _mm512_cmple_epu16_mask(turned, threshold_);
      else if constexpr (sizeof(Bits) == 4) return _mm512_cmple_epu32_mask(turned, threshold_);
      else return _mm512_cmple_epu64_mask(turned, threshold_);
    }
  }

 private:
  __m512i flip_, threshold_, first_;
};

/// Appends the values of a vector that the mask names, and their positions. Writes a whole vector: the caller has room.
template <class Bits>
VICINAL_INLINE std::int64_t append(__m512i bits, std::uint64_t mask, const Bits* from, std::int64_t at, Bits* to,
                                   std::uint32_t* positions) {
  if constexpr (sizeof(Bits) == 4) {
    const __m512i iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), bits));
    _mm512_storeu_si512(positions,
                        _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask),
                                                    _mm512_add_epi32(iota, _mm512_set1_epi32(static_cast<int>(at)))));
    return __builtin_popcountll(mask);
  } else if constexpr (sizeof(Bits) == 8) {
    const __m256i iota = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), bits));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions),
                        _mm256_maskz_compress_epi32(static_cast<__mmask8>(mask),
                                                    _mm256_add_epi32(iota, _mm256_set1_epi32(static_cast<int>(at)))));
    return __builtin_popcountll(mask);
  } else {
    std::int64_t hits = 0;
    for (; mask != 0; mask &= mask - 1) {
      const int i = __builtin_ctzll(mask);
      to[hits] = from[i];
      positions[hits++] = static_cast<std::uint32_t>(at + i);
    }
    return hits;
  }
}

template <ValueType T>
Scanned scan(const ScanArgs& args) {
  using Bits = typename ValueBits<T>::type;
  constexpr std::int64_t width = 64 / static_cast<std::int64_t>(sizeof(Bits)), block = 4 * width;
  const Primitives<T> primitives(args.threshold, args.largest);
  const auto* values = static_cast<const Bits*>(args.values);
  auto* bits = static_cast<Bits*>(args.bits);
  std::int64_t at = 0, hits = 0;
  for (; at + block <= args.count; at += block) {
    if (hits + block + width > args.capacity) return {at, hits};
    const __m512i v0 = _mm512_loadu_si512(values + at), v1 = _mm512_loadu_si512(values + at + width),
                  v2 = _mm512_loadu_si512(values + at + 2 * width), v3 = _mm512_loadu_si512(values + at + 3 * width);
    _mm_prefetch(reinterpret_cast<const char*>(values + at) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(values + at) + 2112, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(values + at) + 2176, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(values + at) + 2240, _MM_HINT_T0);
    const std::uint64_t m0 = primitives.kept(v0), m1 = primitives.kept(v1), m2 = primitives.kept(v2),
                        m3 = primitives.kept(v3);
    if (__builtin_expect((m0 | m1 | m2 | m3) == 0, 1)) continue;
    if (m0 != 0) hits += append(v0, m0, values + at, at, bits + hits, args.positions + hits);
    if (m1 != 0) hits += append(v1, m1, values + at + width, at + width, bits + hits, args.positions + hits);
    if (m2 != 0) hits += append(v2, m2, values + at + 2 * width, at + 2 * width, bits + hits, args.positions + hits);
    if (m3 != 0) hits += append(v3, m3, values + at + 3 * width, at + 3 * width, bits + hits, args.positions + hits);
  }
  if (hits + block + width > args.capacity) return {at, hits};
  // The rest a vector at a time; the last through a copy, with zeros behind it that are masked out.
  for (; at < args.count; at += width) {
    const std::int64_t left = args.count - at < width ? args.count - at : width;
    alignas(64) Bits padded[width] = {};
    for (std::int64_t i = 0; i < left; ++i) padded[i] = values[at + i];
    const __m512i v = _mm512_load_si512(padded);
    const std::uint64_t mask = primitives.kept(v) & (left == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1);
    hits += append(v, mask, padded, at, bits + hits, args.positions + hits);
  }
  return {args.count, hits};
}

}  // namespace

constexpr Scans scans_avx512 = {
    "avx512",
    {&scan<ValueType::f32>, &scan<ValueType::f64>, &scan<ValueType::f16>, &scan<ValueType::bf16>, &scan<ValueType::u8>,
     &scan<ValueType::i8>, &scan<ValueType::u16>, &scan<ValueType::i16>, &scan<ValueType::u32>, &scan<ValueType::i32>,
     &scan<ValueType::u64>, &scan<ValueType::i64>}};
static_assert(scans_avx512.complete());

}  // namespace vicinal::cpu
