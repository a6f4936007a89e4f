// NAME.matching-run: what `vicinal match` notes beside its copy of a database, so that a run that is killed at any
// moment can be resumed.
#pragma once
#include <optional>
#include <string>

namespace cli {

struct CopyRecord {
  /// copying: the copy is not all there; matched: every pair is written, what is left is that the copy takes its name.
  enum class Stage { copying, matching, matched };
  Stage stage = Stage::copying;
  bool again = true;         // the run matches every pair, also those that had matches before
  std::string source;        // state of the database that was copied
  std::string journal_mode;  // of a database that will be replaced
  std::string checksum;      // of that, before its journal_mode is changed; empty until then
  std::string run;           // what is done, by which options
};

/// Nothing where there is no such file, or one that this program has not written.
std::optional<CopyRecord> read_record(const std::string& path);
/// Replaces the file in one step.
void write_record(const std::string& path, const CopyRecord& record);
void remove_record(const std::string& path);

}  // namespace cli
