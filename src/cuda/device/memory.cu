// Device memory: see memory.hpp. The driver's stream-ordered pools do the caching; a pool of our own leaves the
// process's default pool, which others tune, alone.
#include "cuda/device/memory.hpp"

#include <cuda.h>

#include <algorithm>
#include <atomic>

#include "cuda/device/check.hpp"

namespace vicinal::cuda {
namespace {

constexpr std::uint64_t ready_share = 8;  // of the device's memory, which takes 1 ms a GiB to map
constexpr std::int64_t least_kept = std::int64_t{1} << 30, most_beside = std::int64_t{1} << 30;

/// The driver's functions for contexts, which the runtime has no
/// words for. It finds them, since we are not linked to the driver.
struct Contexts {
  CUresult (*get)(CUcontext*) = nullptr;
  CUresult (*set)(CUcontext) = nullptr;
};

template <class Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, nullptr),
        "looking for the driver's contexts");
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, nullptr), "looking for the driver's contexts");
#endif
  function = reinterpret_cast<Function>(found);
}

const Contexts& contexts() {
  static const Contexts all = [] {
    Contexts made;
    find("cuCtxGetCurrent", made.get);
    find("cuCtxSetCurrent", made.set);
    return made;
  }();
  return all;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  if (contexts().get == nullptr || contexts().get(&context) != CUDA_SUCCESS) return nullptr;
  return context;
}

/// The primary context of each device as it was last made current: one look tells that nothing is to be done.
constexpr int most_devices = 64;
std::atomic<CUcontext> primary[most_devices];

}  // namespace

OnDevice::OnDevice(int ordinal) {
  const CUcontext before = current_context();
  std::atomic<CUcontext>* const known = ordinal < most_devices ? &primary[ordinal] : nullptr;
  if (before != nullptr && known != nullptr && known->load(std::memory_order_relaxed) == before) return;
  int now = 0;
  check(cudaGetDevice(&now), "asking for the current device");
  check(cudaSetDevice(ordinal), "choosing a device");  // and its primary context
  const CUcontext after = current_context();
  if (known != nullptr) known->store(after, std::memory_order_relaxed);
  if (now != ordinal) before_ = now;
  if (before != nullptr && before != after) context_ = before;
}

OnDevice::~OnDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
  if (context_ != nullptr && current_context() != context_) contexts().set(context_);
}

Pool::Pool(int ordinal) : ordinal_(ordinal) {
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, ordinal};
  check(cudaMemPoolCreate(&pool_, &props), "creating a memory pool");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  ready_ = static_cast<std::int64_t>(total / ready_share);
  set(cudaMemPoolAttrReleaseThreshold, least_kept);
}

std::int64_t Pool::get(cudaMemPoolAttr which) const {
  std::uint64_t value = 0;
  check(cudaMemPoolGetAttribute(pool_, which, &value), "asking a memory pool");
  return static_cast<std::int64_t>(value);
}
void Pool::set(cudaMemPoolAttr which, std::uint64_t value) {
  check(cudaMemPoolSetAttribute(pool_, which, &value), "setting up a memory pool");
}

Pool::Call::Call(Pool& pool, std::optional<cudaStream_t> waited) noexcept : pool_(pool), waited_(waited) {
  const std::lock_guard lock(pool.mutex_);
  if (pool.calls_++ > 0) return;
  pool.most_ = 0;
  std::uint64_t all = UINT64_MAX, none = 0;
  // All: else each wait for a stream would give memory back. A broken context: what comes next says so.
  if (pool.limited_ && cudaMemPoolSetAttribute(pool.pool_, cudaMemPoolAttrReleaseThreshold, &all) != cudaSuccess)
    cudaGetLastError();
  pool.limited_ = false;
  if (cudaMemPoolSetAttribute(pool.pool_, cudaMemPoolAttrUsedMemHigh, &none) != cudaSuccess) cudaGetLastError();
}

Pool::Call::~Call() {
  const std::lock_guard lock(pool_.mutex_);
  if (--pool_.calls_ > 0) return;
  try {
    const OnDevice here(pool_.ordinal_);
    // Memory in use, of prepared corpora, counts as reserved for the driver. Who keeps one is about to search again:
    // then a call's memory stays, up to what calls count on.
    const std::int64_t used = pool_.get(cudaMemPoolAttrUsedMemCurrent),
                       most = std::max(pool_.most_, pool_.get(cudaMemPoolAttrUsedMemHigh)),
                       limit = used > 0 ? std::max(pool_.ready_, most_kept) : most_kept;
    const std::int64_t taken = std::clamp(most - std::max(used, pool_.before_), least_kept, limit), keep = used + taken;
    // Pieces of other sizes lie beside each other, so that a call reserves some more than it uses; were that given
    // back, each would map it anew.
    const std::int64_t beside = std::min(taken / 4, used > 0 ? most_beside : limit - taken);
    pool_.before_ = used;
    if (pool_.get(cudaMemPoolAttrReservedMemCurrent) <= keep + beside) return;
    pool_.set(cudaMemPoolAttrReleaseThreshold,
              static_cast<std::uint64_t>(keep));  // at the next wait, for what is still queued
    pool_.limited_ = true;
    if (waited_) check(cudaStreamSynchronize(*waited_), "waiting for memory that was given back");
    check(cudaMemPoolTrimTo(pool_.pool_, static_cast<std::size_t>(keep)), "giving memory back");
  } catch (const Error&) {  // a broken context: nothing is left to give back
  }
}

std::int64_t Pool::release() {
  const std::lock_guard lock(mutex_);
  const OnDevice here(ordinal_);
  const std::int64_t before = get(cudaMemPoolAttrReservedMemCurrent);
  check(cudaStreamSynchronize(cudaStreamPerThread), "waiting for memory that was given back");
  check(cudaMemPoolTrimTo(pool_, 0), "giving memory back");
  return before - get(cudaMemPoolAttrReservedMemCurrent);
}

void* Pool::take(std::int64_t bytes, cudaStream_t stream) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  cudaError_t status = cudaMallocFromPoolAsync(&memory, size, pool_, stream);
  if (status == cudaErrorMemoryAllocation) {
    // Pieces given back are unused only when their stream comes to it; then whatever is unused goes back to the driver.
    // Other streams are not waited for: they may be other libraries', and work for long.
    cudaGetLastError();
    check(cudaStreamSynchronize(stream), "waiting for memory that was given back");
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
  return static_cast<std::int64_t>(free) + get(cudaMemPoolAttrReservedMemCurrent) - get(cudaMemPoolAttrUsedMemCurrent);
}

Pool::Use Pool::use() {
  const std::lock_guard lock(mutex_);
  const Use use{get(cudaMemPoolAttrUsedMemHigh), get(cudaMemPoolAttrUsedMemCurrent)};
  most_ = std::max(most_, use.most);
  set(cudaMemPoolAttrUsedMemHigh, 0);
  return use;
}

int device_of(const void* memory, int any_device) {
  cudaPointerAttributes about = {};
  check(cudaPointerGetAttributes(&about, memory), "asking where memory is");
  if (about.type == cudaMemoryTypeDevice) return about.device;
  return about.type == cudaMemoryTypeManaged ? any_device : -1;
}

}  // namespace vicinal::cuda
