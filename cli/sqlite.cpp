// See sqlite.hpp.
#include "sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "vicinal/error.hpp"

namespace cli {
namespace {

using vicinal::Error;
using vicinal::ErrorCode;

constexpr int patience_ms = 2000;  // another program's transaction may take a moment
constexpr int pages_at_once = 4096;

std::uint32_t big_endian(const unsigned char* at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | at[i];
  return value;
}

/// What the system says of opening the file, in the words that it has for files; SQLite has one word for all of it.
void check_file(const std::string& path, Database::Access access) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    const bool missing = errno == ENOENT;
    if (access == Database::Access::create && missing && ::access(folder.empty() ? "." : folder.c_str(), W_OK) == 0)
      return;
    throw Error(ErrorCode::io_error, fmt::format("cannot open {}: {}", path, std::strerror(errno)), errno);
  }
  if (S_ISDIR(status.st_mode))
    throw Error(ErrorCode::io_error, fmt::format("cannot open {}: it is a folder", path), EISDIR);
  if (::access(path.c_str(), R_OK) != 0)
    throw Error(ErrorCode::io_error, fmt::format("cannot read {}: {}", path, std::strerror(errno)), errno);
  if (access != Database::Access::read && ::access(path.c_str(), W_OK) != 0)
    throw Error(ErrorCode::io_error, fmt::format("cannot write {}: {}", path, std::strerror(errno)), errno);
}

}  // namespace

Database::Database(const std::string& path, Access access) : path_(path) {
  check_file(path, access);
  // A reader that may not write leaves the files -wal and -shm behind, of a database that has them while it is open:
  // one that may removes them.
  const bool writable = access != Access::read || ::access(path.c_str(), W_OK) == 0;
  int flags = SQLITE_OPEN_NOMUTEX | (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
  if (access == Access::create) flags |= SQLITE_OPEN_CREATE;
  try {
    check(sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr));
    sqlite3_extended_result_codes(handle_, 1);
    check(sqlite3_busy_timeout(handle_, patience_ms));
    if (access == Access::read) run("PRAGMA query_only = ON");
    value("PRAGMA schema_version");  // the first read: a file of another kind, or a locked one, is known now
    if (access != Access::read && sqlite3_db_readonly(handle_, "main") == 1) fail(SQLITE_READONLY);
  } catch (...) {
    sqlite3_close_v2(std::exchange(handle_, nullptr));
    throw;
  }
}

Database::~Database() { sqlite3_close_v2(handle_); }

Database::Database(Database&& other) noexcept
    : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, nullptr)) {}

void Database::fail(int result) const {
  const std::string said = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
  const auto text = [&](std::string_view what) { return fmt::format("{}: {} ({})", path_, what, said); };
  switch (result & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorCode::io_error, text("another program has the database open or locked; close it"), EBUSY);
    case SQLITE_READONLY: throw Error(ErrorCode::io_error, text("the database cannot be written"), EROFS);
    case SQLITE_FULL: throw Error(ErrorCode::io_error, text("no space is left"), ENOSPC);
    case SQLITE_PERM:
    case SQLITE_AUTH: throw Error(ErrorCode::io_error, text("not permitted"), EACCES);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: throw Error(ErrorCode::io_error, text("the system refused the database"), EIO);
    case SQLITE_NOTADB: throw Error(ErrorCode::format_error, text("not a database of SQLite"));
    case SQLITE_CORRUPT: throw Error(ErrorCode::format_error, text("the database is damaged"));
    case SQLITE_ERROR:
    case SQLITE_SCHEMA: throw Error(ErrorCode::format_error, text("not a database as COLMAP writes it"));
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: throw Error(ErrorCode::format_error, text("the database refuses what it is to hold"));
    case SQLITE_TOOBIG: throw Error(ErrorCode::range_error, text("too large for SQLite"));
    case SQLITE_NOMEM: throw Error(ErrorCode::out_of_memory, text("no memory"));
    default: throw Error(ErrorCode::internal, text(fmt::format("SQLite's result {}", result)));
  }
}

void Database::check(int result) const {
  if (result != SQLITE_OK) fail(result);
}

void Database::run(const std::string& sql) { check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr)); }

std::string Database::value(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : "";
}

