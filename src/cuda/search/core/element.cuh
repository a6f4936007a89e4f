// Elements of rows in fp64, exactly, and the canonical sums of semantics C2: lane j
// of a warp takes the elements j, j + 32, ... in order, then s[j] += s[j + h] for h =
// 16 .. 1. A sum of two is the same from either side, so exchanged halves do it.
#pragma once
#include "core/canonical.hpp"
#include "cuda/device/primitives.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

__device__ __forceinline__ double half_value(std::uint16_t bits) {
#if defined(__CUDACC__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return static_cast<double>(value);
#else
  return static_cast<double>(emulated::widen(bits, false));
#endif
}

/// The bits of a number, and the number.
__device__ __forceinline__ std::uint32_t bits_of(float value) {
#if defined(__CUDACC__)
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}
__device__ __forceinline__ unsigned long long bits_of(double value) {
#if defined(__CUDACC__)
  return static_cast<unsigned long long>(__double_as_longlong(value));
#else
  return std::bit_cast<unsigned long long>(value);
#endif
}
__device__ __forceinline__ double double_of(unsigned long long bits) {
#if defined(__CUDACC__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}

__device__ __forceinline__ double element(const void* rows, DType type, std::int64_t at) {
  switch (type) {
    case DType::f32: return static_cast<double>(static_cast<const float*>(rows)[at]);
    case DType::f64: return static_cast<const double*>(rows)[at];
    case DType::f16: return half_value(static_cast<const std::uint16_t*>(rows)[at]);
    case DType::bf16:
      return static_cast<double>(
          __uint_as_float(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(rows)[at]) << 16));
    case DType::u8: return static_cast<double>(static_cast<const std::uint8_t*>(rows)[at]);
    case DType::i8: break;
  }
  return static_cast<double>(static_cast<const std::int8_t*>(rows)[at]);
}

/// Not NaN and not infinite.
__device__ __forceinline__ bool is_finite(double value) { return value - value == 0; }

/// The primitives of core/sums.hpp.
struct Doubles {
  using Value = double;
  __device__ __forceinline__ static double fma(double a, double b, double c) { return ::fma(a, b, c); }
  __device__ __forceinline__ static double abs(double a) { return fabs(a); }
  __device__ __forceinline__ static double max(double a, double b) { return a < b ? b : a; }
  __device__ __forceinline__ static double max_abs(double a, double b) { return max(a, fabs(b)); }
  __device__ __forceinline__ static double add_differing_bits(double s, double q, double r) {
    return s + static_cast<double>(__popc(static_cast<unsigned>(q) ^ static_cast<unsigned>(r)));
  }
};

struct Plus {
  __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  __device__ __forceinline__ double operator()(double a, double b) const { return a < b ? b : a; }
};

/// The canonical sum of a warp's lanes, in every lane.
template <class Join>
__device__ __forceinline__ double lanes_joined(double lane, Join join) {
  for (int h = 16; h > 0; h /= 2) lane = join(lane, __shfl_xor_sync(all_lanes, lane, h));
  return lane;
}

/// The canonical sums of Many (a power of two up to 32) lists of lanes at once: lane i gets that of list i / (32 /
/// Many). least: lanes nearer than this stay apart.
template <int least = 1, int Many, class Join>
__device__ __forceinline__ double lists_joined(double (&lists)[Many], Join join) {
  int left = Many;
#pragma unroll
  for (int h = 16; h >= least; h /= 2) {
    if (left > 1) {
      left /= 2;
      const bool upper = (lane_index() & h) != 0;
#pragma unroll
      for (int i = 0; i < Many / 2; ++i) {
        if (i >= left) continue;
        const double mine = upper ? lists[i + left] : lists[i], other = upper ? lists[i] : lists[i + left];
        lists[i] = join(mine, __shfl_xor_sync(all_lanes, other, h));
      }
    } else {
      lists[0] = join(lists[0], __shfl_xor_sync(all_lanes, lists[0], h));
    }
  }
  return lists[0];
}

/// One more element. shift: the row's mean for correlation, else 0, which takes nothing away.
template <Sum sum>
__device__ __forceinline__ double with(double s, double q, double r, double shift) {
  return sum_step<sum, Doubles>(s, q, sum == Sum::products ? r - shift : r);
}

}  // namespace vicinal::cuda
