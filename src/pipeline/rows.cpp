#include "pipeline/rows.hpp"

#include <algorithm>
#include <cstring>

namespace vicinal {

Points copy_rows(const Points& rows, Buffer<std::byte>& to, Team& team) {
  constexpr std::int64_t at_once = 4096;
  const auto size = static_cast<std::int64_t>(dtype_size(rows.dtype)), row_bytes = rows.cols * size;
  to = Buffer<std::byte>(rows.rows * row_bytes);
  team.for_each((rows.rows + at_once - 1) / at_once, [&](std::int64_t piece, int) {
    for (std::int64_t r = piece * at_once; r < std::min(rows.rows, (piece + 1) * at_once); ++r) {
      const auto* from = static_cast<const std::byte*>(rows.data) + r * rows.row_stride;
      std::byte* out = to.data() + r * row_bytes;
      if (rows.col_stride == size) {
        std::memcpy(out, from, static_cast<std::size_t>(row_bytes));
      } else {
        for (std::int64_t c = 0; c < rows.cols; ++c)
          std::memcpy(out + c * size, from + c * rows.col_stride, static_cast<std::size_t>(size));
      }
      if (r % 64 == 0) team.tick(0);
    }
  });
  Points copy(to.data(), rows.dtype, rows.rows, rows.cols);
  copy.byte_swapped = rows.byte_swapped;
  return copy;
}

}  // namespace vicinal
