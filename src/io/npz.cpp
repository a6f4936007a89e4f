// .npz: a zip file of .npy arrays. Stored members are used where they lie in the mapping, deflated ones are
// unpacked into memory. A result is written as stored members `ids`, `distances` and, when padded, `counts`; a graph
// under the names that scipy.sparse.load_npz looks for; a range result as `offsets`, `ids`, `distances`; a selection as
// `values`, `ids` and, where there is one, `payload`.
#include <algorithm>
#include <initializer_list>

#include "io/format.hpp"
#include "io/message.hpp"
#include "io/npy.hpp"
#include "io/zip.hpp"

namespace vicinal::io {
namespace {

constexpr std::size_t largest_beginning = npy_largest_header + 12;

/// "ids" of "ids.npy"; empty for what is no array.
std::string array_name(const ZipEntry& entry) {
  constexpr std::string_view suffix = ".npy";
  const std::string_view name = entry.name;
  return name.ends_with(suffix) ? std::string(name.substr(0, name.size() - suffix.size())) : "";
}

std::string where(const std::string& path, const ZipEntry& entry) { return cat(path, ", member ", array_name(entry)); }

NpyHeader header_of(const std::string& path, const ZipEntry& entry) {
  ZipContents beginning = zip_beginning(path, entry, 512);
  const std::uint64_t need = npy_data_offset(beginning.bytes);
  if (need > beginning.bytes.size())
    beginning = zip_beginning(path, entry, std::min<std::uint64_t>(need, largest_beginning));
  return npy_header(where(path, entry), beginning.bytes, entry.size);
}

/// For a message: "corpus (1000, 64) float32, ids (10, 5) int64".
std::string list_arrays(const std::string& path, const std::vector<ZipEntry>& entries) {
  constexpr int most = 12;
  std::string list;
  int listed = 0;
  for (const ZipEntry& entry : entries) {
    if (array_name(entry).empty()) continue;
    if (++listed > most) return list + ", ...";
    const NpyHeader header = header_of(path, entry);
    list += cat(listed == 1 ? "" : ", ", printable(array_name(entry), 64), " ", header.shape_text(), " ", header.dtype);
  }
  return list.empty() ? "no arrays" : list;
}

const ZipEntry& find_member(const std::string& path, const std::vector<ZipEntry>& entries, const std::string& member) {
  for (const ZipEntry& entry : entries) {
    if (array_name(entry) == member || entry.name == member) return entry;
  }
  fail(ErrorCode::invalid_argument, path, "has no member \"", printable(member, 64), "\"; it holds ",
       list_arrays(path, entries));
}

/// Can it be rows of vectors, or values to select from? How well: rows of wide integers or bool, which ids and masks
/// are too, are taken where there are no others.
int suits(const NpyHeader& header, Role role) {
  const bool rows = header.shape.size() == 2;
  if (role == as_values) return header.item && (rows || header.shape.size() == 1) ? 2 : 0;
  if (!rows || (!header.item && header.dtype != "bool")) return 0;
  return header.item && vector_type(*header.item) ? 2 : 1;
}

/// The only array, whatever it is, or the only one that suits.
const ZipEntry& find_rows(const std::string& path, const std::vector<ZipEntry>& entries, Role role) {
  const ZipEntry *any = nullptr, *rows = nullptr;
  int arrays = 0, candidates = 0, best = 1;
  for (const ZipEntry& entry : entries) {
    if (array_name(entry).empty()) continue;
    any = &entry;
    ++arrays;
    const int how_well = suits(header_of(path, entry), role);
    if (how_well < best) continue;
    candidates = how_well > best ? 1 : candidates + 1;
    best = how_well;
    rows = &entry;
  }
  if (candidates == 1) return *rows;
  if (arrays == 1) return *any;  // the reader of arrays will say what is wrong with it
  fail(ErrorCode::format_error, path, candidates,
       role == as_values ? " arrays can be values" : " arrays can be rows of vectors",
       "; give the name of the one to read as the member (FILE.npz:NAME), ", "or save it on its own as .npy; it holds ",
       list_arrays(path, entries));
}

const ZipEntry* find_named(const std::vector<ZipEntry>& entries, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const ZipEntry& entry : entries) {
      if (array_name(entry) == name) return &entry;
    }
  }
  return nullptr;
}

const ZipEntry& find_line(const std::string& path, const std::vector<ZipEntry>& entries, const std::string& name) {
  if (const ZipEntry* entry = find_named(entries, {name})) return *entry;
  fail(ErrorCode::format_error, path, "no member ", name, ": not a range result; it holds ",
       list_arrays(path, entries));
}

/// Null for distances that are not there.
const ZipEntry* find(const std::string& path, const std::vector<ZipEntry>& entries, const Want& want) {
  if (want.role == as_range) return &find_line(path, entries, want.member);
  if (!want.member.empty()) return &find_member(path, entries, want.member);
  if (want.role == as_vectors || want.role == as_values) return &find_rows(path, entries, want.role);
  if (want.role == as_distances) return find_named(entries, {"distances", "D"});
  if (const ZipEntry* ids = find_named(entries, {"ids", "neighbors", "indices", "I"})) return ids;
  fail(ErrorCode::format_error, path, "no member ids (or neighbors, indices, I); it holds ",
       list_arrays(path, entries));
}

bool sniff(const Format&, Bytes file) { return file.size() >= 4 && load<std::uint32_t>(file.data()) == 0x04034b50; }

Array read(const Format&, const Source& source, const Want& want) {
  const std::string& path = source->path();
  const std::vector<ZipEntry> entries = zip_entries(path, source->bytes());
  const ZipEntry* entry = find(path, entries, want);
  if (entry == nullptr) return {};
  const MappedFile::Sequential reading(*source);
  const ZipContents contents = zip_contents(path, *entry);
  Array array = npy_array(where(path, *entry), contents.bytes, want.role);
  array.mapped = contents.keeper == nullptr;
  array.keeper = array.mapped ? std::shared_ptr<const void>(source) : contents.keeper;
  return array;
}

void write(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  std::vector<ZipWriter::Member> members;
  for (const Named& named : arrays) members.push_back({cat(named.name, ".npy"), npy_size(named)});
  ZipWriter zip(out, members);
  for (const Named& named : arrays) {
    zip.start();
    npy_append(zip, named);
  }
  zip.finish();
}

}  // namespace

const Format npz_format = {
    .name = "npz",
    .suffix = ".npz",
    .reads = "as npy, from a member; ids and distances together; ranges",
    .writes = "ids and distances; graphs (as scipy.sparse reads them); ranges; selections",
    .read_roles = as_vectors | as_ids | as_range | as_values,
    .write_roles = as_ids | as_graph | as_range | as_selection,
    .holds_distances = true,
    .has_members = true,
    .sniff = sniff,
    .read = read,
    .write = write,
};

}  // namespace vicinal::io
