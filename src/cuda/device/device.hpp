// What the host's parts of searches are written over: a device, which is the runtime (cuda/device/runtime.hpp) or the
// emulator (tests/unit/cuda/emulated_device.hpp), and memory of it that is given back by itself.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <utility>

namespace vicinal::cuda {

template <class D>
concept DeviceRuntime = requires(D& device, void* memory, const void* from, std::int64_t bytes) {
  { device.take(bytes) } -> std::same_as<void*>;  // memory of the device, aligned for anything; throws OutOfMemory
  device.give(memory);
  device.in(memory, from, bytes);  // copies and clearing happen in the order of the launches
  device.out(memory, from, bytes);
  device.zero(memory, bytes);
  device.wait();    // until all of them are done
  device.launch();  // (blocks, threads, shared bytes, kernel, its one argument)
};

/// An array on the device, which is made when it is needed and
/// again when it is too small; its elements are not kept then.
template <class T, class Device>
class DeviceBuffer {
  static_assert(DeviceRuntime<Device>, "a device takes and gives memory, copies, clears, launches and waits");

 public:
  explicit DeviceBuffer(Device& device) : device_(&device) {}
  DeviceBuffer(Device& device, std::int64_t count) : device_(&device) { reserve(count); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->give(data_);
  }
  /// Memory for `count` elements.
  T* reserve(std::int64_t count) {
    if (data_ == nullptr || count_ < count) {
      if (data_ != nullptr) device_->give(std::exchange(data_, nullptr));
      data_ = static_cast<T*>(device_->take(std::max<std::int64_t>(count, 1) * size));
      count_ = count;
    }
    return data_;
  }
  T* data() const noexcept { return data_; }
  std::int64_t bytes() const noexcept { return count_ * size; }
  void in(const T* from, std::int64_t count) const { device_->in(data_, from, count * size); }
  void out(T* to, std::int64_t count) const { device_->out(to, data_, count * size); }

 private:
  static constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  Device* device_;
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace vicinal::cuda
