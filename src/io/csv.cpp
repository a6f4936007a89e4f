// .csv and .tsv: one row a line. Vectors are read as f64; a first line in which no cell is a number is a header and
// skipped, as is one of the integers 0 to d - 1 under conditions that docs/semantics.md names (C24). A header whose
// first cell is empty has names of rows below that cell, which are left out. Cells of a csv lie apart by commas, or all
// by semicolons. A result has the header id_0, id_1, ..., d_0, d_1, ...: d_0 are f32 distances, d_0:f64 and d_0:u32 the
// other types, so that the bits come back. A selection has v_0, v_1, ... for values and p_0, p_1, ... for a payload,
// with their type in the same way (written only), a range result is lines of query,id,distance (written only). A cell
// may stand in quotes. Rows and columns of errors count from 1.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "io/format.hpp"
#include "io/message.hpp"
#include "io/text.hpp"

namespace vicinal::io {
namespace {

/// What stands between two cells that are written.
char separator(const Format& self) { return &self == &tsv_format ? '\t' : ','; }

/// Cells of a line in turn. What stands in quotes is taken whole.
class Cells {
 public:
  Cells(std::string_view line, char separator) : rest_(line), separator_(separator) {}
  bool next(std::string_view& cell) {
    if (done_) return false;
    std::size_t end = rest_.find(separator_);
    const std::string_view start = rest_.substr(std::min(rest_.find_first_not_of(' '), rest_.size()));
    const std::size_t quote = start.starts_with('"') ? start.find('"', 1) : std::string_view::npos;
    if (quote != std::string_view::npos) {
      const std::string_view after = start.substr(quote + 1);
      const std::size_t gap = std::min(after.find(separator_), after.size());
      if (trimmed(after.substr(0, gap)).empty()) {
        cell = trimmed(start.substr(1, quote - 1));
        return take(static_cast<std::size_t>(after.data() - rest_.data()) + gap);
      }
    }
    end = std::min(end, rest_.size());
    cell = trimmed(rest_.substr(0, end));
    return take(end);
  }

