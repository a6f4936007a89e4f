// What calls of a few queries work in, kept with the corpus between
// them: a call that takes nothing from the driver is a third shorter.
#pragma once
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/search/fused/fused.hpp"

namespace vicinal::cuda {

/// The memory of one call: some 160 KB on the device, and what the host and the device both reach.
template <class Device>
class FusedWorkspace {
 public:
  explicit FusedWorkspace(Device& device)
      : device_(device), device_bytes_(device, layout().all), shared_(device.take_shared(shared_layout().all)) {
    std::byte* const at = device_bytes_.data();
    const Layout l = layout();
    // As the last block of fused_search leaves it.
    std::vector<std::byte> first(static_cast<std::size_t>(l.words));
    std::memset(first.data(), 0xff, static_cast<std::size_t>(l.counts));
    device.in(at, first.data(), l.words);
    device.wait();
    state_ = {.minima = reinterpret_cast<std::uint32_t*>(at),
              .radius = reinterpret_cast<std::uint32_t*>(at + l.radius),
              .counts = reinterpret_cast<unsigned*>(at + l.counts),
              .flags = reinterpret_cast<unsigned*>(at + l.flags),
              .ended = reinterpret_cast<unsigned*>(at + l.ended),
              .largest = reinterpret_cast<double*>(at + l.largest),
              .candidates = reinterpret_cast<unsigned long long*>(at + l.candidates),
              .words = reinterpret_cast<std::uint64_t*>(at + l.words)};
  }
  ~FusedWorkspace() { device_.give_shared(shared_); }
  FusedWorkspace(const FusedWorkspace&) = delete;
  FusedWorkspace& operator=(const FusedWorkspace&) = delete;

  const FusedState& state() const noexcept { return state_; }
  std::byte* device_queries() const noexcept { return device_bytes_.data() + layout().queries; }
  std::int64_t bytes() const noexcept { return device_bytes_.bytes(); }
  // That both reach.
  std::int64_t* ids() const noexcept { return reinterpret_cast<std::int64_t*>(shared_); }
  float* distances() const noexcept { return reinterpret_cast<float*>(shared_ + shared_layout().distances); }
  FusedFacts* facts() const noexcept { return reinterpret_cast<FusedFacts*>(shared_ + shared_layout().facts); }
  std::byte* host_queries() const noexcept { return shared_ + shared_layout().queries; }

 private:
  struct Layout {
    std::int64_t radius, counts, flags, ended, largest, candidates, words, queries, all;
  };
  static constexpr std::int64_t query_bytes = fused_queries * fused_cols * 8;
  static constexpr Layout layout() noexcept {
    Layout l{};
    l.radius = fused_queries * fused_blocks * 4;
    l.counts = l.radius + fused_queries * 4;
    l.flags = l.counts + fused_queries * 4;
    l.ended = l.flags + fused_queries * 4;
    l.largest = l.ended + 16;
    l.candidates = l.largest + fused_queries * 8;
    l.words = l.candidates + 16;
    l.queries = l.words + std::int64_t{fused_queries} * fused_words * 8;
    l.all = l.queries + query_bytes;
    return l;
  }
  struct SharedLayout {
    std::int64_t distances, facts, queries, all;
  };
  static constexpr SharedLayout shared_layout() noexcept {
    SharedLayout l{};
    l.distances = fused_queries * fused_k * 8;
    l.facts = l.distances + fused_queries * fused_k * 4;
    l.queries = l.facts + fused_queries * static_cast<std::int64_t>(sizeof(FusedFacts));
    l.all = l.queries + query_bytes;
    return l;
  }

  Device& device_;
  DeviceBuffer<std::byte, Device> device_bytes_;
  std::byte* shared_;
  FusedState state_;
};

/// Workspaces that no call has at the moment. Calls of several threads have one each, of which `most` stay.
template <class Device>
class FusedWorkspaces {
 public:
  explicit FusedWorkspaces(Device& device) : device_(device) {}
  using Taken = std::unique_ptr<FusedWorkspace<Device>>;

  Taken take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Taken taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
    }
    return std::make_unique<FusedWorkspace<Device>>(device_);
  }
  /// After a call that has ended; one that failed keeps its workspace to itself, which may not be as it was.
  void give(Taken taken) {
    constexpr std::size_t most = 8;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < most) idle_.push_back(std::move(taken));
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<Taken> idle_;
};

}  // namespace vicinal::cuda
