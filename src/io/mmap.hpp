// A file mapped read-only for as long as the object lives. Its pages belong to the page cache, not to the
// process. If another program shortens the file meanwhile, touching the lost part raises SIGBUS: copy files
// from storage that you do not trust (read_file).
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "core/buffer.hpp"
#include "core/function_ref.hpp"
#include "io/bytes.hpp"

namespace vicinal::io {

class MappedFile {
 public:
  /// Throws InvalidArgument (NUL in the path), IoError (missing, a directory, not a regular file, no permission).
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  Bytes bytes() const noexcept { return bytes_; }
  /// Whether an open descriptor is of this file, whatever has its name by now.
  bool is_behind(int descriptor) const noexcept;

  /// For the time of one pass over the whole file (row headers, a checksum): read well ahead.
  class Sequential {
   public:
    explicit Sequential(const MappedFile& file) noexcept;
    ~Sequential();
    Sequential(const Sequential&) = delete;
    Sequential& operator=(const Sequential&) = delete;

   private:
    const MappedFile& file_;
  };

 private:
  std::string path_;
  std::pair<std::uint64_t, std::uint64_t> identity_;  // device and inode
  Bytes bytes_;
};

/// All of a file in memory, by read(): what another program does to it afterwards cannot be seen. `check` is shown the
/// first `beginning` bytes (or all of a shorter file) and the length before memory is taken for the rest. Throws as
/// MappedFile does, OutOfMemory, FormatError for a file that shrinks meanwhile, and what `check` throws.
Buffer<std::byte> read_file(const std::string& path, std::size_t beginning,
                            FunctionRef<void(Bytes first, std::uint64_t size)> check);

/// Throws InvalidArgument if the path holds a NUL byte: the system would read a shorter name.
void check_path(const std::string& path);

/// The file that is mapped at an address, by any of the mappings of this process; empty where none is.
std::string mapped_at(const void* address);

}  // namespace vicinal::io
