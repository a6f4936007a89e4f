// See array.hpp.
#include "io/array.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t chunk_bytes = 16384;

void append_narrowed(Sink& out, const std::byte* wide, std::int64_t count) {
  std::int32_t narrow[chunk_bytes / 8];
  for (std::int64_t i = 0; i < count; ++i) narrow[i] = static_cast<std::int32_t>(load<std::int64_t>(wide + 8 * i));
  out.append(as_bytes(narrow, static_cast<std::size_t>(count) * 4));
}

}  // namespace

const char* item_name(Item item) noexcept {
  static constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16", "uint8",  "int8",
                                          "uint16",  "int16",   "uint32",  "int32",    "uint64", "int64"};
  return names[static_cast<int>(item)];
}

Item item_of(DType type) noexcept {
  switch (type) {
    case DType::f32: return Item::f32;
    case DType::f64: return Item::f64;
    case DType::f16: return Item::f16;
    case DType::bf16: return Item::bf16;
    case DType::u8: return Item::u8;
    case DType::i8: break;
  }
  return Item::i8;
}

std::optional<DType> vector_type(Item item) noexcept {
  switch (item) {
    case Item::f16: return DType::f16;
    case Item::bf16: return DType::bf16;
    case Item::f32: return DType::f32;
    case Item::f64: return DType::f64;
    case Item::u8: return DType::u8;
    case Item::i8: return DType::i8;
    case Item::u16:
    case Item::i16:
    case Item::u32:
    case Item::i32:
    case Item::u64:
    case Item::i64: break;
  }
  return std::nullopt;
}

Array Array::dense(const void* data, Item item, std::int64_t rows, std::int64_t cols) noexcept {
  Array array;
  array.data = static_cast<const std::byte*>(data);
  array.item = item;
  array.rows = rows;
  array.cols = cols;
  array.col_stride = static_cast<std::int64_t>(value_size(item));
  array.row_stride = cols * array.col_stride;
  return array;
}

Array Array::line(const void* data, Item item, std::int64_t count) noexcept {
  Array array = dense(data, item, 1, count);
  array.flat = true;
  return array;
}

Array Array::view(const Points& points) noexcept {
  Array array = dense(points.data, item_of(points.dtype), points.rows, points.cols);
  array.row_stride = points.row_stride;
  array.col_stride = points.col_stride;
  array.swapped = points.byte_swapped;
  return array;
}

std::string Array::shape() const { return flat ? cat("(", rows * cols, ",)") : cat("(", rows, ", ", cols, ")"); }

void copy_items(const Array& array, std::int64_t row, std::int64_t first, std::int64_t count, std::byte* out) noexcept {
  const std::size_t size = value_size(array.item);
  const std::byte* from = array.data + row * array.row_stride + first * array.col_stride;
  if (array.col_stride == static_cast<std::int64_t>(size)) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * size);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(out + static_cast<std::size_t>(i) * size, from + i * array.col_stride, size);
    }
  }
  if (!array.swapped || size == 1) return;
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* item = out + static_cast<std::size_t>(i) * size;
    std::reverse(item, item + size);
  }
}

void append_rows(Sink& out, const Array& array, Item stored, Bytes prefix) {
  const std::size_t size = value_size(array.item);
  const bool plain = array.col_stride == static_cast<std::int64_t>(size) && (!array.swapped || size == 1);
  const bool narrow = value_size(stored) < size;  // items of one size have the same bits
  const std::int64_t row_bytes = array.cols * static_cast<std::int64_t>(size);
  if (array.rows == 0 || (array.cols == 0 && prefix.empty())) return;

  if (plain && !narrow && prefix.empty() && array.row_stride == row_bytes) {
    out.append({array.data, static_cast<std::size_t>(array.rows * row_bytes)});
    return;
  }
  std::byte chunk[chunk_bytes];
  const auto most = static_cast<std::int64_t>(chunk_bytes / size);
  for (std::int64_t row = 0; row < array.rows; ++row) {
    out.append(prefix);
    if (plain && !narrow) {
      out.append({array.data + row * array.row_stride, static_cast<std::size_t>(row_bytes)});
      continue;
    }
    for (std::int64_t first = 0; first < array.cols; first += most) {
      const std::int64_t count = std::min(most, array.cols - first);
      copy_items(array, row, first, count, chunk);
      if (narrow) append_narrowed(out, chunk, count);
      else out.append({chunk, static_cast<std::size_t>(count) * size});
    }
  }
}

}  // namespace vicinal::io
