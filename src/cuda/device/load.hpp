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

/// Rows [first, first + rows) to `to`, dense, in the stream's order. The table must stay until the stream has run.
void copy_in(std::byte* to, const HostTable& table, std::int64_t first, std::int64_t rows, std::int64_t cols,
             cudaStream_t stream);

}  // namespace vicinal::cuda
