// The runtime that the host's parts of src/cuda are written for (cuda/strings/search.hpp says which), on the emulator.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/emulated.hpp"
#include "vicinal/matrix.hpp"

namespace emulated {

/// The device: memory of the host, poisoned, and counted.
struct Device {
  std::map<void*, std::int64_t> held;
  std::int64_t bytes_held = 0, most_held = 0;
  emulated::Launch launches;

  void* take(std::int64_t bytes) {
    void* memory = std::malloc(static_cast<std::size_t>(bytes));
    std::memset(memory, 0x5a, static_cast<std::size_t>(bytes));
    held[memory] = bytes;
    bytes_held += bytes;
    most_held = bytes_held > most_held ? bytes_held : most_held;
    return memory;
  }
  void give(void* memory) {
    bytes_held -= held[memory];
    held.erase(memory);
    std::free(memory);
  }
  void in(void* to, const void* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }
  void out(void* to, const void* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }
  void copy(void* to, const void* from, std::int64_t bytes) { in(to, from, bytes); }
  void rows_in(std::byte* to, const vicinal::Points& rows) {
    const auto size = static_cast<std::int64_t>(vicinal::dtype_size(rows.dtype));
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t c = 0; c < rows.cols; ++c)
        std::memcpy(to + (r * rows.cols + c) * size,
                    static_cast<const std::byte*>(rows.data) + r * rows.row_stride + c * rows.col_stride,
                    static_cast<std::size_t>(size));
  }
  void zero(void* at, std::int64_t bytes) { std::memset(at, 0, static_cast<std::size_t>(bytes)); }
  void wait() {}
  emulated::Launch& launch() { return launches; }
};

}  // namespace emulated
