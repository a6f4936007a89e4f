// Reading half of zip.hpp. Layouts: PKWARE's APPNOTE, sections 4.3.7 (local header), 4.3.12 (central directory),
// 4.3.14 to 4.3.16 (zip64 end, its locator, end), 4.5.3 (zip64 extra field).
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <set>

#include "io/message.hpp"
#include "io/zip.hpp"

namespace vicinal::io {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50, locator_signature = 0x07064b50;
constexpr std::size_t local_size = 30, central_size = 46, end_size = 22, end64_size = 56, locator_size = 20;

struct Directory {
  std::uint64_t entries, size, offset;
};

template <class... Parts>
[[noreturn]] void broken(const std::string& path, const Parts&... parts) {
  fail(ErrorCode::format_error, path, "damaged zip file: ", parts...);
}

/// A part of the file, or FormatError when it does not lie inside.
Bytes part(const std::string& path, Bytes file, std::uint64_t offset, std::uint64_t size, const char* what) {
  if (offset > file.size() || size > file.size() - offset) {
    broken(path, what, " needs ", size, " bytes at ", offset, " of ", file.size());
  }
  return file.subspan(offset, size);
}

/// The end record lies at the very end but for a comment of at most 65,535 bytes.
std::size_t find_end(const std::string& path, Bytes file) {
  // An archive starts with a member; an empty one is its end record alone.
  const std::uint32_t start = file.size() < end_size ? 0 : load<std::uint32_t>(file.data());
  if (start != local_signature && start != end_signature) {
    fail(ErrorCode::format_error, path, "not an npz file (", first_bytes(file), ")");
  }
  const std::size_t last = file.size() - end_size;
  const std::size_t first = last > 65535 ? last - 65535 : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    const std::byte* end = file.data() + at;
    if (load<std::uint32_t>(end) == end_signature && load<std::uint16_t>(end + 20) == last - at) return at;
  }
  broken(path, "no end record: truncated?");
}

Directory find_directory(const std::string& path, Bytes file) {
  const std::size_t at = find_end(path, file);
  const std::byte* end = file.data() + at;
  if (load<std::uint16_t>(end + 4) != 0 && load<std::uint16_t>(end + 4) != 0xFFFF) broken(path, "one of several disks");
  Directory directory{load<std::uint16_t>(end + 10), load<std::uint32_t>(end + 12), load<std::uint32_t>(end + 16)};
  const bool zip64 = at >= locator_size && load<std::uint32_t>(end - locator_size) == locator_signature;
  if (zip64) {
    const auto offset = load<std::uint64_t>(end - locator_size + 8);
    const std::byte* end64 = part(path, file, offset, end64_size, "the zip64 end record").data();
    if (load<std::uint32_t>(end64) != end64_signature) broken(path, "no zip64 end record where its locator points");
    directory = {load<std::uint64_t>(end64 + 32), load<std::uint64_t>(end64 + 40), load<std::uint64_t>(end64 + 48)};
  }
  if (directory.entries > directory.size / central_size) {
    broken(path, directory.entries, " members do not fit a directory of ", directory.size, " bytes");
  }
  return directory;
}

/// Replaces those of the three 32-bit fields that say "see the zip64 field".
void read_zip64_extra(const std::string& path, Bytes extra, std::uint64_t& size, std::uint64_t& packed,
                      std::uint64_t& offset) {
  constexpr std::uint64_t elsewhere = 0xFFFFFFFF;
  if (size != elsewhere && packed != elsewhere && offset != elsewhere) return;
  while (extra.size() >= 4) {
    const auto id = load<std::uint16_t>(extra.data());
    const auto length = load<std::uint16_t>(extra.data() + 2);
    Bytes field = extra.subspan(4);
    if (length > field.size()) break;
    field = field.first(length);
    extra = extra.subspan(4u + length);
    if (id != 1) continue;
    for (std::uint64_t* value : {&size, &packed, &offset}) {
      if (*value != elsewhere) continue;
      if (field.size() < 8) broken(path, "zip64 field too short");
      *value = load<std::uint64_t>(field.data());
      field = field.subspan(8);
    }
    return;
  }
}

/// Where the contents start: after the local header, whose name and extra field have lengths of their own.
Bytes find_packed(const std::string& path, Bytes file, std::uint64_t offset, std::uint64_t packed, unsigned method) {
  const std::byte* local = part(path, file, offset, local_size, "a member's header").data();
  if (load<std::uint32_t>(local) != local_signature) broken(path, "no member where the directory points");
  if (load<std::uint16_t>(local + 8) != method) broken(path, "a member's header differs from the directory");
  const std::uint64_t names = std::uint64_t{load<std::uint16_t>(local + 26)} + load<std::uint16_t>(local + 28);
  return part(path, file, offset + local_size + names, packed, "a member");
}

