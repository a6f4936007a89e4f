// Four bytes of a word at once: absolute differences, their sum, and products, an instruction of the hardware each.
#pragma once
#include "cuda/device/primitives.cuh"

namespace vicinal::cuda {

#if !defined(__CUDA_ARCH__)
namespace host {

/// A byte of a word as a number.
template <bool is_signed>
int byte_at(unsigned word, int byte) {
  const unsigned bits = word >> (8 * byte) & 255u;
  return is_signed ? static_cast<std::int8_t>(bits) : static_cast<int>(bits);
}

}  // namespace host
#endif

/// `sum` with |a_i - b_i| of the four unsigned bytes of two words.
__device__ __forceinline__ unsigned add_differences(unsigned a, unsigned b, unsigned sum) {
#if defined(__CUDA_ARCH__)
  unsigned out;
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
#else
  for (int byte = 0; byte < 4; ++byte) {
    const int difference = host::byte_at<false>(a, byte) - host::byte_at<false>(b, byte);
    sum += static_cast<unsigned>(difference < 0 ? -difference : difference);
  }
  return sum;
#endif
}

/// The word of |a_i - b_i| of the four unsigned bytes of two words.
__device__ __forceinline__ unsigned differences_of(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__)
  return __vabsdiffu4(a, b);
#else
  unsigned word = 0;
  for (int byte = 0; byte < 4; ++byte)
    word |= add_differences(a >> (8 * byte) & 255u, b >> (8 * byte) & 255u, 0) << (8 * byte);
  return word;
#endif
}

/// The largest of three in each half of a word, of unsigned numbers of 16 bits.
__device__ __forceinline__ unsigned largest_halves(unsigned a, unsigned b, unsigned c) {
#if defined(__CUDA_ARCH__)
  return __vimax3_u16x2(a, b, c);
#else
  unsigned word = 0;
  for (const int half : {0, 16}) {
    const unsigned x = a >> half & 0xffffu, y = b >> half & 0xffffu, z = c >> half & 0xffffu;
    word |= (x < y ? (y < z ? z : y) : (x < z ? z : x)) << half;
  }
  return word;
#endif
}

/// `sum` with a_i b_i of the four bytes of two words, which both are signed or both are not; modulo 2^32.
template <bool is_signed>
__device__ __forceinline__ unsigned add_byte_products(unsigned a, unsigned b, unsigned sum) {
#if defined(__CUDA_ARCH__)
  if constexpr (is_signed)
    return static_cast<unsigned>(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(sum)));
  else return __dp4a(a, b, sum);
#else
  for (int byte = 0; byte < 4; ++byte)
    sum += static_cast<unsigned>(host::byte_at<is_signed>(a, byte) * host::byte_at<is_signed>(b, byte));
  return sum;
#endif
}

}  // namespace vicinal::cuda
