// Rows describes values as kernels read them: any type, any strides; a value's key is computed when it is loaded.
#pragma once
#include "cuda/select/form.cuh"

namespace vicinal::cuda {

struct Rows {
  const unsigned char* data = nullptr;
  std::int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;
  std::uint32_t infinity = 0;  // of floating-point values of up to 32 bits, at the top of the word
  int size = 0;                // bytes a value
  int shift = 0;               // from the top of a word of 32 bits down to a key as wide as the value
  bool is_float = false, is_signed = false, largest = false;
};

inline Rows device_rows(const Values& values, bool largest) {
  Rows rows;
  rows.data = static_cast<const unsigned char*>(values.data);
  rows.rows = values.rows;
  rows.cols = values.cols;
  rows.row_stride = values.row_stride;
  rows.col_stride = values.col_stride;
  rows.size = static_cast<int>(value_size(values.type));
  rows.shift = rows.size < 4 ? 32 - 8 * rows.size : 0;
  rows.is_float = is_floating_point(values.type);
  rows.is_signed = is_signed_integer(values.type);
  rows.infinity = values.type == ValueType::f16 ? 0x7c000000u : 0x7f800000u;
  rows.largest = largest;
  return rows;
}

inline constexpr std::uint64_t infinity_f64 = 0x7ff0000000000000ull;

__device__ __forceinline__ const unsigned char* value_address(const Rows& rows, std::int64_t row, std::int64_t col) {
  return rows.data + row * rows.row_stride + col * rows.col_stride;
}

/// The key of a value, as select/ordered.hpp has it, widened to `Key`.
template <class Key>
__device__ __forceinline__ Key key_at(const Rows& rows, std::int64_t row, std::int64_t col) {
  const unsigned char* at = value_address(rows, row, col);
  if constexpr (sizeof(Key) == 8) {
    if (rows.size == 8) {
      const std::uint64_t bits = *reinterpret_cast<const std::uint64_t*>(at);
      return rows.is_float ? ordered_float<std::uint64_t>(bits, infinity_f64, rows.largest)
                           : ordered_integer<std::uint64_t>(bits, rows.is_signed, rows.largest);
    }
  }
  // Narrow values stand at the top of the word, where sign and infinity are as for 32 bits.
  std::uint32_t bits;
  if (rows.size == 4) bits = *reinterpret_cast<const std::uint32_t*>(at);
  else if (rows.size == 2) bits = static_cast<std::uint32_t>(*reinterpret_cast<const std::uint16_t*>(at)) << 16;
  else bits = static_cast<std::uint32_t>(*at) << 24;
  const std::uint32_t key = rows.is_float ? ordered_float<std::uint32_t>(bits, rows.infinity, rows.largest)
                                          : ordered_integer<std::uint32_t>(bits, rows.is_signed, rows.largest);
  return key >> rows.shift;
}

template <class Form>
__device__ __forceinline__ typename Form::Word input_word(const Rows& rows, std::int64_t row, std::int64_t col) {
  return Form::make(key_at<typename Form::Key>(rows, row, col), col);
}

/// Words of a row from where a pass finds them: an array, or null for the input.
template <class Form>
struct Source {
  Rows rows;
  const typename Form::Word* words;
  std::int64_t count;   // words a row
  std::int64_t stride;  // words from a row to the next
  __device__ __forceinline__ typename Form::Word at(std::int64_t row, std::int64_t i) const {
    return words != nullptr ? words[row * stride + i] : input_word<Form>(rows, row, i);
  }
};

}  // namespace vicinal::cuda
