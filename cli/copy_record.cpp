// See copy_record.hpp. A line a fact; the last, the run, is all that is left, for names of files may hold line ends.
#include "copy_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "vicinal/error.hpp"

namespace cli {
namespace {

constexpr const char* first_line = "vicinal match 1";
constexpr std::array<const char*, 3> stages = {"copying", "matching", "matched"};

[[noreturn]] void refuse_record(const std::string& path) {
  throw vicinal::Error(vicinal::ErrorCode::io_error, fmt::format("cannot write {}: {}", path, std::strerror(errno)),
                       errno);
}

std::string temporary_of(const std::string& path) { return path + ".tmp"; }

void write_whole(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) refuse_record(path);
  const ssize_t wrote = ::write(file, text.data(), text.size());
  const bool whole = wrote == static_cast<ssize_t>(text.size());
  if (wrote >= 0 && !whole) errno = ENOSPC;  // a short write of so little
  const int failed = whole && fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (failed == 0) return;
  ::unlink(path.c_str());
  errno = failed;
  refuse_record(path);
}

}  // namespace

std::optional<CopyRecord> read_record(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head, stage, which;
  CopyRecord record;
  for (std::string* line : {&head, &stage, &which, &record.source, &record.journal_mode, &record.checksum})
    if (!std::getline(file, *line)) return std::nullopt;
  record.run.assign(std::istreambuf_iterator<char>(file), {});
  const auto* const found = std::find(stages.begin(), stages.end(), stage);
  if (head != first_line || found == stages.end()) return std::nullopt;
  record.stage = static_cast<CopyRecord::Stage>(found - stages.begin());
  record.again = which == "all";
  return record;
}

void write_record(const std::string& path, const CopyRecord& record) {
  const std::string temporary = temporary_of(path);
  write_whole(temporary, fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", first_line,
                                     stages[static_cast<std::size_t>(record.stage)], record.again ? "all" : "rest",
                                     record.source, record.journal_mode, record.checksum, record.run));
  if (rename(temporary.c_str(), path.c_str()) != 0) refuse_record(path);
}

void remove_record(const std::string& path) {
  ::unlink(temporary_of(path).c_str());
  ::unlink(path.c_str());
}

}  // namespace cli
