// .fbin, .f16bin (also .hbin), .u8bin, .i8bin, .ibin, .u64bin: the counts of rows and columns, then their items row by
// row, and not a byte more. The counts are two uint32, or two uint64 where one of them is beyond 32 bits (as cuVS Bench
// writes them); the length of the file says which. Counts of 64 bits without columns are none: a file that was cut
// after its first id of 64 bits, 0, would have them.
#include <algorithm>

#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

/// A Header is one reading of the first bytes; `file_size` is the length in bytes that it asks for, none beyond 2^63.
struct Header {
  std::size_t bytes = 0;
  std::uint64_t rows = 0, cols = 0;
  std::optional<std::uint64_t> file_size = {};

  std::string text(Item item) const {
    const std::string need = file_size ? cat("needs ", *file_size) : "needs more than 2^63";
    return cat("n=", rows, " and d=", cols, " of ", item_name(item), " ", need, " bytes");
  }
};

/// It reads the header with counts of type Count, for which the file is long enough.
template <class Count>
Header header_of(Item item, Bytes file) {
  Header header{2 * sizeof(Count), load<Count>(file.data()), load<Count>(file.data() + sizeof(Count))};
  header.file_size = product({header.rows, header.cols, value_size(item)});
  if (header.file_size) *header.file_size += header.bytes;
  return header;
}

constexpr std::size_t short_head = 8, long_head = 16;  // bytes

/// The header by which the file has the right length; none: neither has.
std::optional<Header> fitting_header(Item item, Bytes file) {
  if (file.size() < short_head) return std::nullopt;
  if (const Header header = header_of<std::uint32_t>(item, file); header.file_size == file.size()) return header;
  if (file.size() < long_head) return std::nullopt;
  // Without columns any number of rows would fit 16 bytes, such as those of a longer file that was cut there.
  const Header header = header_of<std::uint64_t>(item, file);
  if (header.cols > 0 && header.file_size == file.size()) return header;
  return std::nullopt;
}

bool sniff(const Format& self, Bytes file) {
  return file.size() > short_head && fitting_header(*self.item, file).has_value();
}

Array read(const Format& self, const Source& source, const Want&) {
  const std::string& path = source->path();
  const Bytes file = source->bytes();
  const Item item = *self.item;
  if (file.size() < short_head)
    fail(ErrorCode::format_error, path, "not a ", self.name, " file (", first_bytes(file), ")");
  const std::optional<Header> header = fitting_header(item, file);
  if (!header) {
    const bool wide = file.size() >= long_head && header_of<std::uint64_t>(item, file).cols > 0;
    const std::string also =
        wide ? cat("; a header of 64-bit counts: ", header_of<std::uint64_t>(item, file).text(item)) : "";
    fail(ErrorCode::format_error, path, header_of<std::uint32_t>(item, file).text(item), ", the file has ", file.size(),
         also);
  }
  Array array = Array::dense(file.data() + header->bytes, item, static_cast<std::int64_t>(header->rows),
                             static_cast<std::int64_t>(header->cols));
  array.keeper = source;
  return array;
}

template <class Count>
void append_header(AtomicFile& out, const Array& array) {
  const Count counts[] = {static_cast<Count>(array.rows), static_cast<Count>(array.cols)};
  out.append(as_bytes(counts, sizeof counts));
}

void write(const Format& self, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array& array = arrays.front().array;
  const bool wide = std::max(array.rows, array.cols) > std::int64_t{UINT32_MAX};
  out.expect((wide ? long_head : short_head) +
             static_cast<std::uint64_t>(array.rows * array.cols) * value_size(*self.item));
  if (wide) append_header<std::uint64_t>(out, array);
  else append_header<std::uint32_t>(out, array);
  append_rows(out, array, *self.item);
}

constexpr Format family(const char* name, const char* suffix, Item item, const char* reads, const char* writes,
                        unsigned read_roles, unsigned write_roles, const char* also = "") {
  return {.name = name,
          .suffix = suffix,
          .also = also,
          .reads = reads,
          .writes = writes,
          .read_roles = read_roles,
          .write_roles = write_roles,
          .item = item,
          .sniff = sniff,
          .read = read,
          .write = write};
}

}  // namespace

const Format fbin_format = family("fbin", ".fbin", Item::f32, "f32 rows, distances", "f32 rows, distances",
                                  as_vectors | as_values | as_distances, as_vectors | as_distances);
const Format f16bin_format =
    family("f16bin", ".f16bin", Item::f16, "f16 rows", "f16 rows", as_vectors | as_values, as_vectors, " .hbin");
const Format u8bin_format =
    family("u8bin", ".u8bin", Item::u8, "u8 rows", "u8 rows", as_vectors | as_values, as_vectors);
const Format i8bin_format =
    family("i8bin", ".i8bin", Item::i8, "i8 rows", "i8 rows", as_vectors | as_values, as_vectors);
const Format ibin_format =
    family("ibin", ".ibin", Item::i32, "ids", "ids (int32)", as_vectors | as_values | as_ids, as_ids);
const Format u64bin_format =
    family("u64bin", ".u64bin", Item::u64, "ids", "ids (uint64)", as_vectors | as_values | as_ids, as_ids);

}  // namespace vicinal::io
