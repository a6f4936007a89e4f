// Four differences of bytes at once: adds |a_i - b_i| of the four bytes of two words to a sum, one instruction of the hardware.
#pragma once
#include "cuda/device/primitives.cuh"

namespace vicinal::cuda {

__device__ __forceinline__ unsigned add_differences(unsigned a, unsigned b, unsigned sum) {
#if defined(__CUDA_ARCH__)
  unsigned out;
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
#else
  for (int byte = 0; byte < 32; byte += 8) {
    const int difference = static_cast<int>(a >> byte & 255u) - static_cast<int>(b >> byte & 255u);
    sum += static_cast<unsigned>(difference < 0 ? -difference : difference);
  }
  return sum;
#endif
}

}  // namespace vicinal::cuda