 private:
  bool take(std::size_t end) {
    done_ = end >= rest_.size();
    rest_.remove_prefix(done_ ? rest_.size() : end + 1);
    return true;
  }
  std::string_view rest_;
  char separator_;
  bool done_ = false;
};

using Words = std::span<const std::string_view>;

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> words;
  std::string_view cell;
  for (Cells cells(line, separator); cells.next(cell);) words.push_back(cell);
  return words;
}

/// The first line, taken apart, and where rows begin.
struct Head {
  std::vector<std::string_view> names;  // empty: the first line is a row already
  std::size_t cols = 0;                 // cells of a line
  std::size_t index = 0;                // 1: the first of them is the name of a row and no value
  char separator = ',';
  std::string note;
  Lines rows;
};

bool all_words(Words cells) {
  return std::all_of(cells.begin(), cells.end(),
                     [](std::string_view cell) { return !cell.empty() && !is_number(cell); });
}

/// first, first + 1, ... as pandas writes integers.
bool counts_from(std::size_t first, Words cells) {
  for (const std::string_view cell : cells)
    if (cell != std::to_string(first++)) return false;
  return !cells.empty();
}

/// Judges a first line of the integers 0 to d - 1 by the second line: names of columns or a row? Says what it took
/// where it could be wrong.
bool numbers_are_names(std::size_t count, Words second, std::string& note) {
  if (second.empty() || counts_from(count, second)) return false;  // the only row, or the first of rows that count on
  const bool integers = std::all_of(second.begin(), second.end(),
                                    [](std::string_view cell) { return number_of<std::int64_t>(cell).has_value(); });
  const bool names = count > 2 || (count == 2 && !integers);
  note =
      cat("row 1 is the integers 0 to ", count - 1, ", and was taken as ",
          names ? "names of columns; --no-header takes it as a row" : "a row; --header takes it as names of columns");
  return names;
}

/// rows: of values, whose header may be left out or be numbers; else the columns of a result.
Head head_of(const Format& self, const std::string& path, Bytes file, bool rows, Header asked) {
  Lines lines(file);
  Head head{{}, 0, 0, ',', {}, lines};
  std::string_view line;
  if (!lines.next(line)) fail(ErrorCode::format_error, path, "the file is empty");
  if (line.find('\r') != std::string_view::npos)
    fail(ErrorCode::format_error, path, "line 1 holds a carriage return; lines end with a line feed (tr '\\r' '\\n')");
  head.separator = separator(self);
  if (head.separator == ',' && cells_of(line, ',').size() == 1 && cells_of(line, ';').size() > 1) head.separator = ';';
  head.names = cells_of(line, head.separator);
  head.cols = head.names.size();
  const bool unnamed = rows && head.cols > 1 && head.names[0].empty();  // what pandas and R write before names of rows
  const Words named = Words(head.names).subspan(unnamed ? 1 : 0);
  bool header = asked == Header::present || all_words(named) || (unnamed && counts_from(0, named));
  if (rows && !header && asked == Header::automatic && counts_from(0, named)) {
    Lines rest = lines;
    std::string_view second;
    std::vector<std::string_view> cells;
    if (rest.next(second) && !trimmed(second).empty()) cells = cells_of(second, head.separator);
    header = numbers_are_names(head.cols, cells, head.note);
  }
  if (asked == Header::absent) header = false;
  if (!header) {
    head.names.clear();
    return head;
  }
  head.rows = lines;
  head.index = unnamed ? 1 : 0;
  if (unnamed)
    head.note = "column 1 has no name, and was taken as names of rows and left out; give it a name if it is values";
  return head;
}

bool blank_to_the_end(std::string_view rest) { return rest.find_first_not_of("\r\n \t") == std::string_view::npos; }

[[noreturn]] void refuse_cell(const std::string& path, std::size_t row, std::size_t column, std::string_view cell,
                              const char* kind) {
  const char* hint = cell.find(';') != std::string_view::npos   ? "; cells lie apart by commas, or all by semicolons"
                     : cell.find(',') != std::string_view::npos ? "; numbers are written with a point"
                     : row == 1                                 ? "; --header if row 1 is names of columns"
                                                                : "";
  fail(ErrorCode::format_error, path, "row ", row, ", column ", column + 1, ": \"", printable(cell, 40), "\" is not ",
       kind, hint);
}

/// Columns [first, first + count) of all rows, dense, in memory.
template <class T>
Array parse(const Source& source, Head head, std::size_t first, std::size_t count, Item item, const char* kind) {
  const std::string& path = source->path();
  const std::string_view body = head.rows.rest();
  const auto lines = static_cast<std::uint64_t>(std::count(body.begin(), body.end(), '\n')) + 1;
  auto values = std::make_shared<std::vector<T>>();
  // Every cell but the last of a file takes two bytes at least.
  values->reserve(std::min<std::uint64_t>(body.size() / 2 + 1, product({lines, count}).value_or(UINT64_MAX)));
  std::int64_t rows = 0;
  for (std::string_view line, cell; head.rows.next(line); ++rows) {
    if (trimmed(line).empty() && blank_to_the_end(head.rows.rest())) break;
    std::size_t column = 0;
    for (Cells cells(line, head.separator); cells.next(cell); ++column) {
      if (column < first || column >= first + count) continue;
      const std::optional<T> value = number_of<T>(cell);
      if (!value) refuse_cell(path, head.rows.number(), column, cell, kind);
      values->push_back(*value);
    }
    if (column == head.cols) continue;
    fail(ErrorCode::format_error, path, "row ", head.rows.number(), " has ", column,
         column == 1 ? " column" : " columns", ", expected ", head.cols);
  }
  Array array = Array::dense(values->data(), item, rows, static_cast<std::int64_t>(count));
  array.mapped = false;
  array.keeper = values;
  array.note = head.note;
  return array;
}

/// What the header of a result says.
struct Result {
  std::size_t ids = 0, distances = 0;
  Item type = Item::f32;
};

Result result_of(const std::string& path, const Head& head) {
  Result result;
  if (head.names.empty()) return {head.cols, 0, Item::f32};
  const auto& names = head.names;
  std::size_t at = 0;
  while (at < names.size() && names[at] == cat("id_", at)) ++at;
  result.ids = at;
  const std::string_view first = at < names.size() ? names[at] : std::string_view();
  const std::string_view kind = first.starts_with("d_0") ? first.substr(3) : std::string_view();
  result.type = kind == ":f64" ? Item::f64 : kind == ":u32" ? Item::u32 : Item::f32;
  while (at < names.size() && names[at] == cat("d_", at - result.ids, kind)) ++at;
  result.distances = at - result.ids;
  if (result.ids > 0 && at == names.size() && (result.distances == 0 || result.distances == result.ids)) return result;
  fail(ErrorCode::format_error, path,
       "the header of a result is id_0, id_1, ... and as many d_0, d_1, ... or none; column ", at + 1, " of ",
       names.size(), " is \"", at < names.size() ? printable(names[at], 40) : "", "\"");
}

Array parse_distances(const Source& source, const Head& head, const Result& result) {
  if (result.type == Item::f64) return parse<double>(source, head, result.ids, result.distances, Item::f64, "a number");
  if (result.type == Item::u32)
    return parse<std::uint32_t>(source, head, result.ids, result.distances, Item::u32, "an integer below 2^32");
  return parse<float>(source, head, result.ids, result.distances, Item::f32, "a number of f32");
}

Array read(const Format& self, const Source& source, const Want& want) {
  const MappedFile::Sequential reading(*source);
  const bool rows = want.role == as_vectors || want.role == as_values;
  const Head head = head_of(self, source->path(), source->bytes(), rows, rows ? want.header : Header::automatic);
  if (rows) {
    if (!head.names.empty() && head.names[0] == "id_0")
      fail(ErrorCode::invalid_argument, source->path(), "holds a result (its header begins with id_0), not vectors");
    return parse<double>(source, head, head.index, head.cols - head.index, Item::f64, "a number");
  }
  const Result result = result_of(source->path(), head);
  if (want.role == as_ids) return parse<std::int64_t>(source, head, 0, result.ids, Item::i64, "an integer");
  return result.distances == 0 ? Array() : parse_distances(source, head, result);
}

/// Would a reader take this row, written first, for names of columns?
bool looks_like_names(const std::vector<std::byte>& row, Item item) {
  const std::size_t size = value_size(item), count = row.size() / size;
  for (std::size_t j = 0; j < count; ++j) {
    std::string text;
    append_f64(text, item, row.data() + j * size);
    if (text != std::to_string(j)) return false;
  }
  return count > 1;
}

void write_vectors(const Format& self, TextSink& out, const Array& array) {
  std::vector<std::byte> row(static_cast<std::size_t>(array.cols) * value_size(array.item));
  for (std::int64_t i = 0; i < array.rows; ++i) {
    copy_items(array, i, 0, array.cols, row.data());
    const bool plain = i > 0 || !looks_like_names(row, array.item);
    for (std::int64_t j = 0; j < array.cols; ++j) {
      if (j > 0) out.text() += separator(self);
      append_f64(out.text(), array.item, row.data() + static_cast<std::size_t>(j) * value_size(array.item));
      if (!plain && j == 0) out.text() += ".0";
      out.spill();
    }
    out.text() += '\n';
    out.spill();
  }
}

/// The columns of one array after another, all of the shape of the first, which are ids.
void write_result(const Format& self, TextSink& out, std::span<const Named> arrays) {
  const std::int64_t rows = arrays[0].array.rows, cols = arrays[0].array.cols;
  const auto columns = static_cast<std::int64_t>(arrays.size()) * cols;
  for (std::int64_t j = 0; j < columns; ++j) {
    const Named& named = arrays[static_cast<std::size_t>(j / cols)];
    const bool plain = named.array.item == Item::f32 || j < cols;
    if (j > 0) out.text() += separator(self);
    out.text() += cat(j < cols ? "id" : std::string(1, named.name[0]), "_", j % cols, plain ? "" : ":",
                      plain ? "" : value_type_name(named.array.item));
  }
  out.text() += '\n';
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const Array& array = arrays[static_cast<std::size_t>(j / cols)].array;
      if (j > 0) out.text() += separator(self);
      append_number(out.text(), array.item, array.data + i * array.row_stride + j % cols * array.col_stride);
      out.spill();
    }
    out.text() += '\n';
  }
}

