// Views of rows in memory: the element types, a typed view, and the erased view that every call takes.
// A view never owns. Any stride (negative, zero, column-major), any alignment and either byte order are
// read in place; nothing is copied to be understood.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace vicinal {

enum class DType : std::uint8_t { f32, f64, f16, bf16, u8, i8 };

/// Sixteen bits of an IEEE half and of a bfloat16: storage types, with no arithmetic of their own.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};

/// "f32", "f64", "f16", "bf16", "u8", "i8".
const char* dtype_name(DType type) noexcept;
constexpr std::size_t dtype_size(DType type) noexcept {
  switch (type) {
    case DType::f64: return 8;
    case DType::f32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8:
    case DType::i8: break;
  }
  return 1;
}

template <class T>
constexpr DType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, f16>) return DType::f16;
  else if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else {
    static_assert(std::is_same_v<T, std::int8_t>, "vectors are f32, f64, f16, bf16, u8 or i8");
    return DType::i8;
  }
}

/// Row-major rows x cols elements; `stride` elements from one row to the next (0 means cols).
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

/// The erased view. Strides are in bytes and may have any sign; `byte_swapped` says that the elements
/// are stored in the other byte order than this machine's.
struct Points {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  bool byte_swapped = false;

  Points() = default;
  template <class T>
  Points(MatrixView<T> m)  // NOLINT(google-explicit-constructor): a typed view is a view
      : data(m.data), dtype(dtype_of<T>()), rows(m.rows), cols(m.cols),
        row_stride((m.stride != 0 ? m.stride : m.cols) * static_cast<std::int64_t>(sizeof(T))),
        col_stride(static_cast<std::int64_t>(sizeof(T))) {}
  /// The erased form: row-major and dense unless strides are given.
  Points(const void* d, DType t, std::int64_t r, std::int64_t c)
      : data(d), dtype(t), rows(r), cols(c), row_stride(c * static_cast<std::int64_t>(dtype_size(t))),
        col_stride(static_cast<std::int64_t>(dtype_size(t))) {}

  /// Elements of a row lie side by side, aligned, in this machine's byte order.
  bool plain_rows() const noexcept {
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    return col_stride == size && !byte_swapped && row_stride % size == 0 &&
           reinterpret_cast<std::uintptr_t>(data) % dtype_size(dtype) == 0;
  }
  /// Rows [first, first + count) of the same matrix.
  Points slice(std::int64_t first, std::int64_t count) const noexcept {
    Points part = *this;
    part.data = static_cast<const std::byte*>(data) + first * row_stride;
    part.rows = count;
    return part;
  }
};

}  // namespace vicinal
