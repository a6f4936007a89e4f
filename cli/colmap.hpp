// COLMAP's database: pictures with their descriptors in, matches out. The tables are those of COLMAP's
// scene/database_sqlite.cc; all else in the file stays as it is.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sqlite.hpp"
#include "vicinal/matrix.hpp"

namespace cli {

/// A row of the table images, and how many descriptors belong to it.
struct Picture {
  std::int64_t id = 0;
  std::string name;
  std::int64_t rows = 0, cols = 0;
  vicinal::DType dtype = vicinal::DType::u8;

  std::int64_t bytes() const noexcept { return rows * cols * static_cast<std::int64_t>(vicinal::dtype_size(dtype)); }
};

/// Descriptors of one picture in memory: rows x cols of its element type.
struct Descriptors {
  std::vector<std::byte> bytes;
  vicinal::Points points;
};

/// A row of one picture and a row of another, as COLMAP stores them.
using MatchedRows = std::array<std::uint32_t, 2>;

class ColmapDatabase {
 public:
  /// Throws FormatError where tables are missing, or a picture's sizes do not agree (naming picture and sizes).
  explicit ColmapDatabase(Database database);

  Database& file() noexcept { return database_; }
  /// By ascending id; those without a row in descriptors have none.
  const std::vector<Picture>& pictures() const noexcept { return pictures_; }
  Descriptors descriptors(const Picture& picture);

  /// It begins a run that matches every pair again: until end_run() a table beside COLMAP's says which pairs this run
  /// has written, for matches that were there before are none of its own.
  void begin_run();
  void end_run();
  bool has_run() const noexcept { return read_written_ != nullptr; }
  /// Whether a resumed run leaves the pair out: the run that was begun and stopped has written it, or, where none was
  /// begun, it has matches.
  bool is_matched(const Picture& first, const Picture& second);
  /// Writes what a match of `first` with `second` found, in the order of columns that COLMAP wants. Where the table had
  /// something else, or nothing, a two-view geometry of the pair rests on what is gone: it is removed, so that COLMAP
  /// verifies the pair again. True where other matches were replaced.
  bool write_matches(const Picture& first, const Picture& second, std::span<const MatchedRows> rows);

 private:
  void read_pictures();
  void prepare_run();

  Database database_;
  std::vector<Picture> pictures_;
  std::unique_ptr<Statement> read_descriptors_, read_matches_, write_matches_, remove_geometry_;
  std::unique_ptr<Statement> read_written_, note_written_;  // null where no run was begun
};

/// COLMAP's number of a pair of pictures, whichever comes first.
std::int64_t pair_id(std::int64_t one, std::int64_t other);

}  // namespace cli
