// What the system says of itself, asked again when the last answer is old: a file of /proc or of a cgroup takes longer
// to read than a small search.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/coarse_clock.hpp"

namespace vicinal {

/// An answer that is at most 10 ms and a tick of the clock old. Calls may come from any thread.
class Recent {
 public:
  template <class Ask>
  std::int64_t get(const Ask& ask) {
    const std::int64_t now = CoarseClock::now().time_since_epoch().count();
    const std::int64_t asked = asked_.load(std::memory_order_acquire);
    if (asked != 0 && now - asked < longest) return answer_.load(std::memory_order_relaxed);
    const std::int64_t answer = ask();
    answer_.store(answer, std::memory_order_relaxed);
    asked_.store(now, std::memory_order_release);
    return answer;
  }
  /// The next call asks.
  void forget() noexcept { asked_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t longest = 10'000'000;  // nanoseconds
  std::atomic<std::int64_t> answer_{0}, asked_{0};
};

}  // namespace vicinal
