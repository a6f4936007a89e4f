// Small words for messages: join parts, write bytes for people, find the name that was meant.
#pragma once
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "vicinal/error.hpp"

namespace vicinal {

/// cat("k=", 50, " exceeds ", 10) -> "k=50 exceeds 10"
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // else a lack of memory ends the text early, and no caller hears of it
  (out << ... << parts);
  return out.str();
}

[[noreturn]] inline void fail(ErrorCode code, const std::string& message) { throw Error(code, message); }

/// "0.8 GiB", "512 KiB", "17 bytes"; rounded up in the last digit so that typing it back is enough.
std::string bytes_text(std::int64_t bytes);

/// The known name nearest to `word` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view word, const std::vector<std::string>& known);

std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

/// Throws InvalidArgument: unknown metric "euclid"; did you mean "euclidean"? known: euclidean, ...
[[noreturn]] void refuse_name(const char* what, std::string_view name, const std::vector<std::string>& known);
/// The same where more is known: the name that was meant, or "", and how all of them are listed ("known: ...").
[[noreturn]] void refuse_name(const char* what, std::string_view name, const std::string& meant,
                              const std::string& all);

}  // namespace vicinal
