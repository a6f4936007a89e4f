#include "injection.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace faults {
namespace {

std::atomic<bool> armed{false};
std::atomic<std::int64_t> seen{0}, chosen{0}, blocks{0}, mappings{0};
std::atomic<Mode> mode{Mode::none};
std::atomic<const char*> name{""};
std::atomic<int> reason{0};

/// True when this call is to fail; errno is then set.
bool refuse(const char* call, int error, bool memory = false) {
  if (!armed.load()) return false;
  const std::int64_t number = ++seen;
  const bool first = mode != Mode::none && number == chosen;
  const bool later = mode == Mode::onwards && number > chosen && memory;
  if (!first && !later) return false;
  if (first) {
    name = call;
    reason = memory ? 0 : error;
  }
  errno = error;
  return true;
}

}  // namespace

void arm(Mode wanted, std::int64_t at) {
  seen = 0;
  chosen = at;
  mode = wanted;
  name = "";
  reason = 0;
  armed = true;
}

std::int64_t disarm() {
  armed = false;
  return seen;
}

const char* refused() { return name; }
int refused_errno() { return reason; }

Held held() {
  Held now{blocks, mappings, 0};
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++now.descriptors;
  closedir(folder);
  return now;
}

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  if (refuse("new", ENOMEM, true)) return nullptr;
  void* at = alignment == 0 ? std::malloc(size == 0 ? 1 : size)
                            : ::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (at != nullptr) ++blocks;
  return at;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* at = allocate(size, alignment);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

void release(void* at) {
  if (at == nullptr) return;
  --blocks;
  std::free(at);
}

}  // namespace
}  // namespace faults

void* operator new(std::size_t size) { return faults::allocate_or_throw(size, 0); }
void* operator new[](std::size_t size) { return faults::allocate_or_throw(size, 0); }
void* operator new(std::size_t size, std::align_val_t to) {
  return faults::allocate_or_throw(size, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t size, std::align_val_t to) {
  return faults::allocate_or_throw(size, static_cast<std::size_t>(to));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return faults::allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return faults::allocate(size, 0); }
void operator delete(void* at) noexcept { faults::release(at); }
void operator delete[](void* at) noexcept { faults::release(at); }
void operator delete(void* at, std::size_t) noexcept { faults::release(at); }
void operator delete[](void* at, std::size_t) noexcept { faults::release(at); }
void operator delete(void* at, std::align_val_t) noexcept { faults::release(at); }
void operator delete[](void* at, std::align_val_t) noexcept { faults::release(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { faults::release(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { faults::release(at); }

// --wrap=NAME sends the library's calls of NAME to __wrap_NAME, and __real_NAME is the C library's.
extern "C" {
int __real_open(const char*, int, ...);
int __real_fstat(int, struct stat*);
int __real_close(int);
int __real_fsync(int);
int __real_rename(const char*, const char*);
ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __real_write(int, const void*, std::size_t);
ssize_t __real_pwrite(int, const void*, std::size_t, off_t);
ssize_t __real_getrandom(void*, std::size_t, unsigned);
void* __real_mmap(void*, std::size_t, int, int, int, off_t);
int __real_munmap(void*, std::size_t);
void* __real_aligned_alloc(std::size_t, std::size_t);
char* __real_strdup(const char*);

int __wrap_open(const char* path, int flags, mode_t permissions) {
  return faults::refuse("open", EMFILE) ? -1 : __real_open(path, flags, permissions);
}
int __wrap_fstat(int fd, struct stat* status) { return faults::refuse("fstat", EIO) ? -1 : __real_fstat(fd, status); }
int __wrap_close(int fd) {
  const int result = __real_close(fd);  // a close that fails has closed all the same
  return faults::refuse("close", EIO) ? -1 : result;
}
int __wrap_fsync(int fd) { return faults::refuse("fsync", EIO) ? -1 : __real_fsync(fd); }
int __wrap_rename(const char* from, const char* to) {
  return faults::refuse("rename", EDQUOT) ? -1 : __real_rename(from, to);
}
ssize_t __wrap_pread(int fd, void* to, std::size_t size, off_t at) {
  return faults::refuse("pread", EIO) ? -1 : __real_pread(fd, to, size, at);
}
ssize_t __wrap_write(int fd, const void* from, std::size_t size) {
  return faults::refuse("write", ENOSPC) ? -1 : __real_write(fd, from, size);
}
ssize_t __wrap_pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return faults::refuse("pwrite", ENOSPC) ? -1 : __real_pwrite(fd, from, size, at);
}
ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned flags) {
  return faults::refuse("getrandom", ENOSYS) ? -1 : __real_getrandom(to, size, flags);
}
void* __wrap_mmap(void* at, std::size_t size, int protection, int flags, int fd, off_t offset) {
  if (faults::refuse("mmap", ENOMEM, fd < 0)) return MAP_FAILED;
  void* mapped = __real_mmap(at, size, protection, flags, fd, offset);
  if (mapped != MAP_FAILED) ++faults::mappings;
  return mapped;
}
int __wrap_munmap(void* at, std::size_t size) {
  --faults::mappings;
  return __real_munmap(at, size);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return faults::refuse("aligned_alloc", ENOMEM, true) ? nullptr : __real_aligned_alloc(alignment, size);
}
char* __wrap_strdup(const char* text) { return faults::refuse("strdup", ENOMEM, true) ? nullptr : __real_strdup(text); }
}
