// A CUDA runtime made up of the host's memory, as far as src/cuda uses it outside kernels: what is copied, in which pieces, and
// what happens when memory is refused can be tested without a device. Streams run at once.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace fake {
inline std::size_t largest_block = SIZE_MAX;  // more is refused
inline std::size_t free_bytes = std::size_t{1} << 33;
inline int blocks = 0;  // not given back
inline int refused = 0;
inline std::vector<std::pair<const char*, std::size_t>> device_memory;  // that pointers of a test are said to be in
}  // namespace fake

extern "C" {
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t /*error*/) { return "made up"; }
inline const char* cudaGetErrorName(cudaError_t /*error*/) { return "madeUp"; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* /*props*/) {
  return *pool = nullptr, cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*name*/, void* /*value*/) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*name*/, void* value) {
  return *static_cast<std::uint64_t*>(value) = 0, cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t /*pool*/, std::size_t /*bytes*/) { return cudaSuccess; }
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = fake::free_bytes;
  *total = std::size_t{1} << 33;
  return cudaSuccess;
}
inline cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t /*pool*/,
                                           cudaStream_t /*stream*/) {
  if (bytes > fake::largest_block) return ++fake::refused, cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return ++fake::blocks, cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) {
  std::free(memory);
  return --fake::blocks, cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                                   cudaStream_t /*stream*/) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                     std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/,
                                     cudaStream_t /*stream*/) {
  for (std::size_t row = 0; row < height; ++row)
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, const void* memory) {
  *about = {};
  about->type = cudaMemoryTypeUnregistered;
  for (const auto& [begin, bytes] : fake::device_memory)
    if (memory >= begin && memory < begin + bytes) about->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}
}
