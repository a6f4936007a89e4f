// The file that stands behind memory which a process has mapped to read, so that many threads can read it by system
// calls: through a mapping each page is a fault, and the faults of one process wait for one another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace vicinal {

/// A FileBehind is a descriptor of a mapped file, of its own. Empty where no file stands behind the memory, or what is
/// there may differ from it.
class FileBehind {
 public:
  FileBehind() = default;
  /// It looks the memory up among the mappings of the process (/proc/self/maps), in some 0.1 ms. Only files mapped
  /// shared and for reading alone count: what another mapping shows may have been written in this process and not to the
  /// file.
  FileBehind(const void* memory, std::int64_t bytes);
  ~FileBehind();
  FileBehind(FileBehind&& other) noexcept;
  FileBehind& operator=(FileBehind&& other) noexcept;

  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Whether all of the memory lies in the mapping that was found.
  bool covers(const void* memory, std::int64_t bytes) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    return fd_ >= 0 && begin >= address_ && begin + static_cast<std::uintptr_t>(bytes) <= end_;
  }
  /// It reads what the memory holds from `at` on, `bytes` of it. Calls may come from any thread. Throws IoError, and
  /// FormatError where the file ends sooner.
  void read(std::byte* to, const void* at, std::int64_t bytes) const;

 private:
  int fd_ = -1;
  std::uintptr_t address_ = 0, end_ = 0;  // of the mapping
  std::int64_t offset_ = 0;               // of the byte at address_
  std::string path_;
};

}  // namespace vicinal
