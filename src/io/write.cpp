// Files out. Everything that can be refused is refused before a byte is written; then temporaries, sync, rename.
#include <filesystem>
#include <memory>
#include <new>

#include "core/fpenv.hpp"
#include "io/message.hpp"
#include "io/save.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace {

using namespace io;

const char* role_noun(Role role) {
  if (role == as_selection) return "values";
  return role == as_vectors ? "rows" : role == as_ids ? "ids" : "distances";
}

void check_ids_fit(const Format& format, const std::string& path, const Array& ids) {
  constexpr std::int64_t largest = INT32_MAX;
  const auto* values = reinterpret_cast<const std::int64_t*>(ids.data);
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    if (values[i] <= largest && values[i] >= INT32_MIN) continue;
    fail(ErrorCode::range_error, path, "row ", i / ids.cols, ", rank ", i % ids.cols, ": id ", values[i],
         " does not fit the 32 bits of ", format.name, " (at most 2147483647); .npy, .npz and .u64bin can hold it");
  }
}

/// What the items of a payload are written as.
Item payload_item(const std::string& path, std::int64_t size, std::optional<ValueType> type) {
  if (type && value_size(*type) != static_cast<std::size_t>(size))
    fail(ErrorCode::invalid_argument, path, "payload items have ", size, " bytes, ", item_name(*type), " has ",
         value_size(*type));
  const Item bits = size == 1 ? Item::u8 : size == 2 ? Item::u16 : size == 4 ? Item::u32 : Item::u64;
  // .npz has no bfloat16: its bits then.
  return type && (*type != Item::bf16 || &format_to_write(path, as_selection) != &npz_format) ? *type : bits;
}

}  // namespace

namespace io {

void check_rows(const Format& format, const std::string& path, Role role, std::int64_t rows) {
  if (rows > 0 || (format.roles_with_rows & role) == 0) return;
  const char* others = role == as_ids ? ".npy, .npz, .ibin and .csv" : ".npy and .fbin";
  fail(ErrorCode::unsupported, path, "there are no ", role_noun(role), ", and a file of ", format.name,
       " without rows would be empty; ", others, " can hold none");
}

void check_fits(const Format& format, const std::string& path, Role role, const Array& array) {
  check_rows(format, path, role, array.rows);
  if (static_cast<std::uint64_t>(array.rows) > format.largest_rows ||
      static_cast<std::uint64_t>(array.cols) > format.largest_cols) {
    fail(ErrorCode::range_error, path, format.name, " cannot hold shape ", array.shape(), "; .npy can");
  }
  if (role == as_ids && format.item == Item::i32) return check_ids_fit(format, path, array);
  if (role == as_ids && format.item == Item::u64) return;  // any id; -1 is 2^64 - 1
  const bool beside = role == as_distances && format.holds_distances;
  const std::optional<Item> item = beside ? format.distance_item : format.item;
  if (!item && (array.item != Item::bf16 || &format == &corpus_format)) return;
  if (item == array.item) return;
  const char* held = item ? item_name(*item) : "no bfloat16";
  const std::string what = cat(format.name, " holds ", held, ", the ", role_noun(role), " are ", item_name(array.item));
  if (role == as_distances) fail(ErrorCode::range_error, path, what, "; .npy and .npz hold any distances");
  fail(ErrorCode::invalid_argument, path, what, "; convert them, or choose another suffix");
}

void save(const std::vector<Job>& jobs) try {
  const FpGuard guard;
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::vector<AtomicFile*> finished;
  for (const Job& job : jobs) {
    files.push_back(std::make_unique<AtomicFile>(job.path));
    job.format->write(*job.format, *files.back(), job.role, job.arrays);
    finished.push_back(files.back().get());
  }
  AtomicFile::publish(finished);
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory for the buffers to write ", printable(jobs.front().path)));
}

Item item_of(DistanceType type) noexcept {
  return type == DistanceType::f64 ? Item::f64 : type == DistanceType::u32 ? Item::u32 : Item::f32;
}

const Format& format_for(const std::string& path, ResultKind kind) {
  switch (kind) {
    case ResultKind::graph: return format_to_write(path, static_cast<Role>(as_graph | as_ids));
    case ResultKind::sparse_graph: return format_to_write(path, as_graph);
    case ResultKind::range: return format_to_write(path, as_range);
    case ResultKind::selection: return format_to_write(path, as_selection);
    case ResultKind::neighbors: break;
  }
  return format_to_write(path, as_ids);
}

}  // namespace io

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  // Absolute first: of a relative name that is not there yet it makes none.
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(follow_links(path), ignored), ignored);
  };
  return a == b || std::filesystem::equivalent(a, b, ignored) || place(a) == place(b);
}

