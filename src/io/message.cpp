// See message.hpp.
#include "io/message.hpp"

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace vicinal::io {
namespace {

/// Bytes of the UTF-8 character that `text` starts with; 0 if it is none (overlong forms and surrogates included).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

std::string hex(unsigned char byte) {
  char text[4];
  std::snprintf(text, sizeof text, "%02X", byte);
  return text;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= limit) return out + "...";
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (length == 0 || lead < 0x20 || lead == 0x7F) {
      out += "\\x" + hex(lead);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string first_bytes(Bytes file) {
  if (file.empty()) return "the file is empty";
  std::string text = "first bytes";
  for (const std::byte b : file.first(std::min<std::size_t>(file.size(), 6)))
    text += " " + hex(std::to_integer<unsigned char>(b));
  return text;
}

std::string progress_text(std::uint64_t done, std::uint64_t total) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  double scale = 1;
  while (static_cast<double>(total) >= 1024 * scale && unit < 6) scale *= 1024, ++unit;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f of %.*f %s", unit != 0, static_cast<double>(done) / scale, unit != 0,
                static_cast<double>(total) / scale, units[unit]);
  return text;
}

void fail_system(const char* verb, const std::string& path, int system_errno, const std::string& detail) {
  throw Error(ErrorCode::io_error,
              cat("cannot ", verb, " ", printable(path), ": ", detail, detail.empty() ? "" : ": ",
                  std::generic_category().message(system_errno)),
              system_errno);
}

}  // namespace vicinal::io
