// Writing half of zip.hpp; see zip_read.cpp for where the layouts come from. Sizes that need it, and only those,
// use the zip64 fields. Contents are moved to multiples of 64 bytes by an extra field (0xD935, "alignment").
#include <zlib.h>

#include "io/zip.hpp"

namespace vicinal::io {
namespace {

constexpr std::uint64_t local_head = 30, alignment = 64;
constexpr std::uint64_t local_zip64_size = 20, central_zip64_size = 28, padding_head = 6;
constexpr std::uint16_t version = 45, first_day = 0x0021;  // 1980-01-01: a result must not depend on the clock

/// Little-endian fields one after the other.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return put(static_cast<std::uint16_t>(value)); }
  Fields& u32(std::uint64_t value) { return put(static_cast<std::uint32_t>(value)); }
  Fields& u64(std::uint64_t value) { return put(value); }
  Fields& text(const std::string& name) { return raw(as_bytes(name.data(), name.size())); }
  Fields& zeros(std::uint64_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <class T>
  Fields& put(T value) {
    return raw(as_bytes(&value, sizeof value));
  }
  Fields& raw(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::vector<std::byte> bytes_;
};

}  // namespace

ZipWriter::ZipWriter(AtomicFile& out, const std::vector<Member>& members, std::uint64_t zip64_from)
    : out_(out), zip64_from_(zip64_from) {
  std::uint64_t offset = 0;
  for (const Member& member : members) {
    const std::uint64_t head =
        local_head + member.name.size() + (large(member.size) ? local_zip64_size : 0) + padding_head;
    const std::uint64_t padding = (alignment - (offset + head) % alignment) % alignment;
    slots_.push_back({member, offset, padding});
    offset += head + padding + member.size;
  }
  directory_offset_ = offset;
  for (const Slot& slot : slots_) directory_size_ += central_header(slot).size();
  out_.expect(directory_offset_ + directory_size_ + ending().size());
}

std::vector<std::byte> ZipWriter::local_header(const Slot& slot) const {
  const auto& [name, size] = slot.member;
  const bool zip64 = large(size);
  Fields head;
  head.u32(0x04034b50).u16(version).u16(0).u16(0).u16(0).u16(first_day).u32(slot.crc);
  head.u32(zip64 ? 0xFFFFFFFF : size).u32(zip64 ? 0xFFFFFFFF : size);
  head.u16(name.size()).u16((zip64 ? local_zip64_size : 0) + padding_head + slot.padding).text(name);
  if (zip64) head.u16(1).u16(16).u64(size).u64(size);
  head.u16(0xD935).u16(2 + slot.padding).u16(alignment).zeros(slot.padding);
  return head.take();
}

std::vector<std::byte> ZipWriter::central_header(const Slot& slot) const {
  const auto& [name, size] = slot.member;
  const bool zip64 = large(size) || large(slot.offset);
  Fields head;
  head.u32(0x02014b50).u16(version).u16(version).u16(0).u16(0).u16(0).u16(first_day).u32(slot.crc);
  head.u32(zip64 ? 0xFFFFFFFF : size).u32(zip64 ? 0xFFFFFFFF : size);
  head.u16(name.size()).u16(zip64 ? central_zip64_size : 0).u16(0).u16(0).u16(0).u32(0);
  head.u32(zip64 ? 0xFFFFFFFF : slot.offset).text(name);
  if (zip64) head.u16(1).u16(24).u64(size).u64(size).u64(slot.offset);
  return head.take();
}

std::vector<std::byte> ZipWriter::ending() const {
  const std::uint64_t count = slots_.size();
  const bool zip64 = large(directory_offset_) || large(directory_size_) || count >= 0xFFFF;
  Fields end;
  if (zip64) {
    end.u32(0x06064b50).u64(44).u16(version).u16(version).u32(0).u32(0).u64(count).u64(count);
    end.u64(directory_size_).u64(directory_offset_);
    end.u32(0x07064b50).u32(0).u64(directory_offset_ + directory_size_).u32(1);
  }
  end.u32(0x06054b50).u16(0).u16(0).u16(zip64 ? 0xFFFF : count).u16(zip64 ? 0xFFFF : count);
  end.u32(zip64 ? 0xFFFFFFFF : directory_size_).u32(zip64 ? 0xFFFFFFFF : directory_offset_).u16(0);
  return end.take();
}

void ZipWriter::start() {
  close_member();
  out_.append(local_header(slots_[started_]));
  ++started_;
}

void ZipWriter::append(Bytes bytes) {
  if (bytes.empty()) return;  // zlib takes a null pointer for a request to start anew
  Slot& slot = slots_[started_ - 1];
  slot.crc = static_cast<std::uint32_t>(crc32_z(slot.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  out_.append(bytes);
}

/// The header was written before the checksum could be known.
void ZipWriter::close_member() {
  if (started_ == 0) return;
  const Slot& slot = slots_[started_ - 1];
  out_.patch(slot.offset + 14, as_bytes(&slot.crc, sizeof slot.crc));
}

void ZipWriter::finish() {
  close_member();
  for (const Slot& slot : slots_) out_.append(central_header(slot));
  out_.append(ending());
}

}  // namespace vicinal::io
