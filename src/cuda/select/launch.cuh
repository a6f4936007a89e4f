// How the .cu files of selection launch a kernel of one struct: on the call's stream, and an Error where the runtime refuses.
#pragma once
#include <cuda_runtime.h>

#include <type_traits>

#include "core/text.hpp"
#include "cuda/select/job.hpp"

namespace vicinal::cuda {

struct CudaLaunch {
  cudaStream_t stream;

  template <class Args>
  void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                  const std::type_identity_t<Args>& args) const {
    if (shared > 48 << 10) {
      const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      if (allowed != cudaSuccess)
        fail(ErrorCode::device_error, cat("select_k: a kernel was refused ", shared, " bytes of shared memory: ", cudaGetErrorString(allowed)));
    }
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<std::size_t>(shared), stream>>>(
        args);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess)
      fail(ErrorCode::device_error,
           cat("select_k: a kernel of ", blocks, " blocks of ", threads, " threads and ", shared,
               " bytes of shared memory was not launched: ", cudaGetErrorString(status)));
  }
};

}  // namespace vicinal::cuda