/// Unpacks until `out` is full or the stream ends; returns the bytes made and whether the stream ended there.
std::pair<std::size_t, bool> inflate_into(const std::string& path, const ZipEntry& entry, std::span<std::byte> out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw Error(ErrorCode::out_of_memory, cat("zlib: no memory to inflate ", printable(path)));
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ender(&stream, inflateEnd);
  constexpr std::size_t most = std::numeric_limits<uInt>::max() / 2;
  std::size_t taken = 0, made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(entry.packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min(most, entry.packed.size() - taken));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
    stream.avail_out = static_cast<uInt>(std::min(most, out.size() - made));
    const uInt in_before = stream.avail_in, out_before = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    taken += in_before - stream.avail_in;
    made += out_before - stream.avail_out;
    if (in_before == stream.avail_in && out_before == stream.avail_out) break;
  }
  if (status == Z_MEM_ERROR) throw Error(ErrorCode::out_of_memory, cat("zlib: no memory to inflate ", printable(path)));
  if (status != Z_OK && status != Z_BUF_ERROR && status != Z_STREAM_END) {
    broken(path, "member ", printable(entry.name, 64), " does not inflate");
  }
  return {made, status == Z_STREAM_END && taken == entry.packed.size()};
}

std::shared_ptr<std::byte[]> allocate(const std::string& path, std::size_t size) {
  std::byte* memory = new (std::nothrow) std::byte[size];  // not zeroed: pages are touched as they are filled
  if (memory == nullptr) {
    throw Error(ErrorCode::out_of_memory,
                cat("no memory for the ", size, " bytes of a compressed member of ", printable(path)));
  }
  return std::shared_ptr<std::byte[]>(memory);
}

std::uint32_t checksum(Bytes bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::vector<ZipEntry> zip_entries(const std::string& path, Bytes file) {
  const Directory directory = find_directory(path, file);
  Bytes rest = part(path, file, directory.offset, directory.size, "the directory");
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::byte* head = part(path, rest, 0, central_size, "the directory").data();
    if (load<std::uint32_t>(head) != central_signature) broken(path, "entry ", i, " of the directory is none");
    const auto flags = load<std::uint16_t>(head + 8), method = load<std::uint16_t>(head + 10);
    std::uint64_t packed = load<std::uint32_t>(head + 20), size = load<std::uint32_t>(head + 24),
                  offset = load<std::uint32_t>(head + 42);
    const std::size_t name_size = load<std::uint16_t>(head + 28), extra_size = load<std::uint16_t>(head + 30);
    const std::size_t comment_size = load<std::uint16_t>(head + 32);
    rest = rest.subspan(central_size);
    const Bytes tail = part(path, rest, 0, name_size + extra_size + comment_size, "the directory");
    rest = rest.subspan(tail.size());

    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(tail.data()), name_size);
    read_zip64_extra(path, tail.subspan(name_size, extra_size), size, packed, offset);
    if ((flags & 1) != 0) broken(path, "member ", printable(entry.name, 64), " is encrypted");
    if (method != 0 && method != 8) {
      fail(ErrorCode::unsupported, path, "member ", printable(entry.name, 64), " is compressed by method ", method,
           "; 0 (stored) and 8 (deflate) are read");
    }
    if (!names.insert(entry.name).second) broken(path, "two members are called ", printable(entry.name, 64));
    entry.deflated = method == 8;
    entry.crc = load<std::uint32_t>(head + 16);
    entry.size = size;
    entry.packed = find_packed(path, file, offset, packed, method);
    // Deflate makes at most 1,032 bytes of one, so a larger claim is no size to allocate.
    const bool possible = entry.deflated ? size / 1032 <= packed : size == packed;
    if (!possible) {
      broken(path, "member ", printable(entry.name, 64), " cannot hold ", size, " bytes in ", packed);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

ZipContents zip_contents(const std::string& path, const ZipEntry& entry) {
  ZipContents contents{entry.packed, nullptr};
  if (entry.deflated) {
    // One byte more than it should hold, so that a stream that goes on is noticed.
    const auto memory = allocate(path, entry.size + 1);
    const auto [made, ended] = inflate_into(path, entry, {memory.get(), entry.size + 1});
    if (!ended || made != entry.size) {
      broken(path, "member ", printable(entry.name, 64), " inflates to another size than its ", entry.size, " bytes");
    }
    contents = {{memory.get(), made}, memory};
  }
  if (checksum(contents.bytes) != entry.crc) broken(path, "member ", printable(entry.name, 64), ": checksum differs");
  return contents;
}

ZipContents zip_beginning(const std::string& path, const ZipEntry& entry, std::size_t most) {
  const std::size_t size = std::min<std::uint64_t>(most, entry.size);
  if (!entry.deflated) return {entry.packed.first(size), nullptr};
  const auto memory = allocate(path, size);
  const std::size_t made = inflate_into(path, entry, {memory.get(), size}).first;
  return {{memory.get(), made}, memory};
}

}  // namespace vicinal::io
