// What a function needs so that kernels may call it, too.
#pragma once
#if defined(__CUDACC__)
#define VICINAL_HOST_DEVICE __host__ __device__
#define VICINAL_BOTH __host__ __device__ __forceinline__
#else
#define VICINAL_HOST_DEVICE
#define VICINAL_BOTH \
  static inline __attribute__((always_inline))  // no copy that the linker could take from a vector file
#endif
