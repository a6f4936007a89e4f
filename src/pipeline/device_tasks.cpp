// See device_tasks.hpp.
#include "pipeline/device_tasks.hpp"

#include <algorithm>
#include <exception>

#include "core/kept_threads.hpp"
#include "core/text.hpp"
#include "vicinal/error.hpp"

namespace vicinal {

Progress DeviceTasks::progress_of(std::size_t task) {
  return [this, task](std::uint64_t done, std::uint64_t) {
    done_[task].store(done, std::memory_order_relaxed);
    return !stopped_.load(std::memory_order_relaxed);
  };
}

/// While tasks run, the caller's thread tells the caller how far they are, as its progress function expects. It wakes
/// when the last one ends: the least searches take less than the 2 ms between two looks.
void DeviceTasks::watch() {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, 2ms, [&] { return running_ == 0; })) {
    if (!progress_ || stopped_.load(std::memory_order_relaxed)) continue;
    std::uint64_t done = 0;
    for (const auto& one : done_) done += one.load(std::memory_order_relaxed);
    lock.unlock();
    if (!progress_(std::min(done, total_), total_)) {
      cancelled_ = true;
      stopped_.store(true, std::memory_order_relaxed);
    }
    lock.lock();
  }
}

/// The last word, as of a search by one device, unless something failed.
void DeviceTasks::tell_end(const std::vector<std::exception_ptr>& failures) {
  if (!progress_ || total_ == 0 || std::ranges::any_of(failures, [](const auto& one) { return one != nullptr; }))
    return;
  if (!stopped_.load(std::memory_order_relaxed) && !progress_(total_, total_)) cancelled_ = true;
}

void DeviceTasks::run(FunctionRef<void(std::size_t)> task) {
  std::vector<std::exception_ptr> failures(count() + 1);  // the last is of the caller's progress
  running_ = count();
  const auto guarded = [&](std::size_t i) {
    try {
      task(i);
    } catch (...) {
      failures[i] = std::current_exception();
      stopped_.store(true, std::memory_order_relaxed);
    }
  };
  const auto end = [&] {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ended_.notify_one();
  };
  for (std::size_t i = 0; i < count(); ++i) {
    try {
      run_on_kept_thread(
          devices_[i], [&guarded, i] { guarded(i); }, [&end] { end(); });
    } catch (...) {
      guarded(i);  // the system starts no thread: one device after another
      end();
    }
  }
  try {
    watch();
    tell_end(failures);
  } catch (...) {
    failures.back() = std::current_exception();
    stopped_.store(true, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return running_ == 0; });
  }
  if (failures.back()) std::rethrow_exception(failures.back());
  throw_first(failures);
}

/// A failure stops the other tasks, which is no failure of theirs.
void DeviceTasks::throw_first(const std::vector<std::exception_ptr>& failures) const {
  if (cancelled_) fail(ErrorCode::cancelled, "cancelled by the caller");
  std::exception_ptr stopped;
  for (std::size_t i = 0; i < count(); ++i) {
    if (!failures[i]) continue;
    try {
      std::rethrow_exception(failures[i]);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) {
        stopped = failures[i];
        continue;
      }
      if (error.code() != ErrorCode::device_error && error.code() != ErrorCode::out_of_memory) throw;
      throw Error(error.code(), cat(devices_[i], ": ", error.what()), error.system_errno());
    }
  }
  if (stopped) std::rethrow_exception(stopped);
}

}  // namespace vicinal
