// Copies beside the arithmetic: 16 bytes from global to shared memory without a register (cp.async), and 8 x 8 matrices
// of 16-bit words from shared memory to the fragments of a warp (ldmatrix). On the host a copy is done at once.
#pragma once
#include <cstring>

#include "cuda/device/primitives.cuh"

namespace vicinal::cuda {

#if defined(__CUDACC__)
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
#endif

/// 16 bytes, both addresses multiples of 16. Read no earlier than after wait_for_copies().
__device__ __forceinline__ void copy_16(void* shared, const void* global) {
#if defined(__CUDACC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
#else
  std::memcpy(shared, global, 16);
#endif
}
/// Asks for bytes, a multiple of 16, to come from memory to the second-level cache; nothing waits for them.
__device__ __forceinline__ void prefetch_bulk([[maybe_unused]] const void* global, [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}
/// Copies since the last call are one group.
__device__ __forceinline__ void commit_copies() {
  random_delay();
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until all of this thread's groups of copies but the last `pending` have arrived.
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
  random_delay();
}

/// It returns what is at this address of shared memory, 4 or 16 bytes.
template <class T>
__device__ __forceinline__ T load_shared(unsigned address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
  T value;
#if defined(__CUDACC__)
  std::uint32_t words[sizeof(T) / 4];
  if constexpr (sizeof(T) == 16)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[0]) : "r"(address) : "memory");
  std::memcpy(&value, words, sizeof value);
#else
  std::memcpy(&value, static_cast<const std::byte*>(simt::dynamic_shared_memory()) + address, sizeof value);
#endif
  return value;
}

/// A line of 128 bytes of global memory begins to come to the L2 cache, and no instruction waits for it.
__device__ __forceinline__ void prefetch_line(const void* global) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#else
  static_cast<void>(global);
#endif
}

/// Four matrices of eight lines of 16 bytes: lane 8 * m + i brings the address of line i of matrix m, and gets of each
/// matrix the 4 bytes at 4 * (lane % 4) of line lane / 4.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* line) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(line))
               : "memory");
#else
  const simt::Exchange warp(line, {__FILE__, __LINE__});
  for (int m = 0; m < 4; ++m)
    std::memcpy(&to[m], &warp.of<unsigned char>(8 * m + lane_index() / 4) + 4 * (lane_index() % 4), 4);
  warp.leave();
#endif
}

}  // namespace vicinal::cuda
