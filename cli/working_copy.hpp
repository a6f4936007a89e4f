// Where `vicinal match` writes: into the database itself, or into a copy beside it that takes its name when all is there.
#pragma once
#include <optional>
#include <string>

#include "interrupt.hpp"
#include "sqlite.hpp"

namespace cli {

struct WorkingCopyFlags {
  std::string database, output;  // output: another file is to be written; empty: the database itself
  bool in_place = false, resume = false;
};

/// NAME.matching beside the target. A kill leaves the target as it was, and the copy for --resume. While a database is to be replaced it is
/// locked against other writers.
class WorkingCopy {
 public:
  /// Copies, unless a copy of the same run is there and to be resumed. run: what is done, so that a copy is resumed by the same command
  /// alone. Throws IoError for a database that is open elsewhere or cannot be written, InvalidArgument for a copy of another run.
  WorkingCopy(const WorkingCopyFlags& flags, const std::string& run, Interrupt& interrupt);

  /// What is to be opened and written.
  const std::string& path() const noexcept { return path_; }
  /// Gives the copy its name. Nothing may have it open.
  void publish();

 private:
  void lock_source();
  /// Leaves nothing beside the source that belongs to it, for the copy to take its name.
  void free_name();
  void copy(const std::string& run, Interrupt& interrupt);
  /// Whether a copy is there to go on with.
  bool begun(const WorkingCopyFlags& flags, const std::string& run) const;

  std::string source_, target_, path_;
  std::string journal_mode_, version_;  // of a source that will be replaced
  std::optional<Database> lock_;        // holds a write transaction on a source that will be replaced
};

}  // namespace cli
