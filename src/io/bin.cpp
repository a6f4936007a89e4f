// .fbin, .f16bin, .u8bin, .i8bin, .ibin: uint32 n, uint32 d, then n * d items row by row, and not a byte more.
#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t head = 8;

struct Claim {
  std::uint64_t rows, cols;
  std::optional<std::uint64_t> file_size;
};

Claim claim_of(const Format& self, Bytes file) {
  const std::uint64_t rows = load<std::uint32_t>(file.data()), cols = load<std::uint32_t>(file.data() + 4);
  std::optional<std::uint64_t> size = product({rows, cols, value_size(*self.item)});
  if (size) *size += head;
  return {rows, cols, size};
}

bool sniff(const Format& self, Bytes file) {
  return file.size() > head && claim_of(self, file).file_size == file.size();
}

Array read(const Format& self, const Source& source, const Want&) {
  const std::string& path = source->path();
  const Bytes file = source->bytes();
  if (file.size() < head) fail(ErrorCode::format_error, path, "not a ", self.name, " file (", first_bytes(file), ")");
  const Claim claim = claim_of(self, file);
  if (claim.file_size != file.size()) {
    const std::string need = claim.file_size ? cat("needs ", *claim.file_size) : "needs more than 2^63";
    fail(ErrorCode::format_error, path, "n=", claim.rows, " and d=", claim.cols, " of ", item_name(*self.item), " ",
         need, " bytes, the file has ", file.size());
  }
  Array array = Array::dense(file.data() + head, *self.item, static_cast<std::int64_t>(claim.rows),
                             static_cast<std::int64_t>(claim.cols));
  array.keeper = source;
  return array;
}

void write(const Format& self, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array& array = arrays.front().array;
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(array.rows), static_cast<std::uint32_t>(array.cols)};
  out.expect(head + static_cast<std::uint64_t>(array.rows * array.cols) * value_size(*self.item));
  out.append(as_bytes(sizes, sizeof sizes));
  append_rows(out, array, *self.item);
}

constexpr Format family(const char* name, const char* suffix, Item item, const char* reads, const char* writes,
                        unsigned read_roles, unsigned write_roles) {
  return {.name = name,
          .suffix = suffix,
          .reads = reads,
          .writes = writes,
          .read_roles = read_roles,
          .write_roles = write_roles,
          .item = item,
          .largest_rows = UINT32_MAX,
          .largest_cols = UINT32_MAX,
          .sniff = sniff,
          .read = read,
          .write = write};
}

}  // namespace

const Format fbin_format = family("fbin", ".fbin", Item::f32, "f32 rows, distances", "f32 rows, distances",
                                  as_vectors | as_values | as_distances, as_vectors | as_distances);
const Format f16bin_format =
    family("f16bin", ".f16bin", Item::f16, "f16 rows", "f16 rows", as_vectors | as_values, as_vectors);
const Format u8bin_format =
    family("u8bin", ".u8bin", Item::u8, "u8 rows", "u8 rows", as_vectors | as_values, as_vectors);
const Format i8bin_format =
    family("i8bin", ".i8bin", Item::i8, "i8 rows", "i8 rows", as_vectors | as_values, as_vectors);
const Format ibin_format =
    family("ibin", ".ibin", Item::i32, "ids", "ids (int32)", as_vectors | as_values | as_ids, as_ids);

}  // namespace vicinal::io
