// How every .cu file launches a kernel, which takes one struct:
// on the call's stream, and an Error where the runtime refuses.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/text.hpp"
#include "vicinal/error.hpp"

namespace vicinal::cuda {

/// What the driver says once of a kernel and device.
struct KernelFacts {
  std::int64_t dynamic_shared = 0;  // bytes that a launch may ask for
  bool waits = false;  // its code can wait for the kernel before it (wait_for_earlier): else it must not start early
};

/// The facts of a kernel on this thread's device, which is asked to allow `shared` bytes where it does not yet. Without
/// that a kernel's static and dynamic shared memory have 48 KiB together.
inline KernelFacts kernel_facts(const void* kernel, std::int64_t shared) {
  constexpr std::int64_t unasked = 48 << 10;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, KernelFacts> known;
  int device = 0;
  cudaError_t status = cudaGetDevice(&device);
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace({kernel, device});
  KernelFacts& facts = at->second;
  cudaFuncAttributes about = {};
  if (is_new && status == cudaSuccess && (status = cudaFuncGetAttributes(&about, kernel)) == cudaSuccess)
    facts = {unasked - static_cast<std::int64_t>(about.sharedSizeBytes), about.ptxVersion >= 90};
  if (status == cudaSuccess && shared > facts.dynamic_shared) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (status == cudaSuccess) facts.dynamic_shared = shared;
  }
  if (status == cudaSuccess) return facts;
  if (is_new) known.erase(at);
  fail(ErrorCode::device_error,
       cat("a kernel was refused ", shared, " bytes of shared memory: ", cudaGetErrorString(status)));
}

struct CudaLaunch {
  cudaStream_t stream;

  template <class Args>
  void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                  const std::type_identity_t<Args>& args) const {
    launch(blocks, threads, shared, kernel, args, false);
  }
  /// A kernel that may start before the one queued before it ends, and calls wait_for_earlier().
  template <class Args>
  void next(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
            const std::type_identity_t<Args>& args) const {
    launch(blocks, threads, shared, kernel, args, true);
  }

 private:
  template <class Args>
  void launch(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args), const Args& args,
              bool early) const {
    constexpr std::int64_t most_blocks = 0x7fffffff;  // what is beyond 32 bits would be dropped without a word
    if (blocks > most_blocks)
      fail(ErrorCode::device_error, cat("a kernel of ", blocks, " blocks; a device takes ", most_blocks,
                                        " at most: set a smaller memory budget"));
    if (shared > 0 || early) early = kernel_facts(reinterpret_cast<const void*>(kernel), shared).waits && early;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    const cudaError_t status = cudaLaunchKernelEx(&config, kernel, args);
    if (status != cudaSuccess) {
      cudaGetLastError();
      fail(ErrorCode::device_error, cat("a kernel of ", blocks, " blocks of ", threads, " threads and ", shared,
                                        " bytes of shared memory was not launched: ", cudaGetErrorString(status)));
    }
  }
};

}  // namespace vicinal::cuda
