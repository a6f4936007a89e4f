// See working_copy.hpp. SQLite keeps what is not yet in a file of its journal_mode WAL in NAME-wal, which belongs to
// the file of that name: before a file is replaced it is brought out of that mode, which also needs that no other
// program has it open.
#include "working_copy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "progress.hpp"
#include "usage.hpp"
#include "vicinal/error.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;
using vicinal::Error;
using vicinal::ErrorCode;

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

std::string checksum_of(const Database& database) { return fmt::format("{:016x}", database.checksum()); }

/// What SQLite keeps beside a file.
constexpr std::initializer_list<const char*> beside = {"-journal", "-wal", "-shm"};

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
    record_.again = !flags.resume;
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
  if (begun(flags, run)) return;
  try {
    copy(interrupt);
  } catch (const Error& error) {
    const bool others = error.system_errno() == EBUSY;  // another run may be making it
    if (error.code() != ErrorCode::cancelled && !others) discard();
    throw;
  }
}

void WorkingCopy::lock_source() {
  lock_.emplace(source_, Database::Access::write);
  record_.journal_mode = lock_->value("PRAGMA journal_mode");
  if (lock_->value("PRAGMA wal_checkpoint(TRUNCATE)") == "1")
    throw Error(ErrorCode::io_error, fmt::format("{} is being read or written by another program; close it", source_),
                EBUSY);
  lock_->run("BEGIN IMMEDIATE");
  version_ = lock_->value("PRAGMA data_version");
}

void WorkingCopy::save(CopyRecord::Stage stage) {
  record_.stage = stage;
  write_record(record_path(), record_);
}

bool WorkingCopy::is_unchanged(const CopyRecord& record) const {
  if (record.source == state_of(source_)) return true;
  // A run that was stopped in free_name() may have brought the database out of journal_mode WAL, and changed nothing
  // else.
  return lock_ && !record.checksum.empty() && record.checksum == checksum_of(*lock_);
}

bool WorkingCopy::begun(const WorkingCopyFlags& flags, const std::string& run) {
  const bool there = fs::exists(path_);
  if (there && !flags.resume)
    refuse(fmt::format("{} is left of a run that was stopped: --resume goes on with it; or remove it", path_));
  const std::optional<CopyRecord> record = flags.resume ? read_record(record_path()) : std::nullopt;
  if (there && !record) refuse(fmt::format("{} is not a copy that vicinal match has left; move it away", path_));
  if (there && record->run != run)
    refuse(fmt::format("{} is of a run with other options ({}; now: {}): remove it, or give those", path_, record->run,
                       run));
  record_.run = run;
  record_.again = !flags.resume;
  // A run begins once more as what it was where its copy was not whole, or has the name of another database by now: of
  // that run this one has no matches.
  if (record && record->run == run && (record->stage == CopyRecord::Stage::copying || target_ != source_))
    record_.again = record->again;
  if (!there || record->stage == CopyRecord::Stage::copying) return false;
  if (!is_unchanged(*record))
    refuse(fmt::format("{} has been written since {} was copied from it; remove the copy", source_, path_));
  record_ = *record;
  // A run that was stopped in publish() may have given it the mode of a database that is only read.
  if (access(path_.c_str(), W_OK) != 0 && chmod(path_.c_str(), S_IRUSR | S_IWUSR) != 0) refuse_file("change", path_);
  return true;
}

void WorkingCopy::copy(Interrupt& interrupt) {
  if (!fs::exists(path_))  // SQLite would take what is left of a file that was removed for a part of the new one
    for (const char* left : beside) fs::remove(path_ + left);
  made_ = true;
  save(CopyRecord::Stage::copying);
  {
    const Interrupt::Section section(interrupt);
    ProgressBar bar("copy");
    Database from(source_, Database::Access::read), to(path_, Database::Access::create);
    from.check_length();
    to.copy_from(from, [&](std::int64_t done, std::int64_t total) {
      interrupt.check();
      bar.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    });
    to.run("PRAGMA journal_mode = DELETE");
    record_.source = state_of(source_);
  }
  sync(path_, O_RDONLY);
  save(CopyRecord::Stage::matching);
  interrupt.check();
}

void WorkingCopy::note_matched() {
  if (path_ != source_) save(CopyRecord::Stage::matched);
}

void WorkingCopy::discard() noexcept {
  if (!made_) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
  for (const char* left : beside) fs::remove(path_ + left, ignored);
  remove_record(record_path());
}

void WorkingCopy::free_name() {
  if (record_.journal_mode == "wal") {
    record_.checksum = checksum_of(*lock_);
    save(CopyRecord::Stage::matched);
  }
  lock_->run("ROLLBACK");
  lock_->run("PRAGMA journal_mode = MEMORY");  // out of WAL by one write, without a journal that a kill would leave
  lock_->run("BEGIN IMMEDIATE");
  if (lock_->value("PRAGMA data_version") != version_)
    throw Error(ErrorCode::io_error,
                fmt::format("{} was written by another program meanwhile; the matches are in {}", source_, path_),
                EBUSY);
  record_.source = state_of(source_);
  save(CopyRecord::Stage::matched);
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
  if (!record_.journal_mode.empty())
    Database(path_, Database::Access::write).run("PRAGMA journal_mode = " + record_.journal_mode);
  sync(path_, O_RDONLY);
  take_mode(0);
  if (rename(path_.c_str(), target_.c_str()) != 0) refuse_file("rename to " + target_ + " the file", path_);
  const std::string folder = fs::path(target_).parent_path().string();
  sync(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  remove_record(record_path());
}

}  // namespace cli
