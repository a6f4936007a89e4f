// LOAD: rows of the host's memory, in any strides and either byte order, as dense rows on the device.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace vicinal::cuda {

/// A table of the host, elements of 1, 2, 4 or 8 bytes.
struct HostTable {
  const std::byte* data = nullptr;
  std::int64_t item_size = 0;
  std::int64_t row_stride = 0, col_stride = 0;  // bytes, of any sign
  bool byte_swapped = false;
};

/// Whether the elements of a row lie side by side, as the device wants them.
inline bool is_plain(const HostTable& table, std::int64_t cols) {
  return !table.byte_swapped && (table.col_stride == table.item_size || cols == 1);
}

/// Elements [begin, end) of the rows, which have `cols` each, side by side
/// and in the machine's byte order. Their addresses need no alignment.
void pack_items(std::byte* to, const HostTable& table, std::int64_t cols, std::int64_t begin, std::int64_t end);

/// Rows [first, first + rows) to `to`, dense, in the stream's order. The table must stay until the stream has run.
void copy_in(std::byte* to, HostTable table, std::int64_t first, std::int64_t rows, std::int64_t cols,
             cudaStream_t stream);

}  // namespace vicinal::cuda
