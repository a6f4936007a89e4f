// How every .cu file launches a kernel, which takes one struct: on the call's stream, and an Error where the runtime refuses.
#pragma once
#include <cuda_runtime.h>

#include <type_traits>

#include "core/text.hpp"
#include "vicinal/error.hpp"

namespace vicinal::cuda {

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
    if (shared > 48 << 10) {
      const cudaError_t allowed =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      if (allowed != cudaSuccess)
        fail(ErrorCode::device_error,
             cat("a kernel was refused ", shared, " bytes of shared memory: ", cudaGetErrorString(allowed)));
    }
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
