// What the big-ann benchmarks call ground truth. .bin: uint32 nq, uint32 k, then nq * k int32 ids, then as many f32
// distances. .rangeres: uint32 nq, uint32 total, int32 counts[nq], int32 ids[total], f32 distances[total]. Both must
// account for every byte of the file.
#include <memory>
#include <vector>

#include "io/format.hpp"
#include "io/message.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t head = 8;

struct Sizes {
  std::uint64_t queries, entries;  // k of each query, or all of them together
};

Sizes sizes_of(const Format& self, const std::string& path, Bytes file) {
  if (file.size() < head) fail(ErrorCode::format_error, path, "not a ", self.name, " file (", first_bytes(file), ")");
  return {load<std::uint32_t>(file.data()), load<std::uint32_t>(file.data() + 4)};
}

std::uint64_t range_size(Sizes n) { return head + 4 * n.queries + 8 * n.entries; }  // fits: both are 32-bit

std::optional<std::uint64_t> knn_size(Sizes n) {
  std::optional<std::uint64_t> size = product({n.queries, n.entries, 8});
  if (size) *size += head;
  return size;
}

bool sniff_knn(const Format& self, Bytes file) {
  return file.size() > head && knn_size(sizes_of(self, "", file)) == file.size();
}
bool sniff_range(const Format& self, Bytes file) {
  return file.size() > head && range_size(sizes_of(self, "", file)) == file.size();
}

Array read_knn(const Format& self, const Source& source, const Want& want) {
  const Bytes file = source->bytes();
  const Sizes n = sizes_of(self, source->path(), file);
  const auto size = knn_size(n);
  if (size != file.size()) {
    fail(ErrorCode::format_error, source->path(), "nq=", n.queries, " and k=", n.entries,
         " of int32 and float32 needs ", size ? cat(*size) : "more than 2^63", " bytes, the file has ", file.size());
  }
  const std::uint64_t ids = 4 * n.queries * n.entries;
  const bool second = want.role == as_distances;
  Array array = Array::dense(file.data() + head + (second ? ids : 0), second ? Item::f32 : Item::i32,
                             static_cast<std::int64_t>(n.queries), static_cast<std::int64_t>(n.entries));
  array.keeper = source;
  return array;
}

/// Running sums of the counts, in memory.
Array offsets_of(const std::string& path, const std::byte* counts, Sizes n) {
  auto offsets = std::make_shared<std::vector<std::int64_t>>(n.queries + 1);
  std::int64_t total = 0;
  for (std::uint64_t i = 0; i < n.queries; ++i) {
    const auto count = load<std::int32_t>(counts + 4 * i);
    if (count < 0) fail(ErrorCode::format_error, path, "query ", i, " has ", count, " results");
    (*offsets)[i + 1] = total += count;
  }
  if (total != static_cast<std::int64_t>(n.entries))
    fail(ErrorCode::format_error, path, "the counts sum up to ", total, ", the file claims ", n.entries, " results");
  Array array = Array::line(offsets->data(), Item::i64, static_cast<std::int64_t>(offsets->size()));
  array.mapped = false;
  array.keeper = offsets;
  return array;
}

Array read_range(const Format& self, const Source& source, const Want& want) {
  const Bytes file = source->bytes();
  const Sizes n = sizes_of(self, source->path(), file);
  if (range_size(n) != file.size()) {
    fail(ErrorCode::format_error, source->path(), "nq=", n.queries, " and ", n.entries, " results need ", range_size(n),
         " bytes, the file has ", file.size());
  }
  const std::byte* const counts = file.data() + head;
  if (want.member == "offsets") return offsets_of(source->path(), counts, n);
  const bool second = want.member == "distances";
  Array array = Array::line(counts + 4 * n.queries + (second ? 4 * n.entries : 0), second ? Item::f32 : Item::i32,
                            static_cast<std::int64_t>(n.entries));
  array.keeper = source;
  return array;
}

void write_head(AtomicFile& out, std::int64_t first, std::int64_t second) {
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)};
  out.append(as_bytes(sizes, sizeof sizes));
}

void write_knn(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array &ids = arrays[0].array, &distances = arrays[1].array;  // counts of a padded result follow from ids of -1
  out.expect(head + 8 * static_cast<std::uint64_t>(ids.rows * ids.cols));
  write_head(out, ids.rows, ids.cols);
  append_rows(out, ids, Item::i32);
  append_rows(out, distances, Item::f32);
}

void write_range(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Array &offsets = arrays[0].array, &ids = arrays[1].array, &distances = arrays[2].array;
  const auto* ends = reinterpret_cast<const std::int64_t*>(offsets.data);
  const std::int64_t queries = offsets.cols - 1;
  out.expect(range_size({static_cast<std::uint64_t>(queries), static_cast<std::uint64_t>(ids.cols)}));
  write_head(out, queries, ids.cols);
  for (std::int64_t i = 0; i < queries; ++i) {
    const auto count = static_cast<std::int32_t>(ends[i + 1] - ends[i]);
    out.append(as_bytes(&count, sizeof count));
  }
  append_rows(out, ids, Item::i32);
  append_rows(out, distances, Item::f32);
}

}  // namespace

const Format bin_format = {
    .name = "bin",
    .suffix = ".bin",
    .reads = "ids and f32 distances (big-ann truth)",
    .writes = "ids (int32) and f32 distances",
    .read_roles = as_ids | as_distances,
    .write_roles = as_ids,
    .holds_distances = true,
    .item = Item::i32,
    .distance_item = Item::f32,
    .largest_rows = INT32_MAX,
    .largest_cols = INT32_MAX,
    .sniff = sniff_knn,
    .read = read_knn,
    .write = write_knn,
};

const Format rangeres_format = {
    .name = "rangeres",
    .suffix = ".rangeres",
    .reads = "ranges: ids and f32 distances (big-ann truth)",
    .writes = "ranges: ids (int32) and f32 distances",
    .read_roles = as_range,
    .write_roles = as_range,
    .holds_distances = true,
    .item = Item::i32,
    .distance_item = Item::f32,
    .largest_rows = INT32_MAX,
    .largest_cols = INT32_MAX,
    .sniff = sniff_range,
    .read = read_range,
    .write = write_range,
};

}  // namespace vicinal::io
