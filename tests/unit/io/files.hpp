// What the tests of src/io share: a directory that goes away, whole files as strings, .npy and .zip files built by
// hand (by the formats' documents, not by the code under test), and errors as values.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "io/bytes.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"

namespace vicinal::test {

inline io::Bytes bytes_of(const std::string& text) { return io::as_bytes(text.data(), text.size()); }

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "vicinal-io-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

/// A new file each time: some file systems flush one that was cut and written again, and tests write thousands.
inline void spit(const std::string& path, const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  ASSERT_TRUE(out.good()) << path;
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The bytes of a value, little-endian as this machine has them.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes;
  for (const T& value : values) bytes += raw(value);
  return bytes;
}
inline std::string reversed_items(const std::string& bytes, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += size)
    out.append(bytes.rend() - static_cast<std::ptrdiff_t>(i + size), bytes.rend() - static_cast<std::ptrdiff_t>(i));
  return out;
}

/// A .npy file with exactly this header text.
inline std::string npy_with_header(std::string header, const std::string& data, int version = 1) {
  const std::size_t fixed = version == 1 ? 10 : 12;
  while ((fixed + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  file +=
      version == 1 ? raw(static_cast<std::uint16_t>(header.size())) : raw(static_cast<std::uint32_t>(header.size()));
  return file + header + data;
}
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       bool fortran = false, int version = 1) {
  return npy_with_header(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
      data, version);
}

struct ZipMember {
  std::string name, content;
  bool deflate = false;
};

inline std::string deflated(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::uint32_t crc_of(const std::string& content) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
}

/// A zip file as Python's zipfile lays it out; zip64 puts every size and offset into the 64-bit fields.
inline std::string zip(const std::vector<ZipMember>& members, bool zip64 = false) {
  const auto u16 = [](std::size_t v) { return raw(static_cast<std::uint16_t>(v)); };
  const auto u32 = [](std::size_t v) { return raw(static_cast<std::uint32_t>(v)); };
  const auto u64 = [](std::size_t v) { return raw(static_cast<std::uint64_t>(v)); };
  constexpr std::size_t elsewhere = 0xFFFFFFFF;
  std::string file, directory;
  for (const ZipMember& m : members) {
    const std::string packed = m.deflate ? deflated(m.content) : m.content;
    const std::size_t offset = file.size();
    const std::string common = u16(45) + u16(0) + u16(m.deflate ? 8 : 0) + u16(0) + u16(33) + u32(crc_of(m.content)) +
                               u32(zip64 ? elsewhere : packed.size()) + u32(zip64 ? elsewhere : m.content.size()) +
                               u16(m.name.size());
    file += u32(0x04034b50) + common + u16(zip64 ? 20 : 0) + m.name;
    if (zip64) file += u16(1) + u16(16) + u64(m.content.size()) + u64(packed.size());
    file += packed;
    directory += u32(0x02014b50) + u16(45) + common + u16(zip64 ? 28 : 0) + u16(0) + u16(0) + u16(0) + u32(0) +
                 u32(zip64 ? elsewhere : offset) + m.name;
    if (zip64) directory += u16(1) + u16(24) + u64(m.content.size()) + u64(packed.size()) + u64(offset);
  }
  const std::size_t start = file.size(), end64 = start + directory.size();
  file += directory;
  if (zip64) {
    file += u32(0x06064b50) + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(members.size()) +
            u64(members.size()) + u64(directory.size()) + u64(start);
    file += u32(0x07064b50) + u32(0) + u64(end64) + u32(1);
  }
  const std::size_t count = zip64 ? 0xFFFF : members.size();
  return file + u32(0x06054b50) + u16(0) + u16(0) + u16(count) + u16(count) +
         u32(zip64 ? elsewhere : directory.size()) + u32(zip64 ? elsewhere : start) + u16(0);
}

/// The Error that `call` throws, if it throws one; anything else thrown fails the test.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Code and a part of the message.
inline void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& call) {
  const std::optional<Error> error = error_of(call);
  ASSERT_TRUE(error.has_value()) << "no error, expected " << error_name(code) << " with \"" << part << '"';
  EXPECT_EQ(error->code(), code) << error->what();
  EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what() << "\nlacks: " << part;
}

/// Every element of a matrix as the bytes of its value, row by row, in this machine's order.
inline std::string elements(const Points& p) {
  const std::size_t size = dtype_size(p.dtype);
  std::string all;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t col = 0; col < p.cols; ++col) {
      std::string item(static_cast<const char*>(p.data) + row * p.row_stride + col * p.col_stride, size);
      all += p.byte_swapped ? reversed_items(item, size) : item;
    }
  }
  return all;
}

inline Neighbors make_neighbors(std::int64_t rows, std::int64_t k, DistanceType type, bool counted = false,
                                std::int64_t first_id = 0) {
  Neighbors result(rows, k, type, counted);
  const NeighborsView view = result.view();
  for (std::int64_t i = 0; i < rows * k; ++i) {
    view.ids[i] = i % 7 == 6 ? -1 : first_id + i * 3;
    const double distance = static_cast<double>(i) / 3;
    if (type == DistanceType::f64) static_cast<double*>(view.distances)[i] = distance;
    else if (type == DistanceType::u32)
      static_cast<std::uint32_t*>(view.distances)[i] = static_cast<std::uint32_t>(i * 5);
    else static_cast<float*>(view.distances)[i] = static_cast<float>(distance);
  }
  for (std::int64_t row = 0; counted && row < rows; ++row) view.counts[row] = row % (k + 1);
  return result;
}

inline void expect_same(const ResultFile& read, const Neighbors& written, bool with_distances) {
  ASSERT_EQ(read.rows, written.rows());
  ASSERT_EQ(read.k, written.k());
  const auto count = static_cast<std::size_t>(read.rows * read.k);
  ASSERT_EQ(read.ids.size(), count);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(read.ids[i], written.ids()[i]) << i;
  ASSERT_EQ(read.has_distances, with_distances);
  if (!with_distances) return;
  ASSERT_EQ(read.distance_type, written.type());
  ASSERT_EQ(read.distances.size(), count * distance_size(written.type()));
  const auto* bytes = static_cast<const std::byte*>(written.distances());
  EXPECT_TRUE(std::equal(read.distances.begin(), read.distances.end(), bytes));
}

}  // namespace vicinal::test
