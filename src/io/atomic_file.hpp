// Saving so that a reader, a crash or a full disk never sees half a file (semantics C23): bytes go to
// NAME.tmp.PID.RANDOM in the same directory, are synced, and take the name by one rename. An AtomicFile that is
// destroyed before it was published removes its temporary and leaves the old file as it was.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/array.hpp"

namespace vicinal::io {

class AtomicFile final : public FileSink {
 public:
  /// Opens the temporary. Throws IoError with errno, InvalidArgument for a NUL in the path.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// For the message when the disk is full.
  void expect(std::uint64_t total) noexcept override { total_ = total; }
  void append(Bytes bytes) override;
  void patch(std::uint64_t offset, Bytes bytes) override;
  std::uint64_t size() const noexcept override { return written_ + buffered_; }

  /// All of them complete and synced, then all of them renamed, then their directories synced.
  static void publish(std::span<AtomicFile* const> files);

 private:
  void flush();
  void write_out(Bytes bytes);
  void complete();
  void take_name();
  void sync_directory() const;
  void forget() noexcept;
  [[noreturn]] void fail_writing(int system_errno) const;
  [[noreturn]] void refuse_lost(Bytes bytes) const;

  std::string path_;    // as the caller gave it
  std::string target_;  // what will be replaced: path_, or what it links to
  std::string temporary_;
  std::vector<std::byte> buffer_;
  std::size_t buffered_ = 0;
  std::uint64_t written_ = 0, total_ = 0;
  int fd_ = -1;
  int slot_ = -1;  // in the list of live temporaries
};

/// Throws the IoError that saving to `path` would meet at once: no such directory, a directory or a device of that
/// name, no permission.
void check_target(const std::string& path);

/// Where `path` leads if it is a symbolic link, be the target there or not yet; else `path`. The link itself stays when
/// a file is written.
std::string follow_links(const std::string& path);

/// Removes the temporaries of every unfinished AtomicFile of this process. Async-signal-safe.
void remove_live_temporaries() noexcept;

/// The system calls that saving makes; tests put failing ones in their place.
struct SystemCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  ssize_t (*write)(int fd, const void* data, std::size_t size);
  ssize_t (*pwrite)(int fd, const void* data, std::size_t size, off_t offset);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*rename)(const char* from, const char* to);
};
SystemCalls& system_calls() noexcept;

}  // namespace vicinal::io
