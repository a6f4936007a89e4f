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

/// Elements are whole numbers of a byte, and so finite.
inline bool holds_bytes(DType dtype) noexcept { return dtype == DType::u8 || dtype == DType::i8; }

inline const void* row_address(const Points& points, std::int64_t row) noexcept {
  return static_cast<const std::byte*>(points.data) + row * points.row_stride;
}

/// It returns where the elements of row `row` are adjacent and native: in place or, of rows that are not plain, in
/// `scratch`, of cols * 8 bytes.
inline const void* elements_of_row(const Points& points, std::int64_t row, void* scratch) {
  if (points.plain_rows()) return row_address(points, row);
  gather_row(points, row, scratch);
  return scratch;
}

/// It writes row `row` in fp64, exactly. scratch: as above.
inline void load_row(const RowKernels& kernels, const Points& points, std::int64_t row, void* scratch, double* to) {
  kernels.convert[static_cast<int>(points.dtype)](elements_of_row(points, row, scratch), points.cols, to);
}

}  // namespace vicinal
