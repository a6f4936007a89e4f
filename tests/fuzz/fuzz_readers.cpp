// libFuzzer target for every reader: the first byte chooses the format and what the file is read as, the rest is
// the file. Every element of an accepted matrix is touched, so that a view beyond its file is caught. Build and run:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Isrc -Iinclude
//       tests/fuzz/fuzz_readers.cpp src/io/*.cpp src/core/{error,text,neighbors,metric,options}.cpp -lz -o fuzz_readers
//   fuzz_readers -max_len=2048 -rss_limit_mb=512 -malloc_limit_mb=256 CORPUS_FOLDER
// VICINAL_FUZZ_FORMAT=npz keeps to one format: then the first byte only says how it is read.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "io/format.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"

namespace {

using namespace vicinal;

const io::Format& choose(unsigned number) {
  static const char* const only = std::getenv("VICINAL_FUZZ_FORMAT");
  const auto table = io::format_table();
  for (const io::Format* format : table) {
    if (only != nullptr && std::strcmp(format->name, only) == 0) return *format;
  }
  const io::Format& format = *table[number % table.size()];
  return &format == &io::hdf5_format ? io::npz_format : format;  // what libhdf5 does to such bytes is not ours to mend
}

/// A file in memory whose name ends as the format wants.
std::string place(const io::Format& format, const std::uint8_t* data, std::size_t size) {
  static const std::string folder = [] {
    std::string name = "/dev/shm/vicinal-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }();
  std::string path = folder + "/a" + format.suffix;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size) || ::close(fd) != 0) std::abort();
  return path;
}

/// Sums all bytes; a few claims (rows of no columns) have more rows than there is time for.
void touch(const Points& p) {
  volatile unsigned sum = 0;
  const auto size = static_cast<std::int64_t>(dtype_size(p.dtype));
  for (std::int64_t row = 0; row < p.rows && p.cols > 0; ++row) {
    for (std::int64_t col = 0; col < p.cols; ++col) {
      const auto* item = static_cast<const unsigned char*>(p.data) + row * p.row_stride + col * p.col_stride;
      for (std::int64_t i = 0; i < size; ++i) sum = sum + item[i];
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const io::Format& format = choose(choice & 31);
  const std::string path = place(format, data + 1, size - 1);
  try {
    if ((format.read_roles & io::as_range) != 0 && (choice & 192) == 192) read_range(path);
    else if ((choice & 32) == 0) touch(read_matrix(path, {(choice & 64) != 0 ? "x" : ""}).points());
    else if ((choice & 64) == 0 || (format.read_roles & io::as_distances) == 0) read_result(path);
    else read_result(path, path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  return 0;
}
