// Answers of the CUDA runtime as errors of vicinal. The runtime remembers the last one; it is cleared here, so that
// neither our next launch nor the caller's own code finds it.
#pragma once
#include <cuda_runtime_api.h>

#include "core/text.hpp"

namespace vicinal::cuda {

[[noreturn]] inline void fail_cuda(cudaError_t status, const char* doing) {
  cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_error,
       cat("CUDA: ", doing, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

/// check(cudaStreamSynchronize(stream), "waiting for the selection")
inline void check(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) fail_cuda(status, doing);
}

}  // namespace vicinal::cuda