void write_range(const Format& self, TextSink& out, const Array& offsets, const Array& ids, const Array& distances) {
  const auto* ends = reinterpret_cast<const std::int64_t*>(offsets.data);
  const std::string between(1, separator(self));
  out.text() += cat("query", between, "id", between, "distance\n");
  for (std::int64_t query = 0; query + 1 < offsets.cols; ++query) {
    for (std::int64_t at = ends[query]; at < ends[query + 1]; ++at) {
      append_number(out.text(), Item::i64, reinterpret_cast<const std::byte*>(&query));
      out.text() += between;
      append_number(out.text(), ids.item, ids.data + at * ids.col_stride);
      out.text() += between;
      append_number(out.text(), distances.item, distances.data + at * distances.col_stride);
      out.text() += '\n';
      out.spill();
    }
  }
}

void write(const Format& self, AtomicFile& file, Role role, std::span<const Named> arrays) {
  TextSink out(file);
  if (role == as_vectors) write_vectors(self, out, arrays[0].array);
  else if (role == as_ids) write_result(self, out, arrays.first(2));
  else if (role == as_selection) write_result(self, out, arrays);
  else write_range(self, out, arrays[0].array, arrays[1].array, arrays[2].array);
  out.flush();
}

/// Text cannot be told from other text by a glance at it.
bool sniff(const Format&, Bytes) { return false; }

constexpr Format family(const char* name, const char* suffix) {
  return {.name = name,
          .suffix = suffix,
          .reads = "f64 rows; ids and distances",
          .writes = "rows; ids and distances; ranges (query, id, distance); selections",
          .read_roles = as_vectors | as_ids | as_values,
          .write_roles = as_vectors | as_ids | as_range | as_selection,
          .holds_distances = true,
          .roles_with_rows = as_vectors,
          .sniff = sniff,
          .read = read,
          .write = write};
}

}  // namespace

const Format csv_format = family("csv", ".csv");
const Format tsv_format = family("tsv", ".tsv");

}  // namespace vicinal::io
