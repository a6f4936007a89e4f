// COPIES: of equal rows only the first ones by id can be neighbours, since they are all as far from any query. Where a
// sample shows many, a row with `enough` equal rows before it is no query's neighbour, and the filter excludes it.
// Without this a table of equal rows would overflow every list.
#pragma once
#include <algorithm>

#include "cuda/device/device.hpp"
#include "cuda/search/core/element.cuh"

namespace vicinal::cuda {

inline constexpr int duplicates_probes = 16, duplicates_threads = 256;

/// A kept corpus of many equal rows has enough of each for lists up to this; for longer ones a finer precision packs
/// its own. All equal rows of a list come from few tiles: of 2,048 the candidates of 2,048 queries overflowed.
inline constexpr std::int64_t prepared_duplicates = 128;

struct Duplicates {
  PreparedMatrix matrix;
  std::int64_t first = 0, last = 0;  // rows of this launch; those before were counted
  std::uint32_t enough = 0;
  std::uint32_t* table = nullptr;    // slots: a row of the group + 1
  std::uint32_t* counts = nullptr;   // of slots
  std::int64_t slots = 0;            // a power of two
  std::uint32_t* slot_of = nullptr;  // of rows; `slots` where none was found
  std::uint8_t* marks = nullptr;
};

/// An element as its value: both zeros are one.
__device__ __forceinline__ unsigned long long value_bits(const PreparedMatrix& matrix, std::int64_t at) {
  return bits_of(element(matrix.rows, matrix.dtype, at) + 0.0);
}
__device__ __forceinline__ unsigned long long mixed(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
/// A hash of the row that begins at `base`, by a warp; of equal rows it is equal.
__device__ __forceinline__ unsigned long long row_hash(const PreparedMatrix& matrix, std::int64_t base) {
  unsigned long long hash = 0;
  for (std::int64_t i = lane_index(); i < matrix.dims; i += 32)
    hash += mixed(value_bits(matrix, base + i) + 0x9e3779b97f4a7c15ull * static_cast<unsigned long long>(i + 1));
  for (int h = 16; h > 0; h /= 2) hash += __shfl_xor_sync(all_lanes, hash, h);
  return mixed(hash);
}

/// The group of each row, and whether rows before this launch fill it: a warp a row.
__global__ void __launch_bounds__(duplicates_threads) mark_duplicates(Duplicates c) {
  const PreparedMatrix& matrix = c.matrix;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t row = c.first + static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       row < c.last; row += warps) {
    const std::int64_t base = row * matrix.dims;
    const unsigned long long hash = row_hash(matrix, base);
    std::int64_t found = c.slots;
    for (int probe = 0; probe < duplicates_probes && found == c.slots; ++probe) {
      const auto slot = static_cast<std::int64_t>((hash + static_cast<unsigned long long>(probe)) &
                                                  static_cast<unsigned long long>(c.slots - 1));
      std::uint32_t other = 0;
      if (lane_index() == 0) other = atomicCAS(&c.table[slot], 0u, static_cast<std::uint32_t>(row) + 1);
      other = __shfl_sync(all_lanes, other, 0);
      bool same = true;
      if (other != 0)
        for (std::int64_t i = lane_index(); i < matrix.dims; i += 32)
          same = same && value_bits(matrix, base + i) ==
                             value_bits(matrix, (static_cast<std::int64_t>(other) - 1) * matrix.dims + i);
      if (__all_sync(all_lanes, same)) found = slot;
    }
    if (lane_index() != 0) continue;
    c.slot_of[row] = static_cast<std::uint32_t>(found);
    c.marks[row] = found < c.slots && c.counts[found] >= c.enough ? 1 : 0;
  }
}
__global__ void count_duplicates(Duplicates c) {
  const std::int64_t row = c.first + static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (row < c.last && c.slot_of[row] < c.slots && c.marks[row] == 0) atomicAdd(&c.counts[c.slot_of[row]], 1u);
}

/// Marks of rows that have `enough` equal rows before them: by
/// parts that double, each against the counts of those before.
template <class Device>
class DuplicateMarks {
 public:
  explicit DuplicateMarks(Device& device)
      : device_(device), table_(device), counts_(device), slot_of_(device), marks_(device) {}
  /// What marks of so many rows take.
  static std::int64_t bytes(std::int64_t rows) { return slots_of(rows) * 8 + rows * 5; }
  const std::uint8_t* mark(const PreparedMatrix& matrix, std::int64_t enough) {
    const std::int64_t slots = slots_of(matrix.count);
    Duplicates c{.matrix = matrix,
                 .enough = static_cast<std::uint32_t>(enough),
                 .table = table_.reserve(slots),
                 .counts = counts_.reserve(slots),
                 .slots = slots,
                 .slot_of = slot_of_.reserve(matrix.count),
                 .marks = marks_.reserve(matrix.count)};
    device_.zero(c.table, slots * 4);
    device_.zero(c.counts, slots * 4);
    for (c.last = std::min(matrix.count, (enough + 63) / 64 * 64);; c.last = std::min(matrix.count, 2 * c.last)) {
      const std::int64_t rows = c.last - c.first;
      device_.launch()(std::min<std::int64_t>((rows + 7) / 8, std::int64_t{device_.multiprocessors} * 32),
                       duplicates_threads, 0, mark_duplicates, c);
      device_.launch()((rows + 255) / 256, 256, 0, count_duplicates, c);
      if (c.last == matrix.count) return c.marks;
      c.first = c.last;
    }
  }

 private:
  static std::int64_t slots_of(std::int64_t rows) {
    std::int64_t slots = 1024;
    while (slots < 2 * rows) slots *= 2;
    return slots;
  }

  Device& device_;
  DeviceBuffer<std::uint32_t, Device> table_, counts_, slot_of_;
  DeviceBuffer<std::uint8_t, Device> marks_;
};

}  // namespace vicinal::cuda
