// Gathering of rows that are not plain: see load.hpp.
#include "prepare/load.hpp"

#include <algorithm>
#include <cstring>

namespace vicinal {
namespace {

template <std::size_t Size>
void gather(const std::byte* from, std::int64_t step, std::int64_t count, bool swapped, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte element[Size];
    std::memcpy(element, from + i * step, Size);
    if (swapped) std::reverse(element, element + Size);
    std::memcpy(to + i * static_cast<std::int64_t>(Size), element, Size);
  }
}

}  // namespace

void gather_row(const Points& points, std::int64_t row, void* to) {
  const auto* from = static_cast<const std::byte*>(row_address(points, row));
  auto* out = static_cast<std::byte*>(to);
  const std::size_t size = dtype_size(points.dtype);
  if (points.col_stride == static_cast<std::int64_t>(size) && !points.byte_swapped)
    return void(std::memcpy(out, from, static_cast<std::size_t>(points.cols) * size));
  switch (size) {
    case 8: return gather<8>(from, points.col_stride, points.cols, points.byte_swapped, out);
    case 4: return gather<4>(from, points.col_stride, points.cols, points.byte_swapped, out);
    case 2: return gather<2>(from, points.col_stride, points.cols, points.byte_swapped, out);
    default: return gather<1>(from, points.col_stride, points.cols, false, out);
  }
}

}  // namespace vicinal
