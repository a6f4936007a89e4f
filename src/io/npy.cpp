// .npy: mapped in place whatever its order and endianness; written row-major in this machine's order, the data at
// a multiple of 64 bytes.
#include "io/npy.hpp"

#include "io/message.hpp"

namespace vicinal::io {
namespace {

const char* descr(Item item) {
  switch (item) {
    case Item::f16: return "<f2";
    case Item::f32: return "<f4";
    case Item::f64: return "<f8";
    case Item::i8: return "|i1";
    case Item::u8: return "|u1";
    case Item::i16: return "<i2";
    case Item::u16: return "<u2";
    case Item::i32: return "<i4";
    case Item::u32: return "<u4";
    case Item::i64: return "<i8";
    case Item::u64: return "<u8";
    default: throw Error(ErrorCode::internal, cat("npy: writing ", item_name(item)));
  }
}

Item stored_item(const Named& named) { return named.stored.value_or(named.array.item); }

std::string header_text(const Named& named) {
  constexpr std::size_t fixed = 10, alignment = 64;
  const std::string type = named.text.empty() ? descr(stored_item(named)) : cat("|S", named.text.size());
  const std::string shape = named.text.empty() ? named.array.shape() : "()";
  std::string text = cat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  text.append((alignment - (fixed + text.size() + 1) % alignment) % alignment, ' ');
  return text + "\n";
}

bool sniff(const Format&, Bytes file) { return npy_data_offset(file) != 0; }

Array read(const Format&, const Source& source, const Want& want) {
  Array array = npy_array(source->path(), source->bytes(), want.role);
  array.keeper = source;
  return array;
}

void write(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  out.expect(npy_size(arrays.front()));
  npy_append(out, arrays.front());
}

}  // namespace

Array npy_array(const std::string& where, Bytes file, Role role) {
  NpyHeader header = npy_header(where, file, file.size());
  if (header.dtype == "bool" && role == as_vectors) header.item = Item::u8;  // 0 and 1
  if (header.dtype == "object")
    fail(ErrorCode::format_error, where, "object arrays are refused: they hold pickled Python");
  if (!header.item)
    fail(ErrorCode::invalid_argument, where, "dtype ", header.dtype, " not supported; convert with astype");
  const bool line = role == as_range || (role == as_values && header.shape.size() == 1);
  if (header.shape.size() != (line ? 1 : 2)) {
    const char* wanted = role == as_range     ? "1 dimension"
                         : role == as_values  ? "1 or 2 dimensions"
                         : role == as_vectors ? "2 dimensions (rows, d)"
                                              : "2 dimensions (rows, k)";
    fail(ErrorCode::invalid_argument, where, "expected ", wanted, ", got ", header.shape.size(), " with shape ",
         header.shape_text());
  }
  const std::uint64_t rows = line ? 1 : header.shape[0], cols = header.shape.back(), size = value_size(*header.item);
  const auto row_bytes = product({cols, size}), col_bytes = product({rows, size}), need = product({rows, cols, size});
  const std::string claim = cat("shape ", header.shape_text(), " of ", header.dtype);
  if (!row_bytes || !col_bytes || !need) {
    fail(ErrorCode::format_error, where, claim, " does not fit a file of ", file.size(), " bytes");
  }
  if (*need != file.size() - header.data_offset) {
    const bool longer = *need < file.size() - header.data_offset;
    fail(ErrorCode::format_error, where, claim, " needs ", *need, " bytes at ", header.data_offset, ", the file has ",
         file.size(), longer ? " in all: more than one array?" : " in all: truncated?");
  }
  Array array = Array::dense(file.data() + header.data_offset, *header.item, static_cast<std::int64_t>(rows),
                             static_cast<std::int64_t>(cols));
  array.swapped = header.swapped;
  if (header.fortran_order) {
    array.row_stride = static_cast<std::int64_t>(size);
    array.col_stride = static_cast<std::int64_t>(*col_bytes);
  }
  return array;
}

std::uint64_t npy_size(const Named& named) {
  const Array& array = named.array;
  const std::uint64_t data = named.text.empty()
                                 ? static_cast<std::uint64_t>(array.rows * array.cols) * value_size(stored_item(named))
                                 : named.text.size();
  return 10 + header_text(named).size() + data;
}

void npy_append(Sink& out, const Named& named) {
  const std::string text = header_text(named);
  std::byte fixed[10];
  std::memcpy(fixed, "\x93NUMPY\x01\x00", 8);
  store(fixed + 8, static_cast<std::uint16_t>(text.size()));
  out.append(fixed);
  out.append(as_bytes(text.data(), text.size()));
  if (named.text.empty()) append_rows(out, named.array, stored_item(named));
  else out.append(as_bytes(named.text.data(), named.text.size()));
}

const Format npy_format = {
    .name = "npy",
    .suffix = ".npy",
    .reads = "f16, f32, f64, integer or bool rows; ids of any integer type; distances; values",
    .writes = "rows, ids (int64) or distances; ids of selections",
    .read_roles = as_vectors | as_ids | as_distances | as_values,
    .write_roles = as_vectors | as_ids | as_distances | as_selection,
    .sniff = sniff,
    .read = read,
    .write = write,
};

}  // namespace vicinal::io
