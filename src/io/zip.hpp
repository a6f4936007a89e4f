// The part of the zip container that .npz needs: members that are stored or deflated, CRC-32, zip64. Reading trusts
// only the central directory, and that only after every offset and length was compared with the file. Writing
// knows all sizes beforehand, so the layout is computed first and the file is written once, front to back;
// times are fixed, so equal arrays give equal bytes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/bytes.hpp"

namespace vicinal::io {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;  // once unpacked
  Bytes packed;            // as it lies in the file
};

/// The members of a zip file. Throws FormatError; `path` is for messages.
std::vector<ZipEntry> zip_entries(const std::string& path, Bytes file);

/// A member's contents: the file's own bytes when stored, else memory that `keeper` holds.
struct ZipContents {
  Bytes bytes;
  std::shared_ptr<const void> keeper;  // null when stored
};
/// All of it, checksum verified. Throws FormatError, OutOfMemory.
ZipContents zip_contents(const std::string& path, const ZipEntry& entry);
/// At most the first `most` bytes, not verified: enough to see what a member is.
ZipContents zip_beginning(const std::string& path, const ZipEntry& entry, std::size_t most);

/// Members in the given order: start(), append to it exactly the announced bytes, ...; then finish().
class ZipWriter final : public Sink {
 public:
  struct Member {
    std::string name;
    std::uint64_t size;
  };
  /// From `zip64_from` bytes on, sizes and offsets are written in the 64-bit form (lowered by tests only).
  /// Contents start at multiples of 64 bytes, so that they can be mapped and used as they are.
  ZipWriter(AtomicFile& out, const std::vector<Member>& members, std::uint64_t zip64_from = 0xFFFFFFFF);

  void start();
  void append(Bytes bytes) override;
  void finish();

 private:
  struct Slot {
    Member member;
    std::uint64_t offset;  // of the local header
    std::uint64_t padding;
    std::uint32_t crc = 0;
  };
  std::vector<std::byte> local_header(const Slot& slot) const;
  std::vector<std::byte> central_header(const Slot& slot) const;
  std::vector<std::byte> ending() const;
  bool large(std::uint64_t value) const noexcept { return value >= zip64_from_; }
  void close_member();

  AtomicFile& out_;
  std::uint64_t zip64_from_;
  std::vector<Slot> slots_;
  std::size_t started_ = 0;
  std::uint64_t directory_offset_ = 0, directory_size_ = 0;
};

}  // namespace vicinal::io
