// A file format is one struct of facts and three functions. To add one: a file that defines its Format (or a
// family of them), its name below, and its line in table.cpp. Readers check every size against the file's length
// before anything is allocated and return views into the mapping; writers are given arrays that were checked to fit.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/array.hpp"
#include "io/atomic_file.hpp"
#include "io/mmap.hpp"
#include "vicinal/io.hpp"

namespace vicinal::io {

/// What an array is wanted for. A format lists what it may be read as, or written for, as a sum of these.
/// as_graph: a sparse matrix (indices, indptr, data). as_range: three lines named offsets, ids and distances.
/// as_values: to select from, of any type, and a line is one row. as_selection: ids, values and perhaps payload of the
/// same shape.
enum Role : unsigned {
  as_vectors = 1,
  as_ids = 2,
  as_distances = 4,
  as_graph = 8,
  as_range = 16,
  as_values = 32,
  as_selection = 64
};

struct Want {
  Role role = as_vectors;
  std::string member;                 // of a file of several arrays; empty: by role
  Header header = Header::automatic;  // of text, where rows are wanted
};

struct Named {
  const char* name;  // used by formats that hold several arrays
  Array array;
  std::optional<Item> stored = {};  // int32 for int64 items that were checked to fit; none: as they are
  std::string_view text = {};       // instead of the array: a few ASCII characters
};

using Source = std::shared_ptr<const MappedFile>;

struct Format {
  const char* name;
  const char* suffix;
  const char* also = "";  // further endings of names, each after a blank: " .h5"; empty: none
  const char* reads;
  const char* writes;
  unsigned read_roles, write_roles;
  bool holds_distances = false;            // beside the ids, in the same file
  bool has_members = false;                // several arrays, each with a name
  std::optional<Item> item = {};           // the one type that it stores; none: the file says
  std::optional<Item> distance_item = {};  // the same of distances beside ids
  std::uint64_t largest_rows = INT64_MAX, largest_cols = INT64_MAX;
  unsigned roles_with_rows = 0;  // of whose files one of no rows is empty, so that no reader could tell what it is
  /// Cheap: is this probably such a file? Only used to help with a file that is not what its suffix says.
  bool (*sniff)(const Format& self, Bytes file);
  /// Throws FormatError, or InvalidArgument for a type or a number of dimensions that no call accepts. A file
  /// that has ids and no distances gives an Array with keeper == nullptr for Role as_distances.
  Array (*read)(const Format& self, const Source& source, const Want& want);
  void (*write)(const Format& self, AtomicFile& out, Role role, std::span<const Named> arrays);
  const char* absent = nullptr;  // why this build can neither read nor write it
};

extern const Format npy_format, npz_format;
extern const Format fvecs_format, bvecs_format, ivecs_format;
extern const Format fbin_format, f16bin_format, u8bin_format, i8bin_format, ibin_format, u64bin_format;
extern const Format bin_format, rangeres_format;
extern const Format csv_format, tsv_format, idx_format, mtx_format, hdf5_format;
extern const Format corpus_format;

std::span<const Format* const> format_table() noexcept;
/// By suffix, in any case. Throws InvalidArgument (NUL in the path) and Unsupported (unknown suffix, or a role that
/// the format does not have; the message lists those that do).
const Format& format_to_read(const std::string& path, Role role);
const Format& format_to_write(const std::string& path, Role role);

}  // namespace vicinal::io
