// .fvecs, .bvecs, .ivecs: each row is int32 d and then d items, so rows lie 4 + d * size bytes apart and are used
// in place by their stride. There is no count: the file's length must be a multiple of the row, and each row's d
// must equal the first. A file of no rows would be empty and name no d: it is neither read nor written.
#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t head = 4;

/// Bytes of a row if the first d can be one; 0 if not.
std::size_t row_size(const Format& self, Bytes file) {
  if (file.size() < head) return 0;
  const auto d = load<std::int32_t>(file.data());
  return d < 0 ? 0 : head + static_cast<std::size_t>(d) * value_size(*self.item);
}

bool sniff(const Format& self, Bytes file) {
  const std::size_t row = row_size(self, file);
  return row > head && file.size() % row == 0 &&
         load<std::int32_t>(file.data()) == load<std::int32_t>(file.data() + file.size() - row);
}

Array read(const Format& self, const Source& source, const Want&) {
  const std::string& path = source->path();
  const Bytes file = source->bytes();
  if (file.size() < head) fail(ErrorCode::format_error, path, "not a ", self.name, " file (", first_bytes(file), ")");
  const auto d = load<std::int32_t>(file.data());
  const std::size_t row = row_size(self, file);
  if (row == 0) fail(ErrorCode::format_error, path, "not a ", self.name, " file: row 0 has d=", d);
  if (file.size() % row != 0) {
    fail(ErrorCode::format_error, path, "d=", d, " makes rows of ", row, " bytes, the file has ", file.size(),
         ": truncated, or not ", self.name);
  }
  const std::size_t rows = file.size() / row;
  const MappedFile::Sequential reading(*source);
  for (std::size_t i = 1; i < rows; ++i) {
    const auto other = load<std::int32_t>(file.data() + i * row);
    if (other == d) continue;
    fail(ErrorCode::format_error, path, "row ", i, " has d=", other, ", expected ", d);
  }
  Array array = Array::dense(file.data() + head, *self.item, static_cast<std::int64_t>(rows), d);
  array.row_stride = static_cast<std::int64_t>(row);
  array.keeper = source;
  return array;
}

void write(const Format& self, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array& array = arrays.front().array;
  const auto d = static_cast<std::int32_t>(array.cols);
  out.expect(static_cast<std::uint64_t>(array.rows) * (head + static_cast<std::size_t>(d) * value_size(*self.item)));
  append_rows(out, array, *self.item, as_bytes(&d, sizeof d));
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
          .largest_cols = INT32_MAX,
          .roles_with_rows = as_vectors | as_ids | as_distances,
          .sniff = sniff,
          .read = read,
          .write = write};
}

}  // namespace

const Format fvecs_format = family("fvecs", ".fvecs", Item::f32, "f32 rows, distances", "f32 rows, distances",
                                   as_vectors | as_values | as_distances, as_vectors | as_distances);
const Format bvecs_format =
    family("bvecs", ".bvecs", Item::u8, "u8 rows", "u8 rows", as_vectors | as_values, as_vectors);
const Format ivecs_format =
    family("ivecs", ".ivecs", Item::i32, "ids", "ids (int32)", as_vectors | as_values | as_ids, as_ids);

}  // namespace vicinal::io
