// Paths as the command takes them: FILE, FILE:NAME for one array of several, and - for the standard streams.
// `-` is CSV; `npy:-`, `npz:-`, ... any other format by its suffix. A stream passes through a temporary file,
// because every reader wants to see a whole file first and every writer to publish one.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "app.hpp"
#include "output.hpp"
#include "vicinal/io.hpp"

namespace cli {

bool is_stream(const std::string& path);

struct FileInFolder;

/// A TemporaryFile is a name in a temporary folder of its own, which goes away with it; another makes the file.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name);
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }
  /// Removes file and folder now.
  void remove() noexcept;

 private:
  std::string path_;
  const FileInFolder* file_ = nullptr;  // on the heap: a watcher of signals may be at it
};
/// Removes those of the whole process, which is to end here: for watchers and handlers of signals.
void remove_temporary_folders() noexcept;

/// What a path of the command line stands for, as a path of the library; stdin is read to its end here.
class InputFile {
 public:
  explicit InputFile(const std::string& given);
  const std::string& path() const noexcept { return path_; }
  const std::string& member() const noexcept { return member_; }

 private:
  std::string path_, member_;
  std::shared_ptr<const void> temporary_;  // the folder of a stream's file
};

/// The other way: write to path(), then send() copies it to stdout if it is a stream.
class OutputFile {
 public:
  explicit OutputFile(const std::string& given);
  const std::string& path() const noexcept { return path_; }
  bool stream() const noexcept { return temporary_ != nullptr; }
  /// Sends the file to stdout and removes it; called once.
  void send() const;

 private:
  std::string path_;
  std::shared_ptr<TemporaryFile> temporary_;
};

/// Throws where a file to be written is one that is read, by any spelling or link of its name: a slip that would
/// replace the user's data.
void refuse_to_replace(const NamedFiles& files);

/// One side of a search: rows of numbers, or strings.
struct Side {
  vicinal::Matrix matrix;
  std::optional<vicinal::StringList> strings;

  std::int64_t rows() const noexcept { return strings ? strings->rows() : matrix.points().rows; }
};
/// Calls use(points or strings...) with what the sides hold, which is of one sort.
template <class Use>
auto with_sides(const Side& a, const Side& b, const Use& use) {
  return a.strings ? use(a.strings->view(), b.strings->view()) : use(a.matrix.points(), b.matrix.points());
}
template <class Use>
auto with_side(const Side& a, const Use& use) {
  return a.strings ? use(a.strings->view()) : use(a.matrix.points());
}

/// Rows of FILE, FILE.npz:NAME, -, SUFFIX:-.
vicinal::Matrix read_points(const std::string& path, vicinal::Header header = vicinal::Header::automatic);
/// Lines of FILE or of - as strings.
vicinal::StringList read_lines(const std::string& path, bool bytes);
/// Values to select from, the same way.
vicinal::ValueMatrix read_values(const std::string& path, vicinal::Header header = vicinal::Header::automatic);
/// Tells the user on stderr how text was read where there was a choice; nothing where there was none.
template <class File>
void print_note(const std::string& path, const File& file) {
  if (!file.note().empty()) print_note(path + ": " + file.note());
}
vicinal::ResultFile read_claim(const std::string& path, const std::string& distances_path = "");

}  // namespace cli
