// Device memory: a pool a device, blocks that return to it in the order of their stream, and what a pointer points to.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

struct CUctx_st;  // of the driver's interface: what a CUcontext points to

namespace vicinal::cuda {

/// Makes a device current for a while, in its primary context, in which all that is ours lives: another context of the
/// same device, or a green one, is set aside too. The thread's own choice comes back.
class OnDevice {
 public:
  explicit OnDevice(int ordinal);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = -1;              // -1: nothing to restore
  CUctx_st* context_ = nullptr;  // null: that of `before_`
};

/// The memory that vicinal holds on one device, which must be current. During a
/// call nothing goes back to the driver, unless it is short. Between calls some is
/// kept, so that calls in a loop ask the driver for nothing (docs/design/0026).
class Pool {
 public:
  static constexpr std::int64_t most_kept = std::int64_t{4} << 30;  // between calls, where no corpus is kept

  explicit Pool(int ordinal);
  // The driver takes it back at the end of the process; before that its order among other statics is unknown.
  ~Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Usable by work queued on `stream` from now on; null when the
  /// device has no such piece left, also after the pool was emptied.
  void* take(std::int64_t bytes, cudaStream_t stream);
  /// Free for others once what is queued on `stream` so far has run.
  void give(void* memory, cudaStream_t stream) noexcept;
  /// What take() can count on: free on the device or unused in the pool.
  std::int64_t free_bytes() const;
  /// What a call may take before the time to map it counts: an eighth of the device. More than is kept between calls.
  std::int64_t ready_bytes() const noexcept { return ready_; }
  /// Most bytes in use since the last call of this, and those in use now.
  struct Use {
    std::int64_t most, now;
  };
  Use use();

  /// A call that takes memory, from its first piece until it has given back the last one. When the last of several
  /// ends, what is unused goes back to the driver, but for 1 GiB, or what was in use in between where that was more, of
  /// up to 4 GiB; of up to ready_bytes() while something is kept there, which is going to be searched again. A quarter
  /// more may stay, of up to 1 GiB, for pieces that did not fit into each other.
  class Call {
   public:
    /// waited: the stream that the pieces were given back on, on which
    /// nothing else is left to run; nothing where work may still be queued.
    explicit Call(Pool& pool, std::optional<cudaStream_t> waited = {}) noexcept;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Pool& pool_;
    std::optional<cudaStream_t> waited_;
  };
  /// Gives back to the driver all that is unused now; returns how many bytes that were.
  std::int64_t release();

 private:
  std::int64_t get(cudaMemPoolAttr which) const;
  void set(cudaMemPoolAttr which, std::uint64_t value);

  int ordinal_;
  cudaMemPool_t pool_ = nullptr;
  std::int64_t ready_ = 0;
  std::mutex mutex_;  // of what follows
  int calls_ = 0;
  std::int64_t before_ = 0, most_ = 0;  // in use when the first of the calls began, and most since
  bool limited_ = true;                 // waits give back what is beyond a bound
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

/// Ordinal of the device whose kernels reach the memory without a copy; -1: it is the host's. `any_device` is the
/// answer for managed memory, which is everywhere.
int device_of(const void* memory, int any_device);

}  // namespace vicinal::cuda
