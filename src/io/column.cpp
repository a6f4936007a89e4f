// One integer a row: labels, lists of ids, masks. Not a matrix, so not a Format: .npy of one dimension (or one column)
// and text of one number a line.
#include <charconv>
#include <new>
#include <utility>

#include "io/message.hpp"
#include "io/npy.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace {

using namespace io;

template <class T>
void widen(const std::string& path, const std::byte* at, std::uint64_t count, std::vector<std::int64_t>& values) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const T value = load<T>(at + i * sizeof(T));
    if (!std::in_range<std::int64_t>(value))
      fail(ErrorCode::range_error, path, "row ", i, ": ", value, " exceeds 2^63 - 1");
    values.push_back(static_cast<std::int64_t>(value));  // NOLINT(bugprone-signed-char-misuse): -1 of an int8 is -1
  }
}

Column npy_column(const std::string& path, Bytes file) {
  const NpyHeader header = npy_header(path, file, file.size());
  const bool mask = header.dtype == "bool",
             line = header.shape.size() == 1 || (header.shape.size() == 2 && header.shape[1] == 1);
  if (!mask && (!header.item || *header.item == Item::f16 || *header.item == Item::bf16 || *header.item == Item::f32 ||
                *header.item == Item::f64))
    fail(ErrorCode::invalid_argument, path, "expected integers or bool, got ", header.dtype);
  if (!line) fail(ErrorCode::invalid_argument, path, "expected one value a row, got shape ", header.shape_text());
  const std::uint64_t count = header.shape[0], size = mask ? 1 : value_size(*header.item);
  const auto need = product({count, size});
  if (!need || *need != file.size() - header.data_offset)
    fail(ErrorCode::format_error, path, "shape ", header.shape_text(), " of ", header.dtype, " does not fit a file of ",
         file.size(), " bytes");
  Column column{.values = {}, .mask = mask};
  column.values.reserve(count);
  const std::byte* at = file.data() + header.data_offset;
  std::vector<std::byte> turned;
  if (header.swapped) {
    Array line = Array::line(at, *header.item, static_cast<std::int64_t>(count));
    line.swapped = true;
    turned.resize(count * size);
    copy_items(line, 0, 0, line.cols, turned.data());
    at = turned.data();
  }
  switch (mask ? Item::u8 : *header.item) {
    case Item::i8: widen<std::int8_t>(path, at, count, column.values); break;
    case Item::u8: widen<std::uint8_t>(path, at, count, column.values); break;
    case Item::i16: widen<std::int16_t>(path, at, count, column.values); break;
    case Item::u16: widen<std::uint16_t>(path, at, count, column.values); break;
    case Item::i32: widen<std::int32_t>(path, at, count, column.values); break;
    case Item::u32: widen<std::uint32_t>(path, at, count, column.values); break;
    case Item::u64: widen<std::uint64_t>(path, at, count, column.values); break;
    case Item::i64: widen<std::int64_t>(path, at, count, column.values); break;
    case Item::f32:
    case Item::f64:
    case Item::f16:
    case Item::bf16: fail(ErrorCode::internal, path, "a column of ", item_name(*header.item));
  }
  return column;
}

Column text_column(const std::string& path, Bytes file) {
  Column column;
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.ends_with('\r')) word.remove_suffix(1);
    if (word.empty() && text.empty()) break;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size())
      fail(ErrorCode::format_error, path, "line ", line, ": \"", printable(word, 32), "\" is not an integer");
    column.values.push_back(value);
  }
  return column;
}

}  // namespace

Column read_column(const std::string& path) try {
  const std::string name = path.substr(path.rfind('/') + 1),
                    suffix = name.substr(std::min(name.rfind('.'), name.size()));
  const bool npy = suffix == ".npy";
  if (!npy && suffix != ".txt")
    fail(ErrorCode::unsupported, path, "lists of integers are read from .npy (one dimension) and .txt (one a line)");
  const MappedFile file(path);
  return npy ? npy_column(path, file.bytes()) : text_column(path, file.bytes());
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory for the integers of ", printable(path)));
}

}  // namespace vicinal
