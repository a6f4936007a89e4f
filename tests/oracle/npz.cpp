#include "oracle/npz.hpp"

#include <zlib.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace oracle {
namespace {
using Bytes = std::vector<unsigned char>;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error("npz: " + why); }

std::uint64_t little(const Bytes& from, std::size_t at, int size) {
  if (at + static_cast<std::size_t>(size) > from.size()) refuse("truncated");
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | from[at + static_cast<std::size_t>(i)];
  return value;
}

Bytes inflate_raw(const unsigned char* from, std::size_t packed, std::size_t size) {
  Bytes out(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) refuse("zlib");
  stream.next_in = const_cast<unsigned char*>(from);
  stream.avail_in = static_cast<uInt>(packed);
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(size);
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (status != Z_STREAM_END) refuse("bad deflate data");
  return out;
}

Array parse_npy(const Bytes& file) {
  if (file.size() < 12 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) refuse("a member is not .npy");
  const int length_size = file[6] == 1 ? 2 : 4;
  const auto length = little(file, 8, length_size);
  const std::size_t start = 8 + static_cast<std::size_t>(length_size) + length;
  if (start > file.size()) refuse("truncated .npy header");
  const std::string header(file.begin() + 8 + length_size, file.begin() + static_cast<std::ptrdiff_t>(start));
  if (header.find("'fortran_order': False") == std::string::npos) refuse("column-major member");
  Array array;
  const auto quote = header.find('\'', header.find("'descr':") + 8);
  array.descr = header.substr(quote + 1, header.find('\'', quote + 1) - quote - 1);
  auto at = header.find('(', header.find("'shape':")) + 1;
  const auto end = header.find(')', at);
  while (at < end) {
    std::size_t used = 0;
    array.shape.push_back(std::stoll(header.substr(at, end - at), &used));
    at += used;
    while (at < end && (header[at] == ',' || header[at] == ' ')) ++at;
  }
  array.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(start), file.end());
  return array;
}
}  // namespace

std::map<std::string, Array> read_npz(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) refuse("cannot open " + path);
  const Bytes file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (file.size() < 22) refuse("too short: " + path);
  std::size_t tail = file.size() - 22;  // the end record, behind which a comment may stand
  while (little(file, tail, 4) != 0x06054b50)
    if (tail-- == 0) refuse("no zip directory in " + path);
  std::map<std::string, Array> arrays;
  const auto members = little(file, tail + 10, 2);
  std::size_t at = little(file, tail + 16, 4);
  for (std::uint64_t m = 0; m < members; ++m) {
    if (little(file, at, 4) != 0x02014b50) refuse("bad zip directory in " + path);
    const auto method = little(file, at + 10, 2), packed = little(file, at + 20, 4), size = little(file, at + 24, 4);
    const auto name_size = little(file, at + 28, 2), extra = little(file, at + 30, 2),
               comment = little(file, at + 32, 2);
    const auto local = little(file, at + 42, 4);
    if (at + 46 + name_size > file.size()) refuse("truncated name");
    std::string name(reinterpret_cast<const char*>(&file[at + 46]), name_size);
    const std::size_t data = local + 30 + little(file, local + 26, 2) + little(file, local + 28, 2);
    if (data + packed > file.size()) refuse("truncated member " + name);
    if (method != 0 && method != 8) refuse("unknown compression of " + name);
    const Bytes content = method == 8 ? inflate_raw(&file[data], packed, size)
                                      : Bytes(file.begin() + static_cast<std::ptrdiff_t>(data),
                                              file.begin() + static_cast<std::ptrdiff_t>(data + size));
    if (name.size() > 4 && name.substr(name.size() - 4) == ".npy") name.resize(name.size() - 4);
    arrays[name] = parse_npy(content);
    at += 46 + name_size + extra + comment;
  }
  return arrays;
}

}  // namespace oracle
