// Drawing is one write of one line that begins with a carriage return; a failed write is passed over.
#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cli {
namespace {

using namespace std::chrono_literals;

void write_stderr(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(seconds + 0.5, 359999.0));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressBar::ProgressBar(std::string label, Rate rate)
    : label_(std::move(label)), rate_(std::move(rate)), terminal_(isatty(STDERR_FILENO) == 1),
      colour_(!is_set("NO_COLOR")), next_(start_ + 500ms) {
  const char* const kind = std::getenv("TERM");
  if (kind != nullptr && std::string_view(kind) == "dumb") terminal_ = false;
}

ProgressBar::~ProgressBar() {
  if (drawn_) write_stderr("\r\x1b[K");
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  if (!begun_) first_ = done;
  begun_ = true;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + 100ms;
  draw(std::min(done, total), total, std::chrono::duration<double>(now - start_).count());
}

void ProgressBar::draw(std::uint64_t done, std::uint64_t total, double elapsed) {
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double units = done > first_ && elapsed > 0 ? static_cast<double>(done - first_) / elapsed : 0;
  const std::string left = units > 0 ? clock_text(static_cast<double>(total - done) / units) : std::string("?");
  const std::string head = fmt::format("{} {:3.0f} % ", label_, std::min(99.0, 100 * share));
  const std::string tail = fmt::format(" {}{} left", rate_ && units > 0 ? rate_(units) + ", " : "", left);
  const int room = terminal_columns() - 1 - static_cast<int>(head.size() + tail.size()) - 2;
  const int width = std::clamp(room, 0, 40);
  const int full = static_cast<int>(share * width);
  const std::string bar = width < 5 ? "" : fmt::format("[{:#<{}}{:.<{}}]", "", full, "", width - full);
  const auto painted = colour_ ? "\x1b[36m" + bar + "\x1b[0m" : bar;
  write_stderr("\r" + head + painted + tail + "\x1b[K");
  drawn_ = true;
}

}  // namespace cli
