// See panels.hpp. Words go through the packing of floats, which moves them as they are.
#include "cpu/bits/panels.hpp"

#include <algorithm>
#include <cstring>

#include "core/divide.hpp"
#include "cpu/prepare/per_thread.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {

static_assert(sizeof(float) == sizeof(std::int32_t), "a word moves as a float");

BitPacker::BitPacker(const Kernels& kernels, const Points& rows)
    : kernels_(kernels), rows_(rows), words_(words_of(rows.cols)),
      in_place_(rows.plain_rows() && rows.cols % 4 == 0 && rows.row_stride % 4 == 0 &&
                reinterpret_cast<std::uintptr_t>(rows.data) % 4 == 0),
      gathered_(panel_rows * words_) {
  std::memset(gathered_.data(), 0, static_cast<std::size_t>(gathered_.bytes()));
}

void BitPacker::pack_panel(std::int64_t first, std::int64_t count, std::int32_t* to) {
  const auto* from = static_cast<const float*>(in_place_ ? row_address(rows_, first) : gathered_.data());
  if (!in_place_)
    for (std::int64_t i = 0; i < count; ++i) gather_row(rows_, first + i, gathered_.data() + i * words_);
  kernels_.pack(from, in_place_ ? rows_.row_stride / 4 : words_, static_cast<int>(count), panel_rows, words_,
                reinterpret_cast<float*>(to));
}

void BitPacker::scatter(std::int64_t row, std::int64_t apart, std::int32_t* to) {
  gather_row(rows_, row, gathered_.data());
  for (std::int64_t k = 0; k < words_; ++k) std::memcpy(to + k * apart, gathered_.data() + k, sizeof *to);
}

Buffer<std::int32_t> pack_bits(const Kernels& kernels, const Points& rows, ThreadPool& thread_pool) {
  const std::int64_t words = words_of(rows.cols), tiles = divide_up(rows.rows, tile_rows);
  Buffer<std::int32_t> panels(packed_bit_bytes(rows.rows, rows.cols) / 4);
  PerThread<BitPacker> packers(thread_pool, [&] { return std::make_unique<BitPacker>(kernels, rows); });
  thread_pool.for_each(tiles, [&](std::int64_t tile, int worker) {
    for (std::int64_t at = tile * tile_rows; at < std::min(rows.rows, (tile + 1) * tile_rows); at += panel_rows)
      packers.of(worker).pack_panel(at, std::min<std::int64_t>(panel_rows, rows.rows - at), panels.data() + at * words);
    thread_pool.poll(0);
  });
  return panels;
}

}  // namespace vicinal::cpu
