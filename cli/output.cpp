// Straight write(2): the result of each call is known, and nothing is left in a buffer for exit to lose.
#include "output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "vicinal/error.hpp"

namespace cli {
namespace {

/// 0, or the errno of the write that failed.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void print_line(std::string line) {
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  write_all(STDERR_FILENO, line + "\n");
}

}  // namespace

bool print(std::string_view text) {
  const int failed = write_all(STDOUT_FILENO, text);
  if (failed == 0 || failed == EPIPE) return failed == 0;
  throw vicinal::Error(vicinal::ErrorCode::io_error, std::string("cannot write to stdout: ") + std::strerror(failed),
                       failed);
}

void print_error(std::string_view code, std::string_view text) {
  print_line("vicinal: error [" + std::string(code) + "]: " + std::string(text));
}

void print_note(std::string_view text) { print_line("vicinal: note: " + std::string(text)); }

}  // namespace cli
