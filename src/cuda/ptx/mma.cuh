// mma_16x8x16: a warp's product of a 16 x 16 and a 16 x 8 tile of f16 or bf16, added to f32.
// Fragments by the published layout of mma.sync.m16n8k16: lane = 4 * group + member; a[0..3] hold
// rows group and group + 8 at columns 2 * member and + 8, b[0..1] the column `group` at rows 2 *
// member and + 8, d[0..3] rows group and group + 8 at columns 2 * member and + 1.
#pragma once
#include "cuda/device/primitives.cuh"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

#if !defined(__CUDACC__)
namespace emulated {

inline float widen(std::uint16_t bits, bool brain) {
  if (brain) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                      fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

struct Fragments {
  std::uint32_t a[4], b[2];
};

inline float half_of(std::uint32_t pair, int which, bool brain) {
  return widen(static_cast<std::uint16_t>(pair >> (16 * which)), brain);
}

/// Sums in order of columns, rounding each time; the hardware's rounding is its own.
inline void mma_16x8x16(float (&d)[4], const Fragments& mine, bool brain, simt::SourceLocation place) {
  const simt::Exchange warp(&mine, place);
  const int group = lane_index() / 4, member = lane_index() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = group + (i / 2) * 8, col = 2 * member + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int word = k / 8 * 2 + row / 8;
      const float a = half_of(warp.of<Fragments>(row % 8 * 4 + k % 8 / 2).a[word], k % 2, brain);
      const float b = half_of(warp.of<Fragments>(col * 4 + k % 8 / 2).b[k / 8], k % 2, brain);
      d[i] += a * b;
    }
  }
  warp.leave();
}

}  // namespace emulated
#endif

/// d += a * b; `Half` is f16 or bf16.
template <class Half>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  constexpr bool brain = std::is_same_v<Half, bf16>;
#if defined(__CUDACC__)
  if constexpr (brain) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  emulated::mma_16x8x16(d, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, brain, {__FILE__, __LINE__});
#endif
}

#if !defined(__CUDACC__)
namespace emulated {

struct Int8Fragments {
  std::uint32_t a[4], b[2];
};
inline int byte_of(std::uint32_t word, int which) { return static_cast<std::int8_t>(word >> (8 * which)); }

inline void mma_16x8x32(int (&d)[4], const Int8Fragments& mine, simt::SourceLocation place) {
  const simt::Exchange warp(&mine, place);
  const int group = lane_index() / 4, member = lane_index() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = group + (i / 2) * 8, col = 2 * member + i % 2;
    for (int k = 0; k < 32; ++k) {
      const std::uint32_t a = warp.of<Int8Fragments>(row % 8 * 4 + k % 16 / 4).a[k / 16 * 2 + row / 8];
      const std::uint32_t b = warp.of<Int8Fragments>(col * 4 + k % 16 / 4).b[k / 16];
      d[i] += byte_of(a, k % 4) * byte_of(b, k % 4);
    }
  }
  warp.leave();
}

}  // namespace emulated
#endif

/// d += a * b of signed bytes, 16 x 32 and 32 x 8, exact in 32 bits.
/// Fragments as above with four bytes where there are two halves.
__device__ __forceinline__ void mma_16x8x32(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                            std::uint32_t b1) {
#if defined(__CUDACC__)
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  emulated::mma_16x8x32(d, {{a[0], a[1], a[2], a[3]}, {b0, b1}}, {__FILE__, __LINE__});
#endif
}

}  // namespace vicinal::cuda