void check_writable(const std::string& path, const std::string& distances_path, ResultKind kind,
                    std::optional<ValueType> values) {
  const Format& format = format_for(path, kind);
  check_target(path);
  // NumPy has no bfloat16 of its own, so .npz has none; .npy holds ids alone, and text any number.
  if (values == ValueType::bf16 && &format == &npz_format)
    fail(ErrorCode::unsupported, path,
         "npz holds no bfloat16, and the values are; .csv and .tsv hold them, .npy the ids alone");
  if (distances_path.empty()) return;
  const bool whole = kind == ResultKind::sparse_graph || kind == ResultKind::range || kind == ResultKind::selection ||
                     (kind == ResultKind::graph && (format.write_roles & as_graph) != 0);
  if (whole) {
    fail(ErrorCode::invalid_argument, path, "holds the distances itself; leave out ", printable(distances_path),
         ", or write the ids to .npy, .ivecs or .ibin");
  }
  format_to_write(distances_path, as_distances);
  check_target(distances_path);
  if (same_file(path, distances_path)) {
    fail(ErrorCode::invalid_argument, path, "named for the ids and for the distances");
  }
}

void check_holds(const std::string& path, const std::string& distances_path, const ListsToWrite& lists) {
  const Format& format = format_to_write(path, as_ids);
  check_rows(format, path, as_ids, lists.rows);
  const Array distances = Array::dense(nullptr, item_of(lists.type), lists.rows, lists.k);
  if (format.item == Item::i32 && lists.largest_id > INT32_MAX)
    fail(ErrorCode::range_error, path, "ids may be up to ", lists.largest_id, ", which does not fit the 32 bits of ",
         format.name, " (at most 2147483647); .npy, .npz and .u64bin can hold it");
  if (format.holds_distances) check_fits(format, path, as_distances, distances);
  if (!distances_path.empty())
    check_fits(format_to_write(distances_path, as_distances), distances_path, as_distances, distances);
}

void write_neighbors(const std::string& path, const Neighbors& result, const std::string& distances_path) try {
  check_writable(path, distances_path);
  const Format& format = format_to_write(path, as_ids);
  const Array ids = Array::dense(result.ids(), Item::i64, result.rows(), result.k());
  const Array distances = Array::dense(result.distances(), item_of(result.type()), result.rows(), result.k());
  check_fits(format, path, as_ids, ids);
  std::vector<Job> jobs = {{&format, path, as_ids, {{"ids", ids}}}};
  if (format.holds_distances) {
    check_fits(format, path, as_distances, distances);
    jobs[0].arrays.push_back({"distances", distances});
    if (result.counts() != nullptr) {
      Array counts = Array::dense(result.counts(), Item::i64, result.rows(), 1);
      counts.flat = true;
      jobs[0].arrays.push_back({"counts", counts});
    }
  }
  if (!distances_path.empty()) {
    const Format& other = format_to_write(distances_path, as_distances);
    check_fits(other, distances_path, as_distances, distances);
    jobs.push_back({&other, distances_path, as_distances, {{"distances", distances}}});
  }
  save(jobs);
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory to write ", printable(path)));
}

void write_selection(const std::string& path, const Selection& selection, std::optional<ValueType> payload_type) try {
  check_writable(path, "", ResultKind::selection, selection.type());
  const Format& format = format_to_write(path, as_selection);
  const auto array = [&](const void* data, Item item) {
    return Array::dense(data, item, selection.rows(), selection.k());
  };
  Job job = {&format, path, as_selection, {{"ids", array(selection.ids(), Item::i64)}}};
  if (&format != &npy_format) {
    job.arrays.push_back({"values", array(selection.values(), selection.type())});
    if (selection.payload_size() > 0)
      job.arrays.push_back(
          {"payload", array(selection.payload(), payload_item(path, selection.payload_size(), payload_type))});
  }
  save({job});
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory to write ", printable(path)));
}

void write_matrix(const std::string& path, const Points& points) try {
  const Format& format = format_to_write(path, as_vectors);
  const Array array = Array::view(points);
  check_fits(format, path, as_vectors, array);
  save({{&format, path, as_vectors, {{"data", array}}}});
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory to write ", printable(path)));
}

void discard_unfinished_files() noexcept { remove_live_temporaries(); }

}  // namespace vicinal
