// Rows of the host's memory that come in chunks: one chunk is
// on its way to the device while the one before it is searched.
#pragma once
#include <cstdint>

#include "cuda/device/device.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

/// IncomingRows has the rows of two chunks on the device, those that are searched and those that come next.
template <class Device>
class IncomingRows {
 public:
  explicit IncomingRows(Device& device) : device_(device), chunks_{Chunk(device), Chunk(device)} {}
  ~IncomingRows() { device_.drop_rows(); }
  IncomingRows(const IncomingRows&) = delete;
  IncomingRows& operator=(const IncomingRows&) = delete;

  /// It begins to bring rows [first, first + count), which are taken after those that were expected before. The chunk
  /// before last must have been searched, as far as launches go.
  void expect(const Points& corpus, std::int64_t first, std::int64_t count) {
    if (expected(first) != nullptr) return;
    Chunk& chunk = chunks_[turn_];
    turn_ = 1 - turn_;
    const std::int64_t bytes = count * corpus.cols * static_cast<std::int64_t>(dtype_size(corpus.dtype));
    chunk.transfer = device_.begin_rows(chunk.rows.reserve(bytes), corpus.slice(first, count));
    chunk.first = first;
  }
  /// The rows on the device, for launches from now on.
  Points take(const Points& corpus, std::int64_t first, std::int64_t count) {
    expect(corpus, first, count);
    Chunk& chunk = *expected(first);
    chunk.first = -1;
    device_.end_rows(chunk.transfer);
    return {chunk.rows.data(), corpus.dtype, count, corpus.cols};
  }

 private:
  struct Chunk {
    explicit Chunk(Device& device) : rows(device) {}
    DeviceBuffer<std::byte, Device> rows;
    std::int64_t first = -1;  // of the rows that are on their way; -1: none
    std::uint64_t transfer = 0;
  };
  Chunk* expected(std::int64_t first) {
    for (Chunk& chunk : chunks_)
      if (chunk.first == first) return &chunk;
    return nullptr;
  }

  Device& device_;
  Chunk chunks_[2];
  int turn_ = 0;
};

}  // namespace vicinal::cuda
