// See cut_file.hpp. Everything below watch_for_cut_files() runs in a signal handler: system calls and arithmetic alone.
// Which file it is is read from /proc/self/maps, a line of which is "7f00-7f80 r--p 00000000 08:01 1234    /path".
#include "cut_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>

#include "files.hpp"
#include "vicinal/io.hpp"

namespace cli {
namespace {

constexpr int io_status = 4;
std::atomic_flag reported = ATOMIC_FLAG_INIT;

void write_text(const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t done = ::write(STDERR_FILENO, text, size);
    if (done <= 0) return;
    text += done;
    size -= static_cast<std::size_t>(done);
  }
}

/// The lines of /proc/self/maps through a small buffer.
class Maps {
 public:
  Maps() : file_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  /// The next line without its end, cut to what fits; false at the end.
  bool next(char (&line)[PATH_MAX + 128]) {
    std::size_t size = 0;
    for (char c; get(c);) {
      if (c == '\n') {
        line[size] = '\0';
        return true;
      }
      if (size + 1 < sizeof line) line[size++] = c;
    }
    return false;
  }

 private:
  bool get(char& c) {
    if (at_ == size_) {
      const ssize_t got = file_ < 0 ? 0 : ::read(file_, buffer_, sizeof buffer_);
      if (got <= 0) return false;
      at_ = 0;
      size_ = static_cast<std::size_t>(got);
    }
    c = buffer_[at_++];
    return true;
  }
  int file_;
  char buffer_[512];
  std::size_t at_ = 0, size_ = 0;
};

std::uintptr_t hexadecimal(const char*& at) {
  std::uintptr_t value = 0;
  for (;; ++at) {
    const char c = *at;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return value;
    value = value * 16 + static_cast<std::uintptr_t>(digit);
  }
}

/// The path of the file that is mapped at an address, within `line`; null where none is.
const char* mapped_file(std::uintptr_t address, char (&line)[PATH_MAX + 128]) {
  Maps maps;
  while (maps.next(line)) {
    const char* at = line;
    const std::uintptr_t first = hexadecimal(at);
    if (*at++ != '-') continue;
    const std::uintptr_t end = hexadecimal(at);
    if (address < first || address >= end) continue;
    return std::strchr(at, '/');
  }
  return nullptr;
}

void on_bus_error(int number, siginfo_t* what, void*) {
  char line[PATH_MAX + 128];
  const char* path = mapped_file(reinterpret_cast<std::uintptr_t>(what->si_addr), line);
  if (what->si_code != BUS_ADRERR || path == nullptr) {  // not ours to explain: once more, without this handler
    ::signal(number, SIG_DFL);
    ::raise(number);
    return;
  }
  if (reported.test_and_set()) {  // another thread met the end of the file first
    for (;;) ::pause();
  }
  vicinal::discard_unfinished_files();
  remove_temporary_folders();
  constexpr char before[] = "vicinal: error [IoError]: ",
                 after[] = ": the file was cut short, or its storage failed, while it was read\n";
  write_text(before, sizeof before - 1);
  write_text(path, std::strlen(path));
  write_text(after, sizeof after - 1);
  ::_exit(io_status);
}

}  // namespace

void watch_for_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace cli
