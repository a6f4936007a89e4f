// OUTPUT, its host's part: the lists of a batch of queries on their way to the caller, with what the kernels counted
// and what certify asks of each query.
#pragma once
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/divide.hpp"
#include "cuda/search/output/finish.cuh"
#include "cuda/search/output/results.hpp"

namespace vicinal::cuda {

/// A BatchOutput has the counters of a search and the results of its batch, on the device and on the host.
template <class Device>
class BatchOutput {
 public:
  BatchOutput(Device& device, ThreadPool& thread_pool)
      : device_(device), thread_pool_(thread_pool), counters_and_bounds_(device), ids_(device), counts_(device),
        distances_(device) {}

  /// It makes room for the counters, and for the bounds of batches of at most so many queries.
  void reserve(std::int64_t query_batch) { counters_and_bounds_.reserve(counter_words + 2 * query_batch); }

  Counters* counters() const noexcept { return reinterpret_cast<Counters*>(counters_and_bounds_.data()); }
  /// It returns what the kernels have counted so far. The counters were cleared.
  Counters counted() {
    Counters counters;
    device_.out(&counters, this->counters(), sizeof counters);
    device_.wait();
    return counters;
  }
  /// The largest errors of the queries of a batch, on the device.
  const double* largest_errors(std::int64_t count) const noexcept {
    return counters_and_bounds_.data() + counter_words + count;
  }

  /// It makes results of the batch's lists, waits for them and returns the counters. `f` says what is known of the
  /// search; where the results go is set here.
  Counters finish(Finish f, const NeighborsView& out, bool wide) {
    const std::int64_t count = f.args.queries.count, size = static_cast<std::int64_t>(distance_size(f.ranking.type));
    on_device_ = device_.holds(out.ids);
    f.out_k = out.k;
    f.own_rows = on_device_;
    f.pieces = divide_up(out.k, 1024);
    f.ids = on_device_ ? out.ids : ids_.reserve(count * out.k);
    f.distances = on_device_ ? out.distances : distances_.reserve(count * out.k * size);
    f.verified_radius = counters_and_bounds_.data() + counter_words;
    f.largest = f.verified_radius + count;
    f.counts = out.counts == nullptr ? nullptr : on_device_ ? out.counts : counts_.reserve(count);
    // Of results that stay on the device the counters are all that comes.
    auto* const host_counters =
        on_device_ ? static_cast<Counters*>(device_.reached_by_both(sizeof(Counters))) : nullptr;
    f.host_counters = host_counters;
    device_.launch().next((count * f.pieces + 3) / 4, 128, 0, wide ? finish_queries<Wide> : finish_queries<Packed>, f);
    results_ = {count, size, f.ids, f.distances, f.counts};
    host_.resize(static_cast<std::size_t>(counter_words + (on_device_ ? 0 : 2 * count)));
    if (host_counters == nullptr)
      device_.out(host_.data(), counters_and_bounds_.data(), static_cast<std::int64_t>(host_.size()) * 8);
    device_.wait();
    Counters counters;
    std::memcpy(&counters, host_counters != nullptr ? static_cast<const void*>(host_counters) : host_.data(),
                sizeof counters);
    return counters;
  }

  /// It gives the caller what finish() has made: bounds, and results that are to leave the device. `numbers` are those
  /// that the caller has for the queries.
  void give(const NeighborsView& out, const BoundsView& bounds, const QueryRows& numbers, const Counters& counters) {
    const std::int64_t count = results_.count;
    if (on_device_) {
      write_bounds(bounds, count, counters);
    } else {
      std::copy_n(host_.data() + counter_words, count, bounds.verified_radius);
      std::copy_n(host_.data() + counter_words + count, count, bounds.largest);
      rows_out(device_, numbers, out.ids, results_.ids, out.k * 8, thread_pool_);
      rows_out(device_, numbers, out.distances, results_.distances, out.k * results_.size, thread_pool_);
      if (out.counts != nullptr) rows_out(device_, numbers, out.counts, results_.counts, 8, thread_pool_);
      device_.wait();
    }
    if (bounds.found != nullptr && !(bounds.all_proved != nullptr && *bounds.all_proved))
      count_found(out, numbers, on_device_, bounds.found, thread_pool_);
  }
  /// It tells whether the results of finish() stay on the device.
  bool on_device() const noexcept { return on_device_; }

 private:
  static constexpr std::int64_t counter_words = sizeof(Counters) / 8;
  /// Results has the lists of `count` queries on the device, whose distances have `size` bytes each.
  struct Results {
    std::int64_t count, size;
    const std::int64_t* ids;
    const void* distances;
    const std::int64_t* counts;
  };

  /// Results that stay on the device cannot be read by certify: what it would find is said here.
  void write_bounds(const BoundsView& bounds, std::int64_t count, const Counters& counters) {
    const auto lost = static_cast<std::int64_t>(counters.given_up + counters.missed);
    const bool none = std::exchange(lost_, lost) == lost, all_proved_now = none && bounds.all_proved != nullptr;
    if (all_proved_now) *bounds.all_proved = true;
    std::fill_n(bounds.largest, all_proved_now ? 1 : count, 0.0);
    std::memcpy(bounds.largest, &counters.largest_error, sizeof(double));
    if (none) return void(std::fill_n(bounds.verified_radius, all_proved_now ? 0 : count, infinite));
    device_.out(bounds.verified_radius, counters_and_bounds_.data() + counter_words, count * 8);
    device_.wait();
    std::replace_if(
        bounds.verified_radius, bounds.verified_radius + count,
        [](double verified_radius) { return verified_radius > -infinite; }, infinite);
  }

  Device& device_;
  ThreadPool& thread_pool_;
  // The counters, then bounds and largest errors of a batch: one copy brings them.
  DeviceBuffer<double, Device> counters_and_bounds_;
  DeviceBuffer<std::int64_t, Device> ids_, counts_;
  DeviceBuffer<std::byte, Device> distances_;
  Results results_ = {};
  std::vector<double> host_;  // what counters_and_bounds_ had in the end
  bool on_device_ = false;
  std::int64_t lost_ = 0;
};

}  // namespace vicinal::cuda
