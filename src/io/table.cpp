// The formats, one line each, in the order in which they are listed to users.
#include <algorithm>
#include <cctype>

#include "io/format.hpp"
#include "io/message.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace io {
namespace {

constexpr const Format* table[] = {
    &npy_format,       //
    &npz_format,       //
    &fvecs_format,     //
    &bvecs_format,     //
    &ivecs_format,     //
    &fbin_format,      //
    &f16bin_format,    //
    &u8bin_format,     //
    &i8bin_format,     //
    &ibin_format,      //
    &u64bin_format,    //
    &bin_format,       //
    &rangeres_format,  //
    &csv_format,       //
    &tsv_format,       //
    &idx_format,       //
    &mtx_format,       //
    &hdf5_format,      //
    &corpus_format,    //
};

/// ".npy, .npz": those that have the role.
std::string suffixes(Role role, unsigned Format::*have) {
  std::string list;
  for (const Format* format : table) {
    if ((format->*have & role) == 0 || format->absent != nullptr) continue;
    if (role == as_vectors && format->item && !vector_type(*format->item)) continue;  // read only to be refused by type
    if (!list.empty()) list += ", ";
    list += format->suffix;
  }
  return list;
}

/// In lower case: the endings that a format goes by, its suffix first.
std::vector<std::string_view> endings(const Format& format) {
  std::vector<std::string_view> list = {format.suffix};
  for (std::string_view rest = format.also; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' ', 1), rest.size());
    list.push_back(rest.substr(1, end - 1));
    rest.remove_prefix(end);
  }
  return list;
}

const Format* find(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Format* format : table) {
    for (const std::string_view ending : endings(*format)) {
      if (name.ends_with(ending)) return format;
    }
  }
  return nullptr;
}

const char* role_name(unsigned role) {
  if ((role & as_graph) != 0) return "graphs";
  if (role == as_range) return "ranges";
  if (role == as_values) return "values";
  if (role == as_selection) return "selections";
  return role == as_vectors ? "vectors" : role == as_ids ? "ids" : "distances";
}

const Format& format_of(const std::string& path, Role role, unsigned Format::*have, std::string_view verb) {
  check_path(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : name.substr(dot);
  const Format* format = find(name);
  if (format != nullptr && format->absent != nullptr) fail(ErrorCode::unsupported, path, format->absent);
  if (format != nullptr && (format->*have & role) != 0) return *format;

  const std::string known =
      cat("vicinal ", verb, " ", role_name(role), verb == "reads" ? " from " : " to ", suffixes(role, have));
  if (format != nullptr) {
    fail(ErrorCode::unsupported, path, format->suffix, " is not for ", role_name(role), "; ", known);
  }
  if (suffix.empty()) fail(ErrorCode::unsupported, path, "the name has no suffix; ", known);
  fail(ErrorCode::unsupported, path, "unknown suffix \"", printable(suffix, 32), "\"; ", known);
}

FormatInfo info_of(const Format& format) {
  std::string suffixes;
  for (const std::string_view ending : endings(format)) suffixes += cat(suffixes.empty() ? "" : ", ", ending);
  const bool here = format.absent == nullptr;
  return {.name = format.name,
          .suffixes = suffixes,
          .reads = here ? format.reads : format.absent,
          .writes = here ? format.writes : "",
          .reads_rows = here && (format.read_roles & as_vectors) != 0,
          .reads_results = here && (format.read_roles & as_ids) != 0,
          .writes_rows = here && (format.write_roles & as_vectors) != 0,
          .writes_results = here && (format.write_roles & as_ids) != 0,
          .holds_distances = format.holds_distances,
          .has_members = format.has_members};
}

}  // namespace

std::span<const Format* const> format_table() noexcept { return table; }

const Format& format_to_read(const std::string& path, Role role) {
  return format_of(path, role, &Format::read_roles, "reads");
}
const Format& format_to_write(const std::string& path, Role role) {
  return format_of(path, role, &Format::write_roles, "writes");
}

}  // namespace io

std::vector<FormatInfo> formats() {
  std::vector<FormatInfo> list;
  for (const io::Format* format : io::format_table()) {
    list.push_back(io::info_of(*format));
  }
  return list;
}

FormatInfo format_of(const std::string& path) {
  const io::Format* format = io::find(path.substr(path.rfind('/') + 1));
  return io::info_of(format != nullptr ? *format
                                       : io::format_to_read(path, io::as_vectors));  // which says what it knows
}

}  // namespace vicinal
