// See colmap.hpp.
#include "colmap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "vicinal/error.hpp"

namespace cli {
namespace {

using vicinal::DType;
using vicinal::Error;
using vicinal::ErrorCode;

constexpr std::int64_t most_pictures = 2147483647;
constexpr int type_undefined = -1, type_sift = 0;  // of COLMAP's FeatureExtractorType; the others hold floats as bytes

std::string named(const Picture& picture) { return fmt::format("\"{}\" (image {})", picture.name, picture.id); }

[[noreturn]] void refuse(const Database& database, const Picture& picture, const std::string& what) {
  throw Error(ErrorCode::format_error, fmt::format("{}: picture {}: {}", database.path(), named(picture), what));
}

/// Compares what the columns rows and cols say with the bytes that are there, before anything is made of them.
void check_sizes(const Database& database, const Picture& picture, std::int64_t cols_bytes, std::int64_t bytes) {
  const bool possible = picture.rows >= 0 && cols_bytes >= 0 &&
                        (picture.rows == 0 || cols_bytes == 0 || picture.rows <= INT64_MAX / cols_bytes);
  if (!possible || picture.rows * cols_bytes != bytes || (picture.rows > 0 && cols_bytes == 0))
    refuse(database, picture,
           fmt::format("descriptors are {} rows of {} bytes, but the blob holds {} bytes; extract its features again",
                       picture.rows, cols_bytes, bytes));
}

constexpr const char* written_table = "vicinal_match_written";

}  // namespace

std::int64_t pair_id(std::int64_t one, std::int64_t other) {
  return most_pictures * std::min(one, other) + std::max(one, other);
}

ColmapDatabase::ColmapDatabase(Database database) : database_(std::move(database)) {
  for (const char* table : {"images", "descriptors", "matches"})
    if (!database_.has_table(table))
      throw Error(ErrorCode::format_error, fmt::format("{}: not a database of COLMAP, or one without features: it has "
                                                       "no table {}; run COLMAP's feature_extractor first",
                                                       database_.path(), table));
  database_.check_length();
  read_pictures();
  read_descriptors_ = std::make_unique<Statement>(database_, "SELECT data FROM descriptors WHERE image_id = ?");
  read_matches_ = std::make_unique<Statement>(database_, "SELECT data FROM matches WHERE pair_id = ?");
  write_matches_ = std::make_unique<Statement>(
      database_, "INSERT OR REPLACE INTO matches (pair_id, rows, cols, data) VALUES (?, ?, 2, ?)");
  if (database_.has_table("two_view_geometries"))
    remove_geometry_ = std::make_unique<Statement>(database_, "DELETE FROM two_view_geometries WHERE pair_id = ?");
  if (database_.has_table(written_table)) prepare_run();
}

void ColmapDatabase::prepare_run() {
  read_written_ =
      std::make_unique<Statement>(database_, fmt::format("SELECT 1 FROM {} WHERE pair_id = ?", written_table));
  note_written_ =
      std::make_unique<Statement>(database_, fmt::format("INSERT OR IGNORE INTO {} VALUES (?)", written_table));
}

void ColmapDatabase::begin_run() {
  Transaction transaction(database_);
  end_run();
  database_.run(fmt::format("CREATE TABLE {} (pair_id INTEGER PRIMARY KEY)", written_table));
  transaction.commit();
  prepare_run();
}

void ColmapDatabase::end_run() {
  read_written_.reset();
  note_written_.reset();
  database_.run(fmt::format("DROP TABLE IF EXISTS {}", written_table));
}

void ColmapDatabase::read_pictures() {
  const std::string type = database_.has_column("descriptors", "type") ? "d.type" : "0";
  const bool keypoints = database_.has_table("keypoints");
  Statement rows(database_, "SELECT i.image_id, i.name, d.image_id IS NOT NULL, d.rows, d.cols, length(d.data), " +
                                type + (keypoints ? ", k.rows" : ", NULL") +
                                " FROM images i LEFT JOIN descriptors d ON d.image_id = i.image_id" +
                                (keypoints ? " LEFT JOIN keypoints k ON k.image_id = i.image_id" : "") +
                                " ORDER BY i.image_id");
  while (rows.step()) {
    Picture picture{.id = rows.integer(0), .name = rows.text(1)};
    if (picture.id < 0 || picture.id >= most_pictures)
      refuse(database_, picture, fmt::format("ids of images are from 0 to {}", most_pictures - 1));
    if (rows.is_null(1)) refuse(database_, picture, "its name is NULL; the database is damaged");
    if (rows.integer(2) != 0) {
      if (rows.is_null(3) || rows.is_null(4))
        refuse(database_, picture, "rows or cols of its descriptors are NULL; extract its features again");
      picture.rows = rows.integer(3);
      check_sizes(database_, picture, rows.integer(4), rows.integer(5));
      const std::int64_t kind = rows.integer(6);
      picture.dtype = kind == type_sift || kind == type_undefined ? DType::u8 : DType::f32;
      picture.cols = rows.integer(4) / static_cast<std::int64_t>(vicinal::dtype_size(picture.dtype));
      if (picture.rows > 0 && keypoints && rows.integer(7) != picture.rows)
        refuse(
            database_, picture,
            fmt::format("{} descriptors for {} keypoints; extract its features again", picture.rows, rows.integer(7)));
    }
    pictures_.push_back(std::move(picture));
  }
  const auto full = [](const Picture& picture) { return picture.rows > 0; };
  const auto first = std::find_if(pictures_.begin(), pictures_.end(), full);
  for (auto it = first; it != pictures_.end(); ++it)
    if (full(*it) && (it->cols != first->cols || it->dtype != first->dtype))
      refuse(database_, *it,
             fmt::format("descriptors of {} columns ({}), but those of picture {} have {} ({})", it->cols,
                         dtype_name(it->dtype), named(*first), first->cols, dtype_name(first->dtype)));
}

Descriptors ColmapDatabase::descriptors(const Picture& picture) {
  Descriptors found;
  if (picture.rows > 0 && read_descriptors_->bind(1, picture.id).step()) {
    const std::span<const std::byte> blob = read_descriptors_->blob(0);
    found.bytes.assign(blob.begin(), blob.end());
    read_descriptors_->reset();
  }
  check_sizes(database_, picture, picture.rows == 0 ? 0 : picture.bytes() / picture.rows, std::ssize(found.bytes));
  found.points = vicinal::Points(found.bytes.data(), picture.dtype, picture.rows, picture.cols);
  return found;
}

bool ColmapDatabase::is_matched(const Picture& first, const Picture& second) {
  Statement& read = read_written_ != nullptr ? *read_written_ : *read_matches_;
  const bool found = read.bind(1, pair_id(first.id, second.id)).step();
  read.reset();
  return found;
}

bool ColmapDatabase::write_matches(const Picture& first, const Picture& second, std::span<const MatchedRows> rows) {
  const std::int64_t id = pair_id(first.id, second.id);
  std::vector<MatchedRows> ordered(rows.begin(), rows.end());
  if (first.id > second.id) {
    for (MatchedRows& row : ordered) std::swap(row[0], row[1]);
    std::sort(ordered.begin(), ordered.end());
  }
  const std::span<const std::byte> blob = std::as_bytes(std::span<const MatchedRows>(ordered));
  if (note_written_ != nullptr) note_written_->bind(1, id).step();
  bool was_there = false, same = false;
  if (read_matches_->bind(1, id).step()) {
    const std::span<const std::byte> before = read_matches_->blob(0);
    was_there = true;
    same = before.size() == blob.size() && (blob.empty() || std::memcmp(before.data(), blob.data(), blob.size()) == 0);
    read_matches_->reset();
  }
  if (same) return false;
  write_matches_->bind(1, id).bind(2, std::ssize(ordered)).bind(3, blob).step();
  if (remove_geometry_ != nullptr) remove_geometry_->bind(1, id).step();
  return was_there;
}

}  // namespace cli
