// Rows of packed bits in the form that bits are counted in
// (cpu/isa/bits.hpp): 32 rows side by side, word by word of 32 bits.
#pragma once
#include <cstdint>

#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/parallel.hpp"
#include "cpu/isa/bits.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cpu {

/// Wider rows are ranked one by one: a tile of them leaves the caches.
inline constexpr std::int64_t most_counted_bytes = std::int64_t{1} << 14;

/// Words of a row of so many bytes, filled up with zeros.
constexpr std::int64_t words_of(std::int64_t bytes) noexcept { return (bytes + 3) / 4; }

/// A BitPacker packs rows of one matrix; each thread has its own.
class BitPacker {
 public:
  BitPacker(const Kernels& kernels, const Points& rows);
  /// Writes rows [first, first + count), at most panel_rows of them, as one panel; absent rows are zeros.
  void pack_panel(std::int64_t first, std::int64_t count, std::int32_t* to);
  /// Writes the words of a row, so many apart.
  void scatter(std::int64_t row, std::int64_t apart, std::int32_t* to);
  static std::int64_t bytes(std::int64_t cols) noexcept { return panel_rows * words_of(cols) * 4; }

 private:
  const Kernels& kernels_;
  const Points& rows_;
  const std::int64_t words_;
  const bool in_place_;  // rows are whole aligned words
  Buffer<float> gathered_;
};

/// All rows of a chunk: [panel][words][panel_rows].
Buffer<std::int32_t> pack_bits(const Kernels& kernels, const Points& rows, ThreadPool& thread_pool);
constexpr std::int64_t packed_bit_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rounded_up(rows, panel_rows) * words_of(cols) * 4;
}

}  // namespace vicinal::cpu