bool Database::has_table(std::string_view name) {
  Statement statement(*this, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
  return statement.bind(1, name).step();
}

bool Database::has_column(std::string_view table, std::string_view column) {
  Statement statement(*this, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return statement.bind(1, table).bind(2, column).step();
}

sqlite3_file& Database::file() const {
  sqlite3_file* file = nullptr;
  check(sqlite3_file_control(handle_, "main", SQLITE_FCNTL_FILE_POINTER, &file));
  return *file;
}

FileHead Database::head() const {
  sqlite3_file& file = this->file();
  FileHead head;
  sqlite3_int64 length = 0;
  check(file.pMethods->xFileSize(&file, &length));
  head.length = length;
  std::array<unsigned char, 100> bytes{};
  if (length < std::ssize(bytes)) return head;
  check(file.pMethods->xRead(&file, bytes.data(), static_cast<int>(bytes.size()), 0));
  const std::uint32_t size = big_endian(&bytes[16], 2);
  head.page_size = size == 1 ? 65536 : size;
  if (big_endian(&bytes[24], 4) == big_endian(&bytes[92], 4)) head.pages = big_endian(&bytes[28], 4);
  return head;
}

std::uint64_t Database::checksum() const {
  sqlite3_file& file = this->file();
  const std::int64_t length = head().length;
  std::vector<unsigned char> block(std::size_t{1} << 20);
  std::uint64_t sum = static_cast<std::uint64_t>(length);
  for (std::int64_t at = 0; at < length; at += std::ssize(block)) {
    const std::int64_t used = std::min<std::int64_t>(std::ssize(block), length - at);
    check(file.pMethods->xRead(&file, block.data(), static_cast<int>(used), at));
    std::fill(block.begin() + used, block.end(), static_cast<unsigned char>(0));
    if (at == 0)  // journal_mode, the count of changes, and that count and SQLite's version at the last one
      for (const auto& [begin, end] : {std::pair(18, 20), std::pair(24, 28), std::pair(92, 100)})
        std::fill(block.begin() + begin, block.begin() + end, static_cast<unsigned char>(0));
    for (std::int64_t i = 0; i < used; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, block.data() + i, sizeof word);
      sum = std::rotl(sum ^ word, 29) * 0x9E3779B97F4A7C15u;
    }
  }
  return sum;
}

void Database::check_length() {
  constexpr std::uintmax_t head_of_log = 32;
  run("BEGIN");
  value("SELECT count(*) FROM sqlite_master");  // from here on no other program writes into the file
  const FileHead head = this->head();
  std::error_code none;
  const std::uintmax_t log =
      std::filesystem::file_size(sqlite3_filename_wal(sqlite3_db_filename(handle_, "main")), none);
  run("COMMIT");
  if (!none && log > head_of_log) return;  // pages of its end may still be there alone
  if (head.length < head.pages * head.page_size)
    throw Error(
        ErrorCode::format_error,
        fmt::format("{}: the database is cut short: {} bytes are there, and its head says {} pages of {} bytes; "
                    "copy it once more from where it is whole",
                    path_, head.length, head.pages, head.page_size));
}

void Database::copy_from(Database& from, const std::function<void(std::int64_t, std::int64_t)>& between) {
  sqlite3_backup* const backup = sqlite3_backup_init(handle_, "main", from.handle_, "main");
  if (backup == nullptr) fail(sqlite3_errcode(handle_));
  int result = SQLITE_OK;
  try {
    while ((result = sqlite3_backup_step(backup, pages_at_once)) == SQLITE_OK)
      between(sqlite3_backup_pagecount(backup) - sqlite3_backup_remaining(backup), sqlite3_backup_pagecount(backup));
  } catch (...) {
    sqlite3_backup_finish(backup);
    throw;
  }
  sqlite3_backup_finish(backup);
  if (result != SQLITE_DONE) fail(result);
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  database_.check(sqlite3_prepare_v2(database.handle_, sql.data(), static_cast<int>(sql.size()), &handle_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::bind(int parameter, std::int64_t value) {
  database_.check(sqlite3_bind_int64(handle_, parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  database_.check(sqlite3_bind_text64(handle_, parameter, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int parameter, std::span<const std::byte> blob) {
  if (blob.empty()) database_.check(sqlite3_bind_zeroblob(handle_, parameter, 0));
  else database_.check(sqlite3_bind_blob64(handle_, parameter, blob.data(), blob.size(), SQLITE_TRANSIENT));
  return *this;
}

bool Statement::step() {
  const int result = sqlite3_step(handle_);
  if (result == SQLITE_ROW) return true;
  sqlite3_reset(handle_);
  if (result != SQLITE_DONE) database_.fail(result);
  return false;
}

void Statement::reset() { sqlite3_reset(handle_); }

bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::string Statement::text(int column) const {
  const unsigned char* const text = sqlite3_column_text(handle_, column);
  return text == nullptr ? "" : std::string(text, text + sqlite3_column_bytes(handle_, column));
}

std::span<const std::byte> Statement::blob(int column) const {
  const void* const data = sqlite3_column_blob(handle_, column);
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Transaction::Transaction(Database& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {  // SQLite has rolled back by itself
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace cli
