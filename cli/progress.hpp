// A progress bar with the time left on stderr: only on a terminal, only for work of half a second or more,
// redrawn ten times a second, erased at the end. NO_COLOR leaves out the colour.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double share, double elapsed);

  std::string label_;
  bool terminal_;
  bool colour_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace cli
