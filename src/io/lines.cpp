// Strings of a text file, one a line. Not a matrix, so not a Format. Text is UTF-8: a byte order mark is skipped, LF
// and CR LF end a line. Bytes are taken as they are between line feeds. What follows the last line end, if it is empty,
// is no string.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "core/strings.hpp"
#include "io/format.hpp"
#include "io/message.hpp"
#include "io/text.hpp"
#include "vicinal/io.hpp"

namespace vicinal {
namespace {

using namespace io;

/// Strings do not come from files of numbers: the name would be a mistake.
void check_name_of_text(const std::string& path) {
  for (const Format* format : format_table()) {
    const std::string_view suffix = format->suffix;
    if (format->item || format->has_members || suffix == ".npy") {
      if (path.size() >= suffix.size() && std::string_view(path).substr(path.size() - suffix.size()) == suffix)
        fail(ErrorCode::unsupported, path, "strings are read from text files, one a line; ", suffix, " holds numbers");
    }
  }
}

}  // namespace

StringList read_strings(const std::string& path, Encoding encoding) try {
  if (encoding == Encoding::utf32) fail(ErrorCode::invalid_argument, path, "text files hold UTF-8 or bytes");
  check_name_of_text(path);
  const auto file = std::make_shared<const MappedFile>(path);
  const char* const data = reinterpret_cast<const char*>(file->bytes().data());
  std::string_view rest(data, file->bytes().size());
  const bool text = encoding == Encoding::utf8;
  if (text && rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  // Strings lie apart by their line ends, so what a reader sees is copied together; the mapping ends here.
  auto joined = std::make_shared<std::vector<char>>();
  joined->reserve(rest.size());
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text && line.ends_with('\r')) line.remove_suffix(1);
    const std::int64_t bad = text ? first_invalid_utf8(line) : -1;
    if (bad >= 0)
      fail(ErrorCode::format_error, path, "line ", number, ": invalid UTF-8 at byte ", bad,
           "; compare bytes, or mend the file");
    joined->insert(joined->end(), line.begin(), line.end());
    offsets.push_back(static_cast<std::int64_t>(joined->size()));
  }
  const char* const start = joined->data();
  return StringList(start, std::move(offsets), encoding, std::move(joined));
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::out_of_memory, cat("no memory for the strings of ", printable(path)));
}

}  // namespace vicinal
