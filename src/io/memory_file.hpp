// The bytes of a file in memory: what saving writes to a disk, for another process or a pickle.
#pragma once
#include <algorithm>
#include <memory>

#include "core/buffer.hpp"
#include "io/array.hpp"
#include "io/message.hpp"
#include "vicinal/corpus.hpp"

namespace vicinal::io {

/// Name of such bytes in messages, where a path stands otherwise.
inline const std::string saved_name = "saved bytes";

class MemoryFile final : public FileSink {
 public:
  /// Takes all of the memory at once. Throws OutOfMemory.
  void expect(std::uint64_t total) override { bytes_ = Buffer<std::byte>(static_cast<std::int64_t>(total)); }
  void append(Bytes bytes) override {
    put(size_, bytes);
    size_ += bytes.size();
  }
  void patch(std::uint64_t offset, Bytes bytes) override { put(offset, bytes); }
  std::uint64_t size() const noexcept override { return size_; }

  /// What was written, all of it.
  SavedBytes take() {
    const auto size = static_cast<std::size_t>(size_);
    auto owner = std::make_shared<Buffer<std::byte>>(std::move(bytes_));
    return {std::shared_ptr<const std::byte>(owner, owner->data()), size};
  }

 private:
  void put(std::uint64_t offset, Bytes bytes) {
    if (bytes.size() > static_cast<std::uint64_t>(bytes_.size()) - offset)
      fail(ErrorCode::internal, saved_name, "longer than the ", bytes_.size(), " bytes that were expected");
    std::copy(bytes.begin(), bytes.end(), bytes_.data() + offset);
  }
  Buffer<std::byte> bytes_;
  std::uint64_t size_ = 0;
};

}  // namespace vicinal::io
