// Warp-wide and block-wide primitives that all kernels are written in. Blocks are one-dimensional, of whole warps;
// every primitive that sums or shuffles is called by all 32 lanes, or by all threads where its name says block. A host
// compiler reads the same source through the emulator, tests/simt.
#pragma once
#if defined(__CUDACC__)
#include <cuda_runtime.h>
/// An array in shared memory, of trivial elements.
#define VICINAL_SHARED(type, name, count) __shared__ type name[count]
#else
#include "simt/simt.hpp"
#endif

namespace vicinal::cuda {

inline constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x / 32); }
__device__ __forceinline__ int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int thread_count() { return static_cast<int>(blockDim.x); }

/// Nothing; in a build with VICINAL_CUDA_DELAYS (cmake/cuda.cmake) one in eight of
/// these waits for up to 4 us, at places where warps hand something to one
/// another: who comes first there changes from run to run, and answers must not.
__device__ __forceinline__ void random_delay() {
#if defined(VICINAL_CUDA_DELAYS) && defined(__CUDA_ARCH__)
  unsigned drawn =
      (static_cast<unsigned>(clock64()) ^ blockIdx.x * 0x9e3779b9u ^ static_cast<unsigned>(warp_index()) << 16) *
      0x85ebca6bu;
  drawn = (drawn ^ drawn >> 15) * 0xc2b2ae35u;
  if (drawn >> 29 == 0) __nanosleep(drawn >> 8 & 4095);
#endif
}

/// Between two kernels of which the second was queued by launch.next(): the first lets it start before its own end, and
/// the second waits for that end, and for what was written, here.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  random_delay();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ __forceinline__ void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  random_delay();
#endif
}

/// A kernel before one that takes all of a multiprocessor, or a single block: those are spread as evenly when they come
/// early, where small blocks would crowd on the multiprocessors that are free first.
__device__ __forceinline__ void go_between() {
  let_next_start();
  wait_for_earlier();
}

/// How many bits of `votes` belong to lanes below this one.
__device__ __forceinline__ int votes_below(unsigned votes) { return __popc(votes & ((1u << lane_index()) - 1u)); }

/// The block's dynamic shared memory; there is one, and every caller gets its start.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char vicinal_dynamic_shared[];
  return reinterpret_cast<T*>(vicinal_dynamic_shared);
#else
  return static_cast<T*>(simt::dynamic_shared_memory());
#endif
}

/// `value` of lane `from`, for words of 4, 8 or 16 bytes.
template <class T>
__device__ __forceinline__ T from_lane(T value, int from) {
  if constexpr (sizeof(T) <= 8) {
    return __shfl_sync(all_lanes, value, from);
  } else {
    static_assert(sizeof(T) == 16, "words are of 4, 8 or 16 bytes");
    value.key = __shfl_sync(all_lanes, value.key, from);
    value.position = __shfl_sync(all_lanes, value.position, from);
    return value;
  }
}

/// Sum of the lanes below this one; `total` is of the whole warp.
template <class T>
__device__ __forceinline__ T warp_sum_before(T value, T& total) {
  T sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const T below = __shfl_up_sync(all_lanes, sum, static_cast<unsigned>(step));
    if (lane_index() >= step) sum += below;
  }
  total = __shfl_sync(all_lanes, sum, 31);
  return sum - value;
}

/// Sum of what the warps below this one bring; `total` is of the whole block. `scratch` is shared memory for a value a
/// warp; it may be used again after the next barrier.
template <class T>
__device__ __forceinline__ T warps_before(T of_warp, T& total, T* scratch) {
  if (lane_index() == 0) scratch[warp_index()] = of_warp;
  __syncthreads();
  T sum = 0;
  total = 0;
  for (int i = 0; i < thread_count() / 32; ++i) {
    if (i < warp_index()) sum += scratch[i];
    total += scratch[i];
  }
  return sum;
}

/// Sum of the threads below this one; `total` is of the whole block; `scratch` as in warps_before.
template <class T>
__device__ __forceinline__ T block_sum_before(T value, T& total, T* scratch) {
  T of_warp;
  T sum = warp_sum_before(value, of_warp);
  return sum + warps_before(of_warp, total, scratch);
}

/// How many of the first `diagonal` words of the merged lists come from
/// a[0, a_count); the rest are of b. Of equal words those of a come first.
template <class T, class Index>
__device__ __forceinline__ Index merge_path(const T* a, Index a_count, const T* b, Index b_count, Index diagonal) {
  Index low = diagonal > b_count ? diagonal - b_count : 0;
  Index high = diagonal < a_count ? diagonal : a_count;
  while (low < high) {
    const Index middle = (low + high) / 2;
    if (b[diagonal - 1 - middle] < a[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

}  // namespace vicinal::cuda
