// How every .cu file launches a kernel, which takes one struct: on the call's stream, and an Error where the runtime refuses.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/text.hpp"
#include "vicinal/error.hpp"

namespace vicinal::cuda {

/// A kernel must be allowed more shared memory than 48 KiB before it is launched with it: the driver is asked once a kernel and device, and
/// again for more.
inline void allow_shared(const void* kernel, std::int64_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::int64_t> allowed;
  int device = 0;
  cudaError_t status = cudaGetDevice(&device);
  const std::lock_guard lock(mutex);
  std::int64_t& most = allowed[{kernel, device}];
  if (status == cudaSuccess && bytes <= most) return;
  if (status == cudaSuccess)
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess)
    fail(ErrorCode::device_error,
         cat("a kernel was refused ", bytes, " bytes of shared memory: ", cudaGetErrorString(status)));
  most = bytes;
}

/// Whether the code of a kernel that the driver chose here can wait for the kernel before it (wait_for_earlier): else it must not start early.
inline bool waits_for_earlier(const void* kernel) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, bool> known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace({kernel, device}, false);
  cudaFuncAttributes about = {};
  if (is_new) at->second = cudaFuncGetAttributes(&about, kernel) == cudaSuccess && about.ptxVersion >= 90;
  return at->second;
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
    launch(blocks, threads, shared, kernel, args, waits_for_earlier(reinterpret_cast<const void*>(kernel)));
  }

 private:
  template <class Args>
  void launch(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args), const Args& args,
              bool early) const {
    constexpr std::int64_t most_blocks = 0x7fffffff;  // what is beyond 32 bits would be dropped without a word
    if (blocks > most_blocks)
      fail(ErrorCode::device_error, cat("a kernel of ", blocks, " blocks; a device takes ", most_blocks,
                                        " at most: set a smaller memory budget"));
    if (shared > 48 << 10) allow_shared(reinterpret_cast<const void*>(kernel), shared);
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
