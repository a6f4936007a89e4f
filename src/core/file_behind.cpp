// See file_behind.hpp.
#include "core/file_behind.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/text.hpp"

namespace vicinal {

FileBehind::FileBehind(const void* memory, std::int64_t bytes) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char rights[5] = {};
    std::int64_t offset = 0;
    unsigned major = 0, minor = 0;
    std::uint64_t inode = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &begin, &end,
                    rights, reinterpret_cast<std::uint64_t*>(&offset), &major, &minor, &inode, &name) < 7)
      continue;
    if (wanted < begin || wanted >= end) continue;
    if (wanted + static_cast<std::uintptr_t>(bytes) > end || inode == 0 || std::strcmp(rights, "r--s") != 0) return;
    path_ = line.substr(static_cast<std::size_t>(name));
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    // The name may be another file's by now.
    if (fd < 0 || ::fstat(fd, &status) != 0 || status.st_ino != inode || status.st_dev != ::makedev(major, minor) ||
        !S_ISREG(status.st_mode)) {
      if (fd >= 0) ::close(fd);
      return;
    }
    fd_ = fd;
    address_ = begin;
    end_ = end;
    offset_ = offset;
    return;
  }
}

FileBehind::~FileBehind() {
  if (fd_ >= 0) ::close(fd_);
}
FileBehind::FileBehind(FileBehind&& other) noexcept { *this = std::move(other); }
FileBehind& FileBehind::operator=(FileBehind&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(address_, other.address_);
  std::swap(end_, other.end_);
  std::swap(offset_, other.offset_);
  std::swap(path_, other.path_);
  return *this;
}

void FileBehind::read(std::byte* to, const void* at, std::int64_t bytes) const {
  std::int64_t offset = offset_ + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) - address_);
  while (bytes > 0) {
    const ssize_t done = ::pread(fd_, to, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int system = errno;
      throw Error(ErrorCode::io_error, cat("cannot read ", path_, ": ", std::generic_category().message(system)),
                  system);
    }
    if (done == 0)
      fail(ErrorCode::format_error, cat(path_, ": the file ended at ", offset, " while it was read: did it shrink?"));
    to += done;
    offset += done;
    bytes -= done;
  }
}

}  // namespace vicinal
