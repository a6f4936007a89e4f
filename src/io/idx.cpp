// IDX, the format of MNIST: 00 00 type ndim, then ndim big-endian uint32 sizes, then the items, big-endian, and not a
// byte more. The first size counts the rows; the others are flattened (28 x 28 pixels are 784 columns).
#include <algorithm>

#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t head = 4;

std::uint32_t big_endian(const std::byte* from) { return __builtin_bswap32(load<std::uint32_t>(from)); }

std::optional<Item> item_of_code(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08: return Item::u8;
    case 0x09: return Item::i8;
    case 0x0B: return Item::i16;
    case 0x0C: return Item::i32;
    case 0x0D: return Item::f32;
    case 0x0E: return Item::f64;
    default: return std::nullopt;
  }
}

bool magic(Bytes file) {
  return file.size() >= head && load<std::uint16_t>(file.data()) == 0 && item_of_code(file[2]) &&
         file[3] != std::byte{0};
}

/// "60000 x 28 x 28", at most eight of them.
std::string sizes_text(Bytes file, std::size_t dimensions) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(dimensions, most); ++i)
    text += cat(i == 0 ? "" : " x ", big_endian(file.data() + head + 4 * i));
  return dimensions > most ? text + " x ..." : text;
}

bool sniff(const Format&, Bytes file) {
  return magic(file) && file.size() >= head + 4 * std::to_integer<std::size_t>(file[3]);
}

Array read(const Format& self, const Source& source, const Want& want) {
  const std::string& path = source->path();
  const Bytes file = source->bytes();
  if (!magic(file)) fail(ErrorCode::format_error, path, "not an ", self.name, " file (", first_bytes(file), ")");
  const auto dimensions = std::to_integer<std::size_t>(file[3]);
  const std::size_t data = head + 4 * dimensions;
  if (file.size() < data) {
    fail(ErrorCode::format_error, path, dimensions, " dimensions need a header of ", data, " bytes, the file has ",
         file.size());
  }
  const Item item = *item_of_code(file[2]);
  const std::uint64_t rows = big_endian(file.data() + head);
  std::optional<std::uint64_t> cols = 1;
  for (std::size_t i = 1; i < dimensions; ++i)
    cols = cols ? product({*cols, big_endian(file.data() + head + 4 * i)}) : cols;
  const auto need = cols ? product({rows, *cols, value_size(item)}) : cols;
  const auto row = cols ? product({*cols, value_size(item)}) : cols;
  if (!need || !row || *need != file.size() - data) {
    fail(ErrorCode::format_error, path, sizes_text(file, dimensions), " of ", item_name(item), " needs ",
         need ? cat(*need) : "more than 2^63", " bytes at ", data, ", the file has ", file.size(), " in all");
  }
  if (dimensions == 1 && want.role == as_vectors) {
    fail(ErrorCode::invalid_argument, path, "expected 2 dimensions or more, got 1 with ", rows, " items: labels?");
  }
  Array array =
      Array::dense(file.data() + data, item, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(*cols));
  if (dimensions == 1) array = Array::line(array.data, item, array.rows);
  array.swapped = value_size(item) > 1;
  array.keeper = source;
  return array;
}

}  // namespace

const Format idx_format = {
    .name = "idx",
    .suffix = ".idx",
    .also = " -idx3-ubyte .idx3-ubyte",
    .reads = "u8, i8, i16, i32, f32 or f64 rows (MNIST)",
    .writes = "",
    .read_roles = as_vectors | as_values,
    .write_roles = 0,
    .largest_rows = 0,
    .largest_cols = 0,
    .sniff = sniff,
    .read = read,
    .write = nullptr,
};

}  // namespace vicinal::io
