// See atomic_file.hpp.
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "io/message.hpp"
#include "io/mmap.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t buffer_size = 1 << 20;

// Names of live temporaries. The thread that exchanges a pointer for null owns the string: an AtomicFile that is done
// with it, or the signal handler. The process id keeps a forked child from removing its parent's files.
struct Slot {
  std::atomic<char*> name{nullptr};
  std::atomic<pid_t> process{0};
  std::atomic<char*> spent{nullptr};  // a handler may not free: the next user of the slot does
};
std::array<Slot, 64> slots;
static_assert(std::atomic<char*>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free,
              "the list is read by a signal handler");

/// -1 when all slots are taken: the file is then saved as well, and only a signal would leave its temporary behind.
int remember(const std::string& name) {
  std::unique_ptr<char, void (*)(void*)> copy(::strdup(name.c_str()), std::free);
  if (copy == nullptr) return -1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    char* expected = nullptr;
    if (!slots[i].name.compare_exchange_strong(expected, copy.get())) continue;
    // A handler before this line sees the slot's former process: at worst it skips a file that is not made yet.
    slots[i].process.store(::getpid());
    std::free(slots[i].spent.exchange(nullptr));
    (void)copy.release();
    return static_cast<int>(i);
  }
  return -1;
}

int open_file(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& target) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    fail_system("write", target, errno);
  char ending[64];
  std::snprintf(ending, sizeof ending, ".tmp.%ld.%016llx", static_cast<long>(::getpid()),
                static_cast<unsigned long long>(random));
  const std::size_t name_start = target.rfind('/') + 1;
  // A name that is nearly as long as names may be must still be savable.
  const std::size_t most = NAME_MAX - std::string_view(ending).size();
  return target.substr(0, std::min(target.size(), name_start + most)) + ending;
}

template <class Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

std::string follow_links(const std::string& path) {
  constexpr int most = 40;  // as the system itself follows
  std::string name = path;
  for (int links = 0; links < most; ++links) {
    std::array<char, PATH_MAX> to;
    const ssize_t length = ::readlink(name.c_str(), to.data(), to.size());
    if (length < 0) return name;
    const std::string target(to.data(), static_cast<std::size_t>(length));
    name = target.starts_with('/') ? target : directory_of(name) + "/" + target;
  }
  return path;  // a loop: open() says so
}

SystemCalls& system_calls() noexcept {
  static SystemCalls calls{open_file, ::write, ::pwrite, ::fsync, ::close, ::rename};
  return calls;
}

void remove_live_temporaries() noexcept {
  const int saved = errno;
  for (Slot& slot : slots) {
    if (slot.process.load() != ::getpid()) continue;
    char* name = slot.name.exchange(nullptr);
    if (name == nullptr) continue;
    ::unlink(name);
    slot.spent.store(name);
  }
  errno = saved;
}

void check_target(const std::string& path) {
  check_path(path);
  const std::string target = follow_links(path);
  const std::string directory = directory_of(target);
  struct stat status;
  if (::stat(directory.c_str(), &status) != 0) fail_system("write", path, errno);
  if (!S_ISDIR(status.st_mode)) fail_system("write", path, ENOTDIR);
  if (::stat(target.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail_system("write", path, EISDIR);
    if (!S_ISREG(status.st_mode)) fail_system("write", path, EINVAL, "not a regular file");
    // A rename would replace a file that its owner made read-only.
    if (::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) fail_system("write", path, errno);
  } else if (errno != ENOENT) {
    fail_system("write", path, errno);
  }
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail_system("write", path, errno);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  check_target(path);
  target_ = follow_links(path);
  buffer_.resize(buffer_size);
  constexpr int attempts = 16;  // 64 random bits: a second one is already a wonder
  for (int i = 0; i < attempts && fd_ < 0; ++i) {
    temporary_ = temporary_name(target_);
    slot_ = remember(temporary_);
    fd_ = retry([&] { return system_calls().open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (fd_ >= 0) break;
    const int reason = errno;
    forget();
    if (reason != EEXIST) fail_system("write", path_, reason);
  }
  if (fd_ < 0) fail_system("write", path_, EEXIST);
  struct stat old;
  if (::stat(target_.c_str(), &old) == 0) (void)::fchmod(fd_, old.st_mode & 0777);  // best effort: keep its permissions
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) system_calls().close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget();
}

void AtomicFile::forget() noexcept {
  if (slot_ >= 0) std::free(slots[static_cast<std::size_t>(slot_)].name.exchange(nullptr));
  slot_ = -1;
}

void AtomicFile::fail_writing(int system_errno) const {
  fail_system("write", path_, system_errno, cat("wrote ", progress_text(written_, std::max(total_, size()))));
}

/// What was to be written is no memory any more: it was the end of a mapped file.
void AtomicFile::refuse_lost(Bytes bytes) const {
  const std::string source = mapped_at(bytes.data());
  if (source.empty()) fail_writing(EFAULT);
  throw Error(ErrorCode::io_error,
              cat(printable(source), ": the file was cut short, or its storage failed, while it was read"), EIO);
}

void AtomicFile::append(Bytes bytes) {
  if (buffered_ + bytes.size() > buffer_.size()) {
    flush();
    if (bytes.size() >= buffer_.size()) return write_out(bytes);
  }
  std::copy(bytes.begin(), bytes.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(buffered_));
  buffered_ += bytes.size();
}

void AtomicFile::flush() {
  const std::size_t pending = buffered_;
  buffered_ = 0;
  write_out({buffer_.data(), pending});
}

void AtomicFile::write_out(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t done = retry([&] { return system_calls().write(fd_, bytes.data(), bytes.size()); });
    if (done < 0 && errno == EFAULT) refuse_lost(bytes);
    if (done <= 0) fail_writing(done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::patch(std::uint64_t offset, Bytes bytes) {
  flush();
  while (!bytes.empty()) {
    const auto at = static_cast<off_t>(offset);
    const ssize_t done = retry([&] { return system_calls().pwrite(fd_, bytes.data(), bytes.size(), at); });
    if (done <= 0) fail_writing(done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::complete() {
  flush();
  if (retry([&] { return system_calls().fsync(fd_); }) != 0) fail_writing(errno);
  const int fd = fd_;
  fd_ = -1;
  // Linux closes the descriptor even when close is interrupted, and the data are already synced.
  if (system_calls().close(fd) != 0 && errno != EINTR) fail_writing(errno);
}

void AtomicFile::take_name() {
  if (system_calls().rename(temporary_.c_str(), target_.c_str()) != 0) fail_system("write", path_, errno);
  forget();
  temporary_.clear();
}

void AtomicFile::sync_directory() const {
  const std::string directory = directory_of(target_);
  const int fd = retry([&] { return system_calls().open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) {
    if (errno == EACCES) return;  // a directory that may be written and not read: its entry cannot be synced by name
    fail_system("sync the directory of", path_, errno);
  }
  const int failed = retry([&] { return system_calls().fsync(fd); }) != 0 ? errno : 0;
  system_calls().close(fd);
  // EINVAL: a file system that has nothing to sync for a directory.
  if (failed != 0 && failed != EINVAL) fail_system("sync the directory of", path_, failed);
}

void AtomicFile::publish(std::span<AtomicFile* const> files) {
  for (AtomicFile* file : files) file->complete();
  for (AtomicFile* file : files) file->take_name();
  for (AtomicFile* file : files) file->sync_directory();
}

}  // namespace vicinal::io
