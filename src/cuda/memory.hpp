// Device memory: a pool a device, blocks that return to it in the order of their stream, and what a pointer points to.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace vicinal::cuda {

/// Makes a device current for a while; the thread's own choice comes back.
class OnDevice {
 public:
  explicit OnDevice(int ordinal);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = -1;  // -1: nothing to restore
};

/// The memory that vicinal holds on one device, which must be current. It keeps some between calls, so that a call in a loop asks the
/// driver for nothing, and gives it back when the driver is short.
class Pool {
 public:
  explicit Pool(int ordinal);
  ~Pool() =
      default;  // the driver takes it back at the end of the process; before that its order among other statics is unknown
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Usable by work queued on `stream` from now on; null when the device has no such piece left, also after the pool was emptied.
  void* take(std::int64_t bytes, cudaStream_t stream);
  /// Free for others once what is queued on `stream` so far has run.
  void give(void* memory, cudaStream_t stream) noexcept;
  /// What take() can count on: free on the device or unused in the pool.
  std::int64_t free_bytes() const;
  /// What it keeps between calls at most.
  std::int64_t kept_bytes() const noexcept { return kept_; }
  /// Most bytes in use since the last call of this, and those in use now.
  struct Use {
    std::int64_t most, now;
  };
  Use use();

 private:
  cudaMemPool_t pool_ = nullptr;
  std::int64_t kept_ = 0;
};

/// Bytes of a pool, given back in stream order at the end of the scope.
class Block {
 public:
  Block() = default;
  Block(Pool& pool, std::int64_t bytes, cudaStream_t stream)
      : pool_(&pool), stream_(stream), data_(pool.take(bytes, stream)) {}
  ~Block() {
    if (data_ != nullptr) pool_->give(data_, stream_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  Pool* pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
};

/// Ordinal of the device whose kernels reach the memory without a copy; -1: it is the host's. `any_device` is the answer for
/// managed memory, which is everywhere.
int device_of(const void* memory, int any_device);

}  // namespace vicinal::cuda
