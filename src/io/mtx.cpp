// MatrixMarket text. Read as dense f64 rows: array and coordinate, real or integer, general. Graphs are written as
// coordinate, counted from 1, zeros and all. Lines of errors count from 1.
#include <algorithm>
#include <cctype>
#include <memory>
#include <vector>

#include "io/format.hpp"
#include "io/message.hpp"
#include "io/text.hpp"

namespace vicinal::io {
namespace {

constexpr std::string_view banner = "%%MatrixMarket";

std::string lower(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool sniff(const Format&, Bytes file) {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).starts_with(banner);
}

/// A walk over the lines that are neither comments nor empty.
struct Reader {
  const std::string& path;
  Lines lines;
  std::string_view line = {};

  bool next() {
    while (lines.next(line)) {
      if (!line.starts_with('%') && !trimmed(line).empty()) return true;
    }
    return false;
  }
  template <class T>
  T number(const char* what) {
    const std::string_view word = next_word(line);
    if (const std::optional<T> value = number_of<T>(word)) return *value;
    fail(ErrorCode::format_error, path, "line ", lines.number(), ": \"", printable(word, 40), "\" is not ", what);
  }
  void end_of_line() {
    if (!trimmed(line).empty())
      fail(ErrorCode::format_error, path, "line ", lines.number(), " goes on with \"", printable(trimmed(line), 40),
           "\"");
  }
};

/// True: coordinate; false: array.
bool coordinate(const Format& self, const std::string& path, std::string_view line, Bytes file) {
  if (next_word(line) != banner)
    fail(ErrorCode::format_error, path, "not a ", self.name, " file (", first_bytes(file), ")");
  const std::string object = lower(next_word(line)), layout = lower(next_word(line)), field = lower(next_word(line)),
                    symmetry = lower(next_word(line));
  const bool known = object == "matrix" && (layout == "coordinate" || layout == "array");
  const bool numbers = field == "real" || field == "integer" || field == "double";
  if (known && numbers && symmetry == "general") return layout == "coordinate";
  fail(known ? ErrorCode::unsupported : ErrorCode::format_error, path, "is a ",
       printable(cat(object, " ", layout, " ", field, " ", symmetry), 80),
       "; matrices, array or coordinate, real or integer, general, can be read");
}

std::int64_t size_of(Reader& reader, const char* what) {
  const auto size = reader.number<std::int64_t>(what);
  if (size < 0)
    fail(ErrorCode::format_error, reader.path, "line ", reader.lines.number(), ": ", size, " is not ", what);
  return size;
}

struct Dense {
  std::int64_t rows, cols;
  std::shared_ptr<std::vector<double>> values;
};

Dense read_array(Reader& reader) {
  const std::int64_t rows = size_of(reader, "a number of rows"), cols = size_of(reader, "a number of columns");
  reader.end_of_line();
  const auto count = product({static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)});
  if (!count || *count > reader.lines.rest().size()) {  // a value takes a byte and the end of its line
    fail(ErrorCode::format_error, reader.path, rows, " x ", cols, " values do not fit ", reader.lines.rest().size(),
         " bytes of text");
  }
  auto values = std::make_shared<std::vector<double>>();
  values->reserve(*count);
  while (values->size() < *count && reader.next()) {
    values->push_back(reader.number<double>("a number"));
    reader.end_of_line();
  }
  if (values->size() < *count)
    fail(ErrorCode::format_error, reader.path, "ends after ", values->size(), " of ", rows, " x ", cols, " values");
  return {rows, cols, values};
}

Dense read_coordinate(Reader& reader, std::size_t file_size) {
  const std::int64_t rows = size_of(reader, "a number of rows"), cols = size_of(reader, "a number of columns"),
                     entries = size_of(reader, "a number of entries");
  reader.end_of_line();
  // Zeros are not in the file, so its length bounds the dense form by density alone.
  constexpr std::uint64_t least_density = 1000;  // cells for a byte of text
  const auto cells = product({static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)});
  if (!cells || *cells / least_density > file_size) {
    fail(ErrorCode::format_error, reader.path, rows, " x ", cols, " with ", entries, " entries in ", file_size,
         " bytes is too sparse to be read as dense rows");
  }
  auto values = std::make_shared<std::vector<double>>(*cells, 0.0);
  std::vector<bool> seen(*cells, false);
  for (std::int64_t i = 0; i < entries; ++i) {
    if (!reader.next()) fail(ErrorCode::format_error, reader.path, "ends after ", i, " of ", entries, " entries");
    const auto row = reader.number<std::int64_t>("a row"), col = reader.number<std::int64_t>("a column");
    if (row < 1 || row > rows || col < 1 || col > cols) {
      fail(ErrorCode::format_error, reader.path, "line ", reader.lines.number(), ": (", row, ", ", col,
           ") lies outside ", rows, " x ", cols);
    }
    const auto at = static_cast<std::size_t>((col - 1) * rows + row - 1);
    if (seen[at]) {
      fail(ErrorCode::format_error, reader.path, "line ", reader.lines.number(), ": (", row, ", ", col,
           ") stands twice");
    }
    seen[at] = true;
    (*values)[at] = reader.number<double>("a number");
    reader.end_of_line();
  }
  return {rows, cols, values};
}

Array read(const Format& self, const Source& source, const Want&) {
  const std::string& path = source->path();
  const Bytes file = source->bytes();
  Reader reader{path, Lines(file)};
  reader.lines.next(reader.line);
  const bool sparse = coordinate(self, path, reader.line, file);
  if (!reader.next()) fail(ErrorCode::format_error, path, "ends before its sizes");
  const Dense dense = sparse ? read_coordinate(reader, file.size()) : read_array(reader);
  if (reader.next()) fail(ErrorCode::format_error, path, "line ", reader.lines.number(), " comes after the last value");
  Array array = Array::dense(dense.values->data(), Item::f64, dense.rows, dense.cols);
  array.row_stride = 8;  // columns first
  array.col_stride = 8 * dense.rows;
  array.mapped = false;
  array.keeper = dense.values;
  return array;
}

const Array& named(std::span<const Named> arrays, std::string_view name) {
  return std::find_if(arrays.begin(), arrays.end(), [&](const Named& one) { return one.name == name; })->array;
}

void write(const Format&, AtomicFile& file, Role, std::span<const Named> arrays) {
  const Array &ids = named(arrays, "indices"), &offsets = named(arrays, "indptr"), &data = named(arrays, "data");
  const auto* ends = reinterpret_cast<const std::int64_t*>(offsets.data);
  const auto* columns = reinterpret_cast<const std::int64_t*>(ids.data);
  const std::int64_t rows = offsets.cols - 1;
  TextSink out(file);
  out.text() = cat(banner, " matrix coordinate ", data.item == Item::u32 ? "integer" : "real", " general\n", rows, " ",
                   rows, " ", ids.cols, "\n");
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::string first = cat(row + 1, " ");
    for (std::int64_t at = ends[row]; at < ends[row + 1]; ++at) {
      out.text() += first + std::to_string(columns[at] + 1) + " ";
      append_number(out.text(), data.item, data.data + at * data.col_stride);
      out.text() += '\n';
      out.spill();
    }
  }
  out.flush();
}

}  // namespace

const Format mtx_format = {
    .name = "mtx",
    .suffix = ".mtx",
    .reads = "f64 rows (MatrixMarket, general)",
    .writes = "graphs",
    .read_roles = as_vectors | as_values,
    .write_roles = as_graph,
    .holds_distances = true,
    .sniff = sniff,
    .read = read,
    .write = write,
};

}  // namespace vicinal::io
