// A query's list holds words (cuda/select/form.cuh), a folded key and
// a row each: when they are wide, and how a distance becomes one.
#pragma once
#include "cuda/search/core/element.cuh"
#include "cuda/select/form.cuh"

namespace vicinal::cuda {

/// The rows of a corpus, as far as 32 bits of a word name them. A device has its own, which tests lower.
inline constexpr std::int64_t most_packed_rows = 0xffffffffll;
/// Whether the words of a list are Wide: keys of 64 bits, or a corpus of more rows than 32 bits name. Rows count from
/// the corpus' first, whatever chunk they are in, for lists last from chunk to chunk.
inline bool wide_words(DistanceType type, std::int64_t corpus_rows, std::int64_t packed_rows) {
  return type != DistanceType::f32 || corpus_rows > packed_rows;
}

/// Bytes of a word of a list, and of a key that is kept alone.
inline std::int64_t word_size(bool wide) { return wide ? 16 : 8; }
inline std::int64_t key_size(DistanceType type) { return type == DistanceType::f32 ? 4 : 8; }
inline ValueType key_type(DistanceType type) { return type == DistanceType::f32 ? ValueType::f32 : ValueType::f64; }

/// A list's words: a folded key and a row, packed for keys of 32 bits and rows that 32 bits name (wide_words).
template <class Form>
struct ListWords;
template <>
struct ListWords<Packed> {
  static constexpr bool wide = false;
  __device__ static std::uint32_t ordered(double key) {
    return ordered_float<std::uint32_t>(bits_of(static_cast<float>(key)), 0x7f800000u, false);
  }
  __device__ static std::uint32_t top(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  __device__ static double key(std::uint64_t word) {
    const auto bits = static_cast<std::uint32_t>(word >> 32);
    return static_cast<double>(__uint_as_float((bits >> 31) != 0 ? bits ^ 0x80000000u : ~bits));
  }
};
template <>
struct ListWords<Wide> {
  static constexpr bool wide = true;
  __device__ static std::uint64_t ordered(double key) {
    return ordered_float<std::uint64_t>(bits_of(key), 0x7ff0000000000000ull, false);
  }
  __device__ static double key(const WideWord& word) {
    return double_of((word.key >> 63) != 0 ? word.key ^ 1ull << 63 : ~word.key);
  }
};

}  // namespace vicinal::cuda
