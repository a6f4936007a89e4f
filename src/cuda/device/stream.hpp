// The order of our work beside the caller's: streams that wait for one another, streams that record a graph, and scopes
// that an exception leaves while the device still works for them.
#pragma once
#include <cuda_runtime_api.h>

#include <exception>

#include "cuda/device/check.hpp"

namespace vicinal::cuda {

/// Throws Unsupported where `stream` is recording a CUDA graph: a search and a selection allocate, and a search waits
/// for the device, none of which a graph can repeat. The recording itself stays valid.
inline void refuse_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t answer = cudaStreamIsCapturing(stream, &status);
  if (answer == cudaSuccess && status == cudaStreamCaptureStatusNone) return;
  if (answer != cudaSuccess && answer != cudaErrorStreamCaptureImplicit)
    fail_cuda(answer, "asking for the state of the caller's stream");
  cudaGetLastError();
  fail(ErrorCode::unsupported,
       "the stream is capturing a CUDA graph, in which vicinal cannot run; call it before or after the capture");
}

/// Work queued on `later` from now on begins when what is queued on `earlier` so far has run. The host does not wait.
inline void order_streams(cudaStream_t earlier, cudaStream_t later) {
  constexpr const char* doing = "ordering a call after the caller's stream";
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), doing);
  cudaError_t status = cudaEventRecord(event, earlier);
  if (status == cudaSuccess) status = cudaStreamWaitEvent(later, event, 0);
  cudaEventDestroy(event);  // which the driver does when the event has come
  check(status, doing);
}

/// Waits for a stream when its scope is left by an exception: copies and kernels that are queued there use memory of
/// the caller, who may free it once he has caught the exception. To be made and destroyed on one thread.
class Drain {
 public:
  /// waits: false where the caller has a stream of his own for the order.
  explicit Drain(cudaStream_t stream, bool waits = true) noexcept : stream_(stream), waits_(waits) {}
  ~Drain() { now(); }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  /// Before the end of the scope, then.
  void now() noexcept {
    if (!waits_ || std::uncaught_exceptions() <= exceptions_) return;
    waits_ = false;
    if (cudaStreamSynchronize(stream_) != cudaSuccess) cudaGetLastError();
  }

 private:
  cudaStream_t stream_;
  bool waits_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace vicinal::cuda
