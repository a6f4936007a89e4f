// See files.hpp.
#include "files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "vicinal/error.hpp"

namespace cli {
namespace {

[[noreturn]] void fail_system(const std::string& what) {
  throw vicinal::Error(vicinal::ErrorCode::io_error, what + ": " + std::strerror(errno), errno);
}

/// ".csv" of "-", ".npy" of "npy:-".
std::string suffix_of(const std::string& stream) {
  return stream == "-" ? ".csv" : "." + stream.substr(0, stream.size() - 2);
}

/// "TMPDIR=/full", or what the system takes where no variable says.
std::string temporary_place() {
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
    if (const char* const value = std::getenv(name)) return std::string(name) + "=" + value;
  return "/tmp (TMPDIR can name another folder)";
}

/// A template for mkdtemp and mkostemp.
std::string temporary_template() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error)
    throw vicinal::Error(vicinal::ErrorCode::io_error,
                         "a stream is kept in the folder for temporary files, " + temporary_place() +
                             ", which cannot be used: " + error.message(),
                         error.value());
  return (folder / "vicinal-XXXXXX").string();
}

std::array<std::atomic<const FileInFolder*>, 4> live_folders;  // stdin and stdout are named once

struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

/// What a path of the command line is on disk, whatever it is called there; null when it is nothing yet.
std::optional<struct stat> file_of(const std::string& given, int stream) {
  struct stat status;
  if (is_stream(given)) {
    if (::fstat(stream, &status) == 0 && S_ISREG(status.st_mode)) return status;
    return std::nullopt;
  }
  if (::stat(given.c_str(), &status) == 0) return status;
  const std::size_t colon = given.rfind(':');  // FILE:NAME
  if (colon != std::string::npos && ::stat(given.substr(0, colon).c_str(), &status) == 0) return status;
  return std::nullopt;
}

void copy_stdin(int to) {
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system("cannot read stdin");
    if (got == 0) return;
    for (ssize_t done = 0; done < got;) {
      const ssize_t wrote = ::write(to, block.data() + done, static_cast<std::size_t>(got - done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail_system("cannot keep stdin in " + temporary_place());
      done += wrote;
    }
  }
}

}  // namespace

struct FileInFolder {
  std::string folder, path;
  void remove() const noexcept {
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
  }
};

void remove_temporary_folders() noexcept {
  for (auto& slot : live_folders)
    if (const FileInFolder* const left = slot.exchange(nullptr)) left->remove();
}

TemporaryFile::TemporaryFile(const std::string& name) {
  std::string folder = temporary_template();
  auto made = std::make_unique<FileInFolder>();
  if (::mkdtemp(folder.data()) == nullptr) fail_system("cannot make a folder for a stream in " + temporary_place());
  *made = {folder, folder + "/" + name};
  path_ = made->path;
  for (auto& slot : live_folders) {
    const FileInFolder* none = nullptr;
    if (!slot.compare_exchange_strong(none, made.get())) continue;
    file_ = made.release();
    return;
  }
  made->remove();
  refuse("more than four streams are named");
}

void TemporaryFile::remove() noexcept {
  if (file_ == nullptr) return;
  const FileInFolder* const mine = std::exchange(file_, nullptr);
  for (auto& slot : live_folders) {
    const FileInFolder* here = mine;
    if (!slot.compare_exchange_strong(here, nullptr)) continue;
    mine->remove();
    delete mine;
    return;
  }  // else the process ends, and a watcher of signals removes it at this moment
}

namespace {

/// All of stdin under a name that ends as it should. What is waited for has no name yet, so that nothing is left
/// behind by a signal: a nameless file is filled first, then a link leads to it.
class Stdin {
 public:
  explicit Stdin(const std::string& suffix) : file_{nameless_file()} {
    copy_stdin(file_.fd);
    link_.emplace("stdin" + suffix);
    const std::string target = "/proc/self/fd/" + std::to_string(file_.fd);
    if (::symlink(target.c_str(), path().c_str()) != 0) fail_system("cannot keep stdin in " + path());
  }
  const std::string& path() const noexcept { return link_->path(); }

 private:
  static int nameless_file() {
    std::string name = temporary_template();
    const int fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) fail_system("cannot keep stdin in " + temporary_place());
    ::unlink(name.c_str());
    return fd;
  }
  Descriptor file_;
  std::optional<TemporaryFile> link_;
};

}  // namespace

bool is_stream(const std::string& path) {
  return path == "-" || (path.ends_with(":-") && path.find_first_of("./") == std::string::npos);
}

void refuse_to_replace(const NamedFiles& files) {
  for (const NamedFile& written : files.written) {
    const auto target = file_of(written.path, STDOUT_FILENO);
    if (!target) continue;
    for (const NamedFile& read : files.read) {
      const auto source = file_of(read.path, STDIN_FILENO);
      if (!source || source->st_dev != target->st_dev || source->st_ino != target->st_ino) continue;
      refuse(written.option + " " + written.path + " is the same file as " + read.option + " " + read.path +
             ", which would be replaced; give what is written another name");
    }
  }
}

InputFile::InputFile(const std::string& given) : path_(given) {
  if (is_stream(given)) {
    (void)vicinal::format_of("stdin" + suffix_of(given));  // before anything is waited for
    static bool taken = false;
    if (std::exchange(taken, true)) refuse("stdin was named twice; it can be read once");
    auto input = std::make_shared<const Stdin>(suffix_of(given));
    path_ = input->path();
    temporary_ = std::move(input);
    return;
  }
  const std::size_t colon = given.rfind(':');
  struct stat status;
  if (colon == std::string::npos || ::stat(given.c_str(), &status) == 0) return;
  try {
    if (!vicinal::format_of(given.substr(0, colon)).has_members) return;
  } catch (const vicinal::Error&) {
    return;  // a path with a colon in it: its own suffix decides
  }
  path_ = given.substr(0, colon);
  member_ = given.substr(colon + 1);
}

OutputFile::OutputFile(const std::string& given) : path_(given) {
  if (!is_stream(given)) return;
  temporary_ = std::make_shared<TemporaryFile>("stdout" + suffix_of(given));
  path_ = temporary_->path();
}

void OutputFile::send() const {
  if (!stream()) return;
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_system("cannot read " + path_);
  temporary_->remove();  // a reader may take its time, and what is sent needs no name
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t got = ::read(file.fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system("cannot read " + path_);
    if (got == 0) return;
    if (!print({block.data(), static_cast<std::size_t>(got)})) return;
  }
}

vicinal::Matrix read_points(const std::string& path, vicinal::Header header) {
  const InputFile file(path);  // a mapping outlives the name
  vicinal::Matrix matrix = vicinal::read_matrix(file.path(), {.member = file.member(), .header = header});
  print_note(path, matrix);
  return matrix;
}

vicinal::StringList read_lines(const std::string& path, bool bytes) {
  const auto encoding = bytes ? vicinal::Encoding::bytes : vicinal::Encoding::utf8;
  if (path.find(':') != std::string::npos && !is_stream(path))
    return vicinal::read_strings(path, encoding);  // a name, not a member
  const InputFile file(path);
  return vicinal::read_strings(file.path(), encoding);
}

vicinal::ValueMatrix read_values(const std::string& path, vicinal::Header header) {
  const InputFile file(path);
  vicinal::ValueMatrix values = vicinal::read_values(file.path(), {.member = file.member(), .header = header});
  print_note(path, values);
  return values;
}

vicinal::ResultFile read_claim(const std::string& path, const std::string& distances_path) {
  const InputFile file(path);
  return vicinal::read_result(file.path(), distances_path);
}

}  // namespace cli
