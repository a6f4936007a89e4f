// The threads of one call: a oneTBB arena of its own, a loop over numbered pieces of work, progress and cancellation.
// Results never depend on how pieces meet threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/coarse_clock.hpp"
#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/function_ref.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// What threads = 0 means: the affinity mask and the cgroup's quota, at least 1.
int default_threads();
/// The most threads that a call takes, whatever is asked.
inline constexpr int most_threads = 1024;
/// The threads of a call: `asked` up to most_threads, or default_threads() for 0. A negative number is the caller's to
/// refuse.
int threads_for(int asked);

/// Whether this is the process that first used threads here, and no forked child of it, where none of the parent's are.
bool at_home();

class ThreadPool {
 public:
  /// `threads` is already resolved (>= 1); where the system starts fewer, there are fewer. total: units of work that
  /// progress counts to.
  ThreadPool(int threads, const Progress& progress, std::stop_token stop, std::uint64_t total);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return threads_; }
  /// body(index, worker) for every index in [0, count), each once; worker < threads() names a scratch of its own.
  /// Runs on at most threads() threads, the calling one among them; the first exception is thrown here.
  void for_each(std::int64_t count, FunctionRef<void(std::int64_t index, int worker)> body);
  /// The same by runs: body(begin, end) for each `length` of [0, count), the last one shorter. Of a single run nothing
  /// is allocated.
  template <class Body>
  void for_runs(std::int64_t count, std::int64_t length, const Body& body) {
    if (count > length)
      return for_each(divide_up(count, length),
                      [&](std::int64_t run, int) { body(run * length, std::min(count, (run + 1) * length)); });
    const FpGuard guard;  // as for_each has it
    if (count > 0) body(std::int64_t{0}, count);
  }
  /// Called by bodies between tiles with the work just done. Throws Cancelled when the caller wants to stop.
  /// Only the thread that made the ThreadPool runs the caller's progress function, at most every 10 ms.
  void poll(std::uint64_t work);
  /// Reports the end.
  void finish();

 private:
  void ask(bool always);
  struct Arena;
  int threads_;
  Progress progress_;
  std::stop_token stop_;
  std::uint64_t total_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> cancelled_{false};
  std::thread::id caller_;
  CoarseClock::time_point polled_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace vicinal
