// Words of the error messages of src/io: what could not be done, with the file's name first and nothing in it
// that breaks a line of a terminal (names and header texts come from outside).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "io/bytes.hpp"
#include "vicinal/error.hpp"

namespace vicinal::io {

/// `text` with control bytes, and bytes that are not valid UTF-8, written as \xNN; at most `limit` bytes of it.
std::string printable(std::string_view text, std::size_t limit = 4096);
/// "first bytes 93 4E 55 4D", or "the file is empty".
std::string first_bytes(Bytes file);
/// "1.0 of 3.2 GiB", both in the unit that suits the total.
std::string progress_text(std::uint64_t done, std::uint64_t total);

/// Throws Error(code): "PATH: " and the parts, joined.
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const std::string& path, const Parts&... parts) {
  throw Error(code, cat(printable(path), ": ", parts...));
}
/// Throws IoError: "cannot VERB PATH: reason", or "cannot VERB PATH: DETAIL: reason".
[[noreturn]] void fail_system(const char* verb, const std::string& path, int system_errno,
                              const std::string& detail = "");

}  // namespace vicinal::io
