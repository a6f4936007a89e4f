#include "pipeline/rows.hpp"

#include <algorithm>
#include <cstring>

#include "core/divide.hpp"

namespace vicinal {
namespace {

void copy_row(const Points& rows, std::int64_t row, std::byte* out) {
  const auto size = static_cast<std::int64_t>(dtype_size(rows.dtype));
  const auto* from = static_cast<const std::byte*>(rows.data) + row * rows.row_stride;
  if (rows.col_stride == size) {
    std::memcpy(out, from, static_cast<std::size_t>(rows.cols * size));
  } else {
    for (std::int64_t c = 0; c < rows.cols; ++c)
      std::memcpy(out + c * size, from + c * rows.col_stride, static_cast<std::size_t>(size));
  }
}

Points dense_as(const Points& rows, const std::byte* data, std::int64_t count) {
  Points copy(data, rows.dtype, count, rows.cols);
  copy.byte_swapped = rows.byte_swapped;
  return copy;
}

}  // namespace

Points copy_rows(const Points& rows, Buffer<std::byte>& to, ThreadPool& thread_pool) {
  constexpr std::int64_t at_once = 4096;
  const std::int64_t row_bytes = rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype));
  to = Buffer<std::byte>(rows.rows * row_bytes);
  thread_pool.for_each(divide_up(rows.rows, at_once), [&](std::int64_t piece, int) {
    for (std::int64_t r = piece * at_once; r < std::min(rows.rows, (piece + 1) * at_once); ++r) {
      copy_row(rows, r, to.data() + r * row_bytes);
      if (r % 64 == 0) thread_pool.poll(0);
    }
  });
  return dense_as(rows, to.data(), rows.rows);
}

Points gather_rows(const Points& rows, std::span<const std::int64_t> chosen, std::vector<std::byte>& to) {
  const std::int64_t row_bytes = rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype)),
                     count = std::ssize(chosen);
  to.resize(static_cast<std::size_t>(count * row_bytes));
  for (std::int64_t i = 0; i < count; ++i)
    copy_row(rows, chosen[static_cast<std::size_t>(i)], to.data() + i * row_bytes);
  return dense_as(rows, to.data(), count);
}

}  // namespace vicinal
