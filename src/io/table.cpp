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
    &npy_format,     //
    &npz_format,     //
    &fvecs_format,   //
    &bvecs_format,   //
    &ivecs_format,   //
    &fbin_format,    //
    &f16bin_format,  //
    &u8bin_format,   //
    &i8bin_format,   //
    &ibin_format,    //
    &corpus_format,  //
};

/// ".npy, .npz": those that have the role.
std::string suffixes(Role role, unsigned Format::*have) {
  std::string list;
  for (const Format* format : table) {
    if ((format->*have & role) == 0) continue;
    if (role == as_vectors && format->item && !vector_type(*format->item)) continue;  // read only to be refused by type
    if (!list.empty()) list += ", ";
    list += format->suffix;
  }
  return list;
}

const Format* find(std::string_view suffix) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const Format* format : table) {
    const std::string_view known = format->suffix;
    if (std::equal(suffix.begin(), suffix.end(), known.begin(), known.end(), same)) return format;
  }
  return nullptr;
}

const char* role_name(Role role) { return role == as_vectors ? "vectors" : role == as_ids ? "ids" : "distances"; }

const Format& format_of(const std::string& path, Role role, unsigned Format::*have, std::string_view verb) {
  check_path(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : name.substr(dot);
  const Format* format = find(suffix);
  if (format != nullptr && (format->*have & role) != 0) return *format;

  const std::string known =
      cat("vicinal ", verb, " ", role_name(role), verb == "reads" ? " from " : " to ", suffixes(role, have));
  if (format != nullptr) {
    fail(ErrorCode::unsupported, path, format->suffix, " is not for ", role_name(role), "; ", known);
  }
  if (suffix.empty()) fail(ErrorCode::unsupported, path, "the name has no suffix; ", known);
  fail(ErrorCode::unsupported, path, "unknown suffix \"", printable(suffix, 32), "\"; ", known);
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
    list.push_back({format->name, format->suffix, format->reads, format->writes});
  }
  return list;
}

}  // namespace vicinal
