// One task a device, each on a thread that is kept for that device, as one call: progress, cancellation and the first
// failure are those of all.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "core/function_ref.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

class DeviceTasks {
 public:
  /// progress, stop: the caller's. total: the pairs of all tasks together. All of them outlive the object.
  DeviceTasks(const std::vector<std::string>& devices, const Progress& progress, std::uint64_t total)
      : devices_(devices), progress_(progress), total_(total), done_(devices.size()) {}

  std::size_t count() const noexcept { return devices_.size(); }
  /// It returns the progress of task i, which counts its pairs and tells it when to stop.
  Progress progress_of(std::size_t task);
  /// It runs task(i) for each device and returns when all have ended. Throws what the caller's progress throws,
  /// Cancelled where that says so, or what a task threw; of a device that failed, or had no memory, with its name in
  /// front.
  void run(FunctionRef<void(std::size_t task)> task);

 private:
  void watch();
  void tell_end(const std::vector<std::exception_ptr>& failures);
  void throw_first(const std::vector<std::exception_ptr>& failures) const;

  const std::vector<std::string>& devices_;
  const Progress& progress_;
  std::uint64_t total_;
  std::vector<std::atomic<std::uint64_t>> done_;
  std::atomic<bool> stopped_{false};  // by the caller, or because a task failed
  bool cancelled_ = false;            // by the caller
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;
};

}  // namespace vicinal
