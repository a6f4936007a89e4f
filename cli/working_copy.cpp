// See working_copy.hpp. SQLite keeps what is not yet in a file of its journal_mode WAL in NAME-wal, which belongs to the file of that name:
// before a file is replaced it is brought out of that mode, which also needs that no other program has it open.
#include "working_copy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "progress.hpp"
#include "usage.hpp"
#include "vicinal/error.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;
using vicinal::Error;
using vicinal::ErrorCode;

constexpr const char* table = "vicinal_match_run";

std::string followed(const std::string& path) {
  std::error_code ignored;
  const fs::path found = fs::weakly_canonical(path, ignored);
  return found.empty() ? path : found.string();
}

[[noreturn]] void refuse_file(const std::string& what, const std::string& path) {
  throw Error(ErrorCode::io_error, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)), errno);
}

/// Changes when another program writes the file: a copy of what it was is not to be resumed then.
std::string state_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse_file("read", path);
  std::error_code none;
  const std::uintmax_t log = fs::exists(path + "-wal", none) ? fs::file_size(path + "-wal", none) : 0;
  return fmt::format("{} {} {}.{:09}", log, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void sync(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) refuse_file("open", path);
  const int result = fsync(file);
  ::close(file);
  if (result != 0) refuse_file("sync", path);
}

}  // namespace

WorkingCopy::WorkingCopy(const WorkingCopyFlags& flags, const std::string& run, Interrupt& interrupt)
    : source_(followed(flags.database)), target_(flags.output.empty() ? source_ : followed(flags.output)) {
  if (flags.in_place) {
    if (!flags.output.empty()) refuse("--in-place writes into the database; it excludes -o");
    path_ = source_;
    return;
  }
  if (fs::is_directory(target_)) throw Error(ErrorCode::io_error, fmt::format("{} is a folder", target_), EISDIR);
  if (fs::exists(target_) && access(target_.c_str(), W_OK) != 0) refuse_file("write", target_);
  path_ = target_ + ".matching";
  if (target_ == source_) lock_source();
  else if (fs::exists(target_ + "-wal") || fs::exists(target_ + "-journal"))
    throw Error(
        ErrorCode::io_error,
        fmt::format("{0} is open in another program, or one has left {0}-wal or {0}-journal; close it, or remove {0}",
                    target_),
        EBUSY);
  if (!begun(flags, run)) copy(run, interrupt);
}

void WorkingCopy::lock_source() {
  lock_.emplace(source_, Database::Access::write);
  journal_mode_ = lock_->value("PRAGMA journal_mode");
  lock_->run("PRAGMA wal_checkpoint(TRUNCATE)");
  lock_->run("BEGIN IMMEDIATE");
  version_ = lock_->value("PRAGMA data_version");
}

bool WorkingCopy::begun(const WorkingCopyFlags& flags, const std::string& run) const {
  if (!fs::exists(path_)) return false;
  if (!flags.resume)
    refuse(fmt::format("{} is left of a run that was stopped: --resume goes on with it; or remove it", path_));
  Database copy(path_, Database::Access::write);
  if (!copy.has_table(table)) {
    if (!copy.has_table("images")) return false;  // stopped while it was copied
    refuse(fmt::format("{0} is not a copy that vicinal match has left, or a finished one; move it away", path_));
  }
  const std::string before = copy.value(fmt::format("SELECT run FROM {}", table));
  if (before != run)
    refuse(
        fmt::format("{} is of a run with other options ({}; now: {}): remove it, or give those", path_, before, run));
  if (copy.value(fmt::format("SELECT source FROM {}", table)) != state_of(source_))
    refuse(fmt::format("{} has been written since {} was copied from it; remove the copy", source_, path_));
  return true;
}

void WorkingCopy::copy(const std::string& run, Interrupt& interrupt) {
  if (!fs::exists(path_))  // SQLite would take what is left of a file that was removed for a part of the new one
    for (const char* left : {"-journal", "-wal", "-shm"}) fs::remove(path_ + left);
  {
    const Interrupt::Section section(interrupt);
    ProgressBar bar("copy");
    Database from(source_, Database::Access::read), to(path_, Database::Access::create);
    to.copy_from(from, [&](std::int64_t done, std::int64_t total) {
      interrupt.check();
      bar.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    });
    to.run("PRAGMA journal_mode = DELETE");
    Transaction transaction(to);
    to.run(fmt::format("CREATE TABLE {} (run TEXT, source TEXT)", table));
    Statement(to, fmt::format("INSERT INTO {} VALUES (?, ?)", table)).bind(1, run).bind(2, state_of(source_)).step();
    transaction.commit();
  }
  interrupt.check();
}

void WorkingCopy::free_name() {
  lock_->run("ROLLBACK");
  lock_->run("PRAGMA journal_mode = DELETE");
  lock_->run("BEGIN IMMEDIATE");
  if (lock_->value("PRAGMA data_version") != version_)
    throw Error(ErrorCode::io_error,
                fmt::format("{} was written by another program meanwhile; the matches are in {}", source_, path_),
                EBUSY);
}

void WorkingCopy::publish() {
  if (path_ == source_) return;
  if (lock_) free_name();
  struct stat status {};
  const bool known = stat(source_.c_str(), &status) == 0;
  const auto take_mode = [&](mode_t more) {
    if (known && chmod(path_.c_str(), (status.st_mode & 07777) | more) != 0) refuse_file("change", path_);
  };
  take_mode(S_IRUSR | S_IWUSR);  // the copy of a read-only database is written once more
  sync(path_,
       O_RDONLY);  // all but the table, which goes at the last moment: a run that is stopped before it is resumed
  {
    Database copy(path_, Database::Access::write);
    copy.run(fmt::format("DROP TABLE {}", table));
    if (!journal_mode_.empty()) copy.run("PRAGMA journal_mode = " + journal_mode_);
  }
  take_mode(0);
  if (rename(path_.c_str(), target_.c_str()) != 0) refuse_file("rename to " + target_ + " the file", path_);
  const std::string folder = fs::path(target_).parent_path().string();
  sync(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

}  // namespace cli
