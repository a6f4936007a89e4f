// LOAD: see load.hpp. Rows whose elements lie side by side are copied as they are;
// others are packed in pieces. The copies are not overlapped with selection: the bus
// should be some fifty times slower than a selection reads, so there is little to gain.
#include "cuda/device/load.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "cuda/device/check.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;
constexpr const char* copying = "copying values to the device";

template <class Item>
Item swapped(Item item) {
  if constexpr (sizeof(Item) == 8) return __builtin_bswap64(item);
  else if constexpr (sizeof(Item) == 4) return __builtin_bswap32(item);
  else if constexpr (sizeof(Item) == 2) return __builtin_bswap16(item);
  else return item;
}

/// Elements [begin, end) of a row; their addresses need no alignment.
template <class Item>
void pack(std::byte* to, const HostTable& table, const std::byte* row, std::int64_t begin, std::int64_t end) {
  for (std::int64_t col = begin; col < end; ++col, to += sizeof(Item)) {
    Item item;
    std::memcpy(&item, row + col * table.col_stride, sizeof item);
    if (table.byte_swapped) item = swapped(item);
    std::memcpy(to, &item, sizeof item);
  }
}

void pack(std::byte* to, const HostTable& table, const std::byte* row, std::int64_t begin, std::int64_t end) {
  switch (table.item_size) {
    case 1: return pack<std::uint8_t>(to, table, row, begin, end);
    case 2: return pack<std::uint16_t>(to, table, row, begin, end);
    case 4: return pack<std::uint32_t>(to, table, row, begin, end);
    default: return pack<std::uint64_t>(to, table, row, begin, end);
  }
}

void copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream), copying);
}

void copy_packed(std::byte* to, const HostTable& table, std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  const std::int64_t room = piece_bytes / table.item_size, items = rows * cols;
  const std::unique_ptr<std::byte[]> piece(
      new std::byte[static_cast<std::size_t>(std::min(room, items) * table.item_size)]);
  for (std::int64_t done = 0; done < items; done += room) {
    const std::int64_t end = std::min(done + room, items);
    pack_items(piece.get(), table, cols, done, end);
    copy(to + done * table.item_size, piece.get(), (end - done) * table.item_size, stream);
    check(cudaStreamSynchronize(stream), copying);  // the next piece takes the same memory
  }
}

}  // namespace

void pack_items(std::byte* to, const HostTable& table, std::int64_t cols, std::int64_t begin, std::int64_t end) {
  const bool plain = is_plain(table, cols);
  if (plain && table.row_stride == cols * table.item_size) {
    std::memcpy(to, table.data + begin * table.item_size, static_cast<std::size_t>((end - begin) * table.item_size));
    return;
  }
  for (std::int64_t item = begin; item < end;) {
    const std::int64_t row = item / cols, col = item % cols, stop = std::min(cols, col + end - item);
    const std::byte* from = table.data + row * table.row_stride;
    if (plain) std::memcpy(to, from + col * table.item_size, static_cast<std::size_t>((stop - col) * table.item_size));
    else pack(to, table, from, col, stop);
    to += (stop - col) * table.item_size;
    item += stop - col;
  }
}

void copy_in(std::byte* to, HostTable table, std::int64_t first, std::int64_t rows, std::int64_t cols,
             cudaStream_t stream) {
  table.data += first * table.row_stride;
  const std::int64_t row_bytes = cols * table.item_size;
  const bool plain = is_plain(table, cols);
  const std::byte* from = table.data;
  constexpr std::int64_t widest = std::numeric_limits<int>::max();  // what CUDA takes as the distance between rows
  if (plain && (table.row_stride == row_bytes || rows == 1)) {
    copy(to, from, rows * row_bytes, stream);
  } else if (plain && table.row_stride > row_bytes && table.row_stride < widest) {
    check(cudaMemcpy2DAsync(to, static_cast<std::size_t>(row_bytes), from, static_cast<std::size_t>(table.row_stride),
                            static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(rows), cudaMemcpyHostToDevice,
                            stream),
          copying);
  } else {
    copy_packed(to, table, rows, cols, stream);
  }
}

}  // namespace vicinal::cuda
