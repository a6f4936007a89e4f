// Device memory: see memory.hpp. The driver's stream-ordered pools do the caching; a pool of our own leaves the process's
// default pool, which others tune, alone.
#include "cuda/memory.hpp"

#include "cuda/check.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::uint64_t kept_share = 8;  // of the device's memory, which an idle pool keeps, since mapping it anew takes 1 ms a GiB

}  // namespace

OnDevice::OnDevice(int ordinal) {
  int now = 0;
  check(cudaGetDevice(&now), "asking for the current device");
  if (now == ordinal) return;
  check(cudaSetDevice(ordinal), "choosing a device");
  before_ = now;
}

OnDevice::~OnDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Pool::Pool(int ordinal) {
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, ordinal};
  check(cudaMemPoolCreate(&pool_, &props), "creating a memory pool");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  std::uint64_t kept = total / kept_share;
  kept_ = static_cast<std::int64_t>(kept);
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept), "setting up a memory pool");
}

void* Pool::take(std::int64_t bytes, cudaStream_t stream) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  cudaError_t status = cudaMallocFromPoolAsync(&memory, size, pool_, stream);
  if (status == cudaErrorMemoryAllocation) {
    // Pieces given back are unused only when their streams come to it; then whatever is unused goes back to the driver.
    cudaGetLastError();
    check(cudaDeviceSynchronize(), "waiting for the device to free memory");
    check(cudaMemPoolTrimTo(pool_, 0), "emptying a memory pool");
    status = cudaMallocFromPoolAsync(&memory, size, pool_, stream);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "allocating device memory");
  return memory;
}

void Pool::give(void* memory, cudaStream_t stream) noexcept {
  if (cudaFreeAsync(memory, stream) != cudaSuccess)
    cudaGetLastError();  // a broken context: nothing is left to give back
}

std::int64_t Pool::free_bytes() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  std::uint64_t reserved = 0, used = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved), "asking a memory pool");
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used), "asking a memory pool");
  return static_cast<std::int64_t>(free + (reserved - used));
}

Pool::Use Pool::use() {
  std::uint64_t most = 0, now = 0, none = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &most), "asking a memory pool");
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &now), "asking a memory pool");
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &none), "asking a memory pool");
  return {static_cast<std::int64_t>(most), static_cast<std::int64_t>(now)};
}

int device_of(const void* memory, int any_device) {
  cudaPointerAttributes about = {};
  check(cudaPointerGetAttributes(&about, memory), "asking where memory is");
  if (about.type == cudaMemoryTypeDevice) return about.device;
  return about.type == cudaMemoryTypeManaged ? any_device : -1;
}

}  // namespace vicinal::cuda
