// Files in: find the format by suffix, map, let it look, then ask whether the items will do.
#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "core/fpenv.hpp"
#include "io/load.hpp"
#include "io/message.hpp"
#include "vicinal/elements.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace {

using namespace io;

/// The format whose content this looks like, where the file's own says no.
const Format* look_alike(const Format& named, Bytes file) {
  if (named.sniff(named, file)) return nullptr;
  for (const Format* format : format_table()) {
    if (format != &named && format->sniff(*format, file)) return format;
  }
  return nullptr;
}

template <class T>
std::vector<std::int64_t> widen(const std::string& path, const Array& array) {
  constexpr std::int64_t most = 1024;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(array.rows * array.cols));
  auto next = ids.begin();
  std::byte chunk[most * sizeof(T)];
  // A row of no columns has nothing to copy, however many such rows a header claims.
  for (std::int64_t row = 0; row < array.rows && array.cols > 0; ++row) {
    for (std::int64_t first = 0; first < array.cols; first += most) {
      const std::int64_t count = std::min(most, array.cols - first);
      copy_items(array, row, first, count, chunk);
      for (std::int64_t i = 0; i < count; ++i) {
        const T value = load<T>(chunk + static_cast<std::size_t>(i) * sizeof(T));
        if (std::is_same_v<T, std::uint64_t> && value == static_cast<T>(-1)) {
          *next++ = -1;  // a missing entry of unsigned ids
          continue;
        }
        if (std::in_range<std::int64_t>(value)) {
          *next++ = static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): -1 of an int8 is -1
          continue;
        }
        fail(ErrorCode::range_error, path, "row ", row, ", rank ", first + i, ": id ", value, " exceeds 2^63 - 1");
      }
    }
  }
  return ids;
}

/// A header of some bytes may claim any number of rows that hold nothing.
void check_columns(const std::string& path, const Array& array) {
  if (array.cols > 0 || array.flat) return;
  fail(ErrorCode::invalid_argument, path, "dimension is 0, of shape ", array.shape(), "; a row has a column at least");
}

}  // namespace

namespace io {

Array read_array(const std::string& path, const Want& want) {
  Source source;
  return read_array(path, want, source);
}

Array read_array(const std::string& path, const Want& want, Source& source) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) MappedFile refused(path);  // whatever suffix it has or lacks
  const Format& format = format_to_read(path, want.role);
  if (!want.member.empty() && !format.has_members && want.role != as_range) {
    fail(ErrorCode::invalid_argument, path, "member \"", printable(want.member, 64),
         "\" was asked for, only npz and hdf5 files have members");
  }
  if (source == nullptr) source = std::make_shared<const MappedFile>(path);
  try {
    return format.read(format, source, want);
  } catch (const Error& error) {
    const Format* other = error.code() == ErrorCode::format_error ? look_alike(format, source->bytes()) : nullptr;
    if (other == nullptr) throw;
    throw Error(error.code(),
                cat(error.what(), "; it looks like ", other->suffix, ", the suffix decides how it is read"));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, cat("no memory for the contents of ", printable(path)));
  }
}

std::vector<std::int64_t> ids_of(const std::string& path, const Array& array) {
  switch (array.item) {
    case Item::i8: return widen<std::int8_t>(path, array);
    case Item::u8: return widen<std::uint8_t>(path, array);
    case Item::i16: return widen<std::int16_t>(path, array);
    case Item::u16: return widen<std::uint16_t>(path, array);
    case Item::i32: return widen<std::int32_t>(path, array);
    case Item::u32: return widen<std::uint32_t>(path, array);
    case Item::i64: return widen<std::int64_t>(path, array);
    case Item::u64: return widen<std::uint64_t>(path, array);
    case Item::f32:
    case Item::f64:
    case Item::f16:
    case Item::bf16: break;
  }
  fail(ErrorCode::invalid_argument, path, "ids must be integers, got ", item_name(array.item));
}

DistanceType distance_type_of(const std::string& path, Item item) {
  if (item == Item::f32) return DistanceType::f32;
  if (item == Item::f64) return DistanceType::f64;
  if (item == Item::u32) return DistanceType::u32;
  fail(ErrorCode::invalid_argument, path, "distances must be float32, float64 or uint32, got ", item_name(item));
}

}  // namespace io

namespace {

Values values_of(const Array& array) {
  Values values(array.data, array.item, array.rows, array.cols);
  values.row_stride = array.row_stride;
  values.col_stride = array.col_stride;
  values.byte_swapped = array.swapped;
  return values;
}

void take_distances(ResultFile& result, const std::string& path, const Array& array, ErrorCode mismatch) {
  result.distance_type = distance_type_of(path, array.item);
  if (array.rows != result.rows || array.cols != result.k) {
    fail(mismatch, path, "distances have shape ", array.shape(), ", ids (", result.rows, ", ", result.k, ")");
  }
  const std::size_t row_bytes = static_cast<std::size_t>(array.cols) * value_size(array.item);
  result.distances.resize(static_cast<std::size_t>(array.rows) * row_bytes);
  for (std::int64_t row = 0; row < array.rows && array.cols > 0; ++row) {
    copy_items(array, row, 0, array.cols, result.distances.data() + static_cast<std::size_t>(row) * row_bytes);
  }
  result.has_distances = true;
}

}  // namespace

Matrix read_matrix(const std::string& path, const ReadOptions& options) try {
  const FpGuard guard;
  const Array array = read_array(path, {as_vectors, options.member, options.header});
  check_columns(path, array);
  if (!vector_type(array.item) &&
      format_to_read(path, as_vectors).item)  // ivecs, ibin, u64bin: ids, not rows of wide integers
    fail(ErrorCode::invalid_argument, path, "dtype ", item_name(array.item), " not supported; convert with astype");
  const Elements elements = exact_elements(values_of(array), printable(path));
  const bool converted = elements.keeper() != nullptr;
  return Matrix(elements.points(), converted ? elements.keeper() : array.keeper, array.mapped && !converted, path,
                converted, array.note);
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory to read ", printable(path)));
}

ValueMatrix read_values(const std::string& path, const ReadOptions& options) try {
  const FpGuard guard;
  const Array array = read_array(path, {as_values, options.member, options.header});
  return ValueMatrix(values_of(array), array.keeper, array.mapped, path, array.note);
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory to read ", printable(path)));
}

ResultFile read_result(const std::string& path, const std::string& distances_path) try {
  const FpGuard guard;
  Source source;  // opened once: another file may have its name a moment later
  const Array ids = read_array(path, {as_ids, ""}, source);
  check_columns(path, ids);
  ResultFile result;
  result.rows = ids.rows;
  result.k = ids.cols;
  result.ids = ids_of(path, ids);
  if (!distances_path.empty()) {
    take_distances(result, distances_path, read_array(distances_path, {as_distances, ""}), ErrorCode::invalid_argument);
  } else if (const Format& format = format_to_read(path, as_ids); format.holds_distances) {
    const Array distances = format.read(format, source, {as_distances, ""});
    if (distances.keeper != nullptr) take_distances(result, path, distances, ErrorCode::format_error);
  }
  return result;
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory for the ids and distances of ", printable(path)));
}

}  // namespace vicinal
