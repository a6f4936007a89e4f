// SQLite as the command uses it: handles that close themselves, statements with bound parameters, failures as
// vicinal::Error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_file;
struct sqlite3_stmt;

namespace cli {

/// What stands at the beginning of a database's file (sqlite.org/fileformat.html), and how long it is.
struct FileHead {
  std::int64_t length = 0, page_size = 0;
  std::int64_t pages = 0;  // 0 where the head does not say
};

/// A file of SQLite. Moved, never copied; what a failure says begins with the path.
class Database {
 public:
  /// create: where there is no such file. `write` throws for a file that cannot be written, as `read` does for one that
  /// cannot be read.
  enum class Access { read, write, create };
  Database(const std::string& path, Access access);
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// Statements without parameters and results.
  void run(const std::string& sql);
  /// The first cell of the first row, as text; empty where there is none.
  std::string value(const std::string& sql);
  bool has_table(std::string_view name);
  /// What is in the file itself, whatever a journal or the file -wal has besides.
  FileHead head() const;
  /// It returns a checksum of all that is in the file itself but the journal's mode and the counts of its changes. Call
  /// it in a transaction that writes.
  std::uint64_t checksum() const;
  /// Throws FormatError for a file that was cut short: SQLite takes zeros for what its last page lacks.
  void check_length();
  bool has_column(std::string_view table, std::string_view column);
  /// Everything of `from` replaces everything here, as it stands when this is called. between(done, total) is called
  /// now and then, in pages.
  void copy_from(Database& from, const std::function<void(std::int64_t, std::int64_t)>& between);

  /// Throws the error of this result of SQLite.
  [[noreturn]] void fail(int result) const;

 private:
  friend class Statement;
  /// SQLite's own handle: closing another one of the file would drop the locks that this process has on it.
  sqlite3_file& file() const;
  void check(int result) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// A prepared statement. Parameters count from 1 and columns from 0, as SQLite has them.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, std::span<const std::byte> blob);
  /// True where there is a row. After false the statement is ready to be bound and run again.
  bool step();
  /// Ends a run that was not stepped to its end.
  void reset();

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  std::string text(int column) const;
  /// Valid until the next step.
  std::span<const std::byte> blob(int column) const;

 private:
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

/// Work that is written as a whole by commit(), or not at all.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace cli
