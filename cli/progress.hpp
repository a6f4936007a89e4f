// A progress bar with the time left on stderr: only on a terminal, only for work of half a second or more,
// redrawn ten times a second, erased at the end. NO_COLOR leaves out the colour.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace cli {

class ProgressBar {
 public:
  /// What is said of units of work a second, beside the time left; null: nothing.
  using Rate = std::function<std::string(double units)>;
  explicit ProgressBar(std::string label, Rate rate = nullptr);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::uint64_t done, std::uint64_t total, double elapsed);

  std::string label_;
  Rate rate_;
  bool terminal_;
  bool colour_;
  bool drawn_ = false, begun_ = false;
  std::uint64_t first_ = 0;  // units that were done when this run began
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace cli
