// A CUDA runtime made up of the host's memory, as far as src/cuda uses it outside kernels: what is copied, in which pieces, in which
// order, and what happens when memory is refused can be tested without a device. Streams run at once.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fake {
inline std::size_t largest_block = SIZE_MAX;  // more is refused
inline std::size_t free_bytes = std::size_t{1} << 33;
inline int blocks = 0;  // not given back
inline int refused = 0;
inline std::vector<std::pair<const char*, std::size_t>> device_memory;  // that pointers of a test are said to be in
inline int memory_device = 0;                                           // and its ordinal

inline std::vector<std::string> log;  // what was asked of the driver, in order
inline std::mutex mutex;              // threads of a feed ask, too
inline char copies;                   // what the stream of a feed points to
inline std::string name(cudaStream_t stream) {
  if (stream == nullptr) return "default";
  if (stream == reinterpret_cast<cudaStream_t>(&copies)) return "copies";
  return stream == cudaStreamPerThread ? "own" : "caller";
}
inline void note(const std::string& what) {
  const std::lock_guard lock(mutex);
  log.push_back(what);
}

// Contexts: the primary ones of two devices, and one that a caller made on the first.
inline char contexts[3];
inline CUcontext context_of(int number) { return reinterpret_cast<CUcontext>(&contexts[number]); }
inline thread_local CUcontext current = context_of(0);
inline int device_of_context(CUcontext context) { return context == context_of(1) ? 1 : 0; }

// The pool: pieces that were given back stay with it until the driver takes them.
inline std::map<void*, std::size_t> taken;
inline std::uint64_t used = 0, reserved = 0, most_used = 0, threshold = 0;
inline void trim(std::uint64_t keep) { reserved = std::max(used, std::min(reserved, keep)); }
inline cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
inline cudaError_t next_copy = cudaSuccess;  // answer to the next copy
inline std::atomic<int> pinned = 0;          // pieces that are not freed
inline bool pins = true;                     // else pinned memory is refused
}  // namespace fake

extern "C" {
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t /*error*/) { return "made up"; }
inline const char* cudaGetErrorName(cudaError_t /*error*/) { return "madeUp"; }
inline cudaError_t cudaGetDevice(int* device) { return *device = fake::device_of_context(fake::current), cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) { return fake::current = fake::context_of(device), cudaSuccess; }
inline CUresult fakeCtxGetCurrent(CUcontext* context) { return *context = fake::current, CUDA_SUCCESS; }
inline CUresult fakeCtxSetCurrent(CUcontext context) { return fake::current = context, CUDA_SUCCESS; }
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                                    unsigned long long /*flags*/,
                                                    cudaDriverEntryPointQueryResult* /*status*/) {
  *function = std::strcmp(symbol, "cuCtxGetCurrent") == 0 ? reinterpret_cast<void*>(&fakeCtxGetCurrent)
                                                          : reinterpret_cast<void*>(&fakeCtxSetCurrent);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return fake::note("wait for the device"), cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake::note("wait " + fake::name(stream));
  fake::trim(fake::threshold);
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return *status = fake::name(stream) == "caller" ? fake::capture : cudaStreamCaptureStatusNone, cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  static char made;
  return *event = reinterpret_cast<cudaEvent_t>(&made), cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  return *stream = reinterpret_cast<cudaStream_t>(&fake::copies), cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }
inline cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (!fake::pins) return cudaErrorMemoryAllocation;
  return *memory = std::malloc(bytes), ++fake::pinned, cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) { return std::free(memory), --fake::pinned, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t stream) {
  return fake::note("record " + fake::name(stream)), cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t /*event*/, unsigned /*flags*/) {
  return fake::note(fake::name(stream) + " waits for it"), cudaSuccess;
}
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* /*props*/) {
  return *pool = nullptr, cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr name, void* value) {
  const std::uint64_t number = *static_cast<std::uint64_t*>(value);
  if (name == cudaMemPoolAttrReleaseThreshold) fake::threshold = number;
  if (name == cudaMemPoolAttrUsedMemHigh) fake::most_used = number;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr name, void* value) {
  *static_cast<std::uint64_t*>(value) = name == cudaMemPoolAttrReservedMemCurrent ? fake::reserved
                                        : name == cudaMemPoolAttrUsedMemCurrent   ? fake::used
                                                                                  : fake::most_used;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t /*pool*/, std::size_t bytes) {
  return fake::note("trim"), fake::trim(bytes), cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = fake::free_bytes;
  *total = std::size_t{1} << 36;
  return cudaSuccess;
}
inline cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t /*pool*/,
                                           cudaStream_t stream) {
  if (bytes > fake::largest_block) return ++fake::refused, fake::note("refuse"), cudaErrorMemoryAllocation;
  fake::note("take " + fake::name(stream));
  const std::size_t real = bytes > std::size_t{1} << 28 ? 256 : bytes;  // nobody writes to larger ones
  *memory = std::aligned_alloc(256, (real + 255) / 256 * 256);
  fake::taken[*memory] = bytes;
  fake::used += bytes;
  fake::reserved = std::max(fake::reserved, fake::used);
  fake::most_used = std::max(fake::most_used, fake::used);
  return ++fake::blocks, cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  fake::note("give " + fake::name(stream));
  fake::used -= fake::taken[memory];
  fake::taken.erase(memory);
  std::free(memory);
  return --fake::blocks, cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return fake::note("set " + fake::name(stream)), std::memset(at, value, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                                   cudaStream_t stream) {
  fake::note("copy " + fake::name(stream));
  if (fake::next_copy != cudaSuccess) return std::exchange(fake::next_copy, cudaSuccess);
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                     std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/,
                                     cudaStream_t stream) {
  fake::note("copy " + fake::name(stream));
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, const void* memory) {
  *about = {};
  about->type = cudaMemoryTypeUnregistered;
  for (const auto& [begin, bytes] : fake::device_memory)
    if (memory >= begin && memory < begin + bytes)
      about->type = cudaMemoryTypeDevice, about->device = fake::memory_device;
  return cudaSuccess;
}
}
