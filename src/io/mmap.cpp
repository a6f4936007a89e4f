// See mmap.hpp.
#include "io/mmap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include "io/message.hpp"

namespace vicinal::io {
namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) noexcept : fd(opened) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::pair<std::uint64_t, std::uint64_t> identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

/// Throws the IoError that a missing file, a folder, a device or a lack of permission is worth.
Descriptor open_file(const std::string& path, const char* verb, std::size_t& size) {
  check_path(path);
  // Without O_NONBLOCK, opening a FIFO would wait for a writer before it could be refused.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) fail_system("open", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail_system("open", path, errno);
  if (S_ISDIR(status.st_mode)) fail_system("open", path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail_system(verb, path, ENODEV, "not a regular file");
  size = static_cast<std::size_t>(status.st_size);
  return file;
}

void read_fully(const std::string& path, int fd, std::byte* to, std::size_t size) {
  std::size_t offset = 0;
  while (size > 0) {
    const ssize_t done = ::pread(fd, to, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_system("read", path, errno);
    if (done == 0)
      fail(ErrorCode::format_error, path, "the file ended at ", offset, " while it was read: did it shrink?");
    to += done;
    offset += static_cast<std::size_t>(done);
    size -= static_cast<std::size_t>(done);
  }
}

void* address(Bytes bytes) { return const_cast<std::byte*>(bytes.data()); }

}  // namespace

void check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) fail(ErrorCode::invalid_argument, path, "path holds a NUL byte");
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  std::size_t size = 0;
  const Descriptor file = open_file(path, "map", size);
  struct stat status;
  if (::fstat(file.fd, &status) == 0) identity_ = identity_of(status);
  if (size == 0) return;
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);  // as FileBehind wants it
  if (start == MAP_FAILED) fail_system("map", path, errno);
  bytes_ = as_bytes(start, size);
}

bool MappedFile::is_behind(int descriptor) const noexcept {
  struct stat status;
  return ::fstat(descriptor, &status) == 0 && identity_of(status) == identity_;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(address(bytes_), bytes_.size());
}

MappedFile::Sequential::Sequential(const MappedFile& file) noexcept : file_(file) {
  if (!file_.bytes_.empty()) ::madvise(address(file_.bytes_), file_.bytes_.size(), MADV_SEQUENTIAL);
}

MappedFile::Sequential::~Sequential() {
  if (!file_.bytes_.empty()) ::madvise(address(file_.bytes_), file_.bytes_.size(), MADV_NORMAL);
}

Buffer<std::byte> read_file(const std::string& path, std::size_t beginning,
                            FunctionRef<void(Bytes first, std::uint64_t size)> check) {
  std::size_t size = 0;
  const Descriptor file = open_file(path, "read", size);
  std::vector<std::byte> first(std::min(beginning, size));
  read_fully(path, file.fd, first.data(), first.size());
  check(first, size);
  Buffer<std::byte> all(static_cast<std::int64_t>(size));
  read_fully(path, file.fd, all.data(), size);
  return all;
}

std::string mapped_at(const void* address) {
  std::ifstream maps("/proc/self/maps");  // "7f00-7f80 r--p 00000000 08:01 1234    /path"
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, end = 0;
    const char* const stop = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), stop, first, 16);
    if (dash.ptr == stop || std::from_chars(dash.ptr + 1, stop, end, 16).ec != std::errc()) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at < first || at >= end) continue;
    const std::size_t path = line.find('/');
    return path == std::string::npos ? "" : line.substr(path);
  }
  return "";
}

}  // namespace vicinal::io
