// LOAD: rows of any view as rows that kernels can read. Plain rows are read in place; others (strided, swapped,
// unaligned) are gathered into scratch, one row at a time, so that no view is ever copied as one.
#pragma once
#include <cstddef>
#include <cstdint>

#include "prepare/row_kernels.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal {

/// It writes row `row` as adjacent native elements to `to` (cols * dtype_size bytes).
void gather_row(const Points& points, std::int64_t row, void* to);

inline const void* row_address(const Points& points, std::int64_t row) noexcept {
  return static_cast<const std::byte*>(points.data) + row * points.row_stride;
}

/// It writes row `row` in fp64, exactly. `scratch` holds cols * 8 bytes and is used only for rows that are not plain.
inline void load_row(const RowKernels& kernels, const Points& points, std::int64_t row, void* scratch, double* to) {
  const void* from = row_address(points, row);
  if (!points.plain_rows()) {
    gather_row(points, row, scratch);
    from = scratch;
  }
  kernels.convert[static_cast<int>(points.dtype)](from, points.cols, to);
}

}  // namespace vicinal
