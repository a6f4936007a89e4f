// The runtime that the host's parts of src/cuda are written for (cuda/strings/search.hpp says which), on the emulator.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/emulated.hpp"
#include "vicinal/matrix.hpp"

namespace emulated {

/// The device: memory of the host, poisoned, and counted.
struct Device {
  std::map<void*, std::int64_t> held;
  std::int64_t bytes_held = 0, most_held = 0;
  emulated::Launch launches;
  std::uint64_t begun = 0;
  std::map<std::uint64_t, std::pair<std::byte*, vicinal::Points>> late;
  std::vector<std::pair<void*, std::vector<std::byte>>> due;

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
  /// What comes from the device is there after wait(), and nothing of it before.
  void out(void* to, const void* from, std::int64_t bytes) {
    const auto* const first = static_cast<const std::byte*>(from);
    due.push_back({to, std::vector<std::byte>(first, first + bytes)});
    std::memset(to, 0x5a, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, std::int64_t bytes) { in(to, from, bytes); }
  void results_out(void* to, const void* from, std::int64_t bytes, vicinal::ThreadPool&) { out(to, from, bytes); }
  void mark(int) {}
  void out_beside(int, void* to, const void* from, std::int64_t bytes) { in(to, from, bytes); }
  void in_at_once(std::byte* to, const std::byte* from, std::int64_t bytes) { in(to, from, bytes); }
  void rows_in(std::byte* to, const vicinal::Points& rows) {
    const auto size = static_cast<std::int64_t>(vicinal::dtype_size(rows.dtype));
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t c = 0; c < rows.cols; ++c)
        std::memcpy(to + (r * rows.cols + c) * size,
                    static_cast<const std::byte*>(rows.data) + r * rows.row_stride + c * rows.col_stride,
                    static_cast<std::size_t>(size));
  }
  /// Every other transfer comes at once, the others at the last moment.
  std::uint64_t begin_rows(std::byte* to, const vicinal::Points& rows) {
    if (++begun % 2 == 0) rows_in(to, rows);
    else late[begun] = {to, rows};
    return begun;
  }
  void end_rows(std::uint64_t transfer) {
    if (const auto found = late.find(transfer); found != late.end()) {
      rows_in(found->second.first, found->second.second);
      late.erase(found);
    }
  }
  void drop_rows() { late.clear(); }
  void zero(void* at, std::int64_t bytes) { std::memset(at, 0, static_cast<std::size_t>(bytes)); }
  void wait() {
    for (const auto& [to, bytes] : due) std::memcpy(to, bytes.data(), bytes.size());
    due.clear();
  }
  emulated::Launch& launch() { return launches; }
};

}  // namespace emulated
