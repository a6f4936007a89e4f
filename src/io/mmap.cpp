// See mmap.hpp.
#include "io/mmap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include "io/message.hpp"

namespace vicinal::io {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void* address(Bytes bytes) { return const_cast<std::byte*>(bytes.data()); }

}  // namespace

void check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) fail(ErrorCode::invalid_argument, path, "path holds a NUL byte");
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  check_path(path);
  // Without O_NONBLOCK, opening a FIFO would wait for a writer before it could be refused.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_system("open", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail_system("open", path, errno);
  if (S_ISDIR(status.st_mode)) fail_system("open", path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail_system("map", path, ENODEV, "not a regular file");
  if (status.st_size == 0) return;

  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (start == MAP_FAILED) fail_system("map", path, errno);
  bytes_ = as_bytes(start, size);
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

}  // namespace vicinal::io
