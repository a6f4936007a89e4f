// Where `vicinal match` writes: into the database itself, or into a copy beside it that takes its name when all is
// there.
#pragma once
#include <optional>
#include <string>

#include "copy_record.hpp"
#include "interrupt.hpp"
#include "sqlite.hpp"

namespace cli {

struct WorkingCopyFlags {
  std::string database, output;  // output: another file is to be written; empty: the database itself
  bool in_place = false, resume = false;
};

/// NAME.matching beside the target, and NAME.matching-run that says what it is (copy_record.hpp). A kill at any moment
/// leaves the target as it was, and these two for --resume. While a database is to be replaced it is locked against
/// other writers.
class WorkingCopy {
 public:
  /// Copies, unless a copy of the same run is there and to be resumed. run: what is done, so that a copy is resumed by
  /// the same command alone. Throws IoError for a database that is open elsewhere or cannot be written, InvalidArgument
  /// for a copy of another run.
  WorkingCopy(const WorkingCopyFlags& flags, const std::string& run, Interrupt& interrupt);

  /// What is to be opened and written.
  const std::string& path() const noexcept { return path_; }
  /// Whether every pair is matched, also those that had matches before.
  bool matches_again() const noexcept { return record_.again && record_.stage != CopyRecord::Stage::matched; }
  /// Every pair is written: what a stopped run leaves from here on only has to take its name.
  void note_matched();
  /// Removes a copy that this run has made, in which nothing was written.
  void discard() noexcept;
  /// Gives the copy its name. Nothing may have it open.
  void publish();

 private:
  void lock_source();
  /// Leaves nothing beside the source that belongs to it, for the copy to take its name.
  void free_name();
  void copy(Interrupt& interrupt);
  /// Whether a copy is there to go on with.
  bool begun(const WorkingCopyFlags& flags, const std::string& run);
  /// Whether the source is what it was when it was copied.
  bool is_unchanged(const CopyRecord& record) const;
  void save(CopyRecord::Stage stage);
  std::string record_path() const { return path_ + "-run"; }

  std::string source_, target_, path_;
  std::string version_;           // of a source that will be replaced
  std::optional<Database> lock_;  // holds a write transaction on a source that will be replaced
  CopyRecord record_;
  bool made_ = false;  // by this run
};

}  // namespace cli
