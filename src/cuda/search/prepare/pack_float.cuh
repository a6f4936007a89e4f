// PREPARE for filters of lines: rows of halves, floats or bytes in the order of order.cuh, a line a row, with the terms
// and quantization errors that the proof needs. Elements are about 1, so halves hold them to 2^-11 of their size; bytes
// are multiples of one step for all rows and queries.
#pragma once
#include "cuda/search/prepare/pack_int8.cuh"

namespace vicinal::cuda {

/// The nearest half to a value, clipped to the largest one; ties to even, as the hardware has it.
__device__ __forceinline__ std::uint16_t half_bits(double value) {
  const float clipped = static_cast<float>(value > 65504    ? 65504
                                           : value < -65504 ? -65504
                                           : value == value ? value
                                                            : 0);
#if defined(__CUDACC__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(clipped));
  return bits;
#else
  const std::uint32_t word = bits_of(clipped), magnitude = word & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude < 0x38800000u) {  // subnormal: multiples of 2^-24
    half = static_cast<std::uint32_t>(std::nearbyint(std::fabs(static_cast<double>(clipped)) * 0x1p24));
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>((word >> 16 & 0x8000u) | half);
#endif
}

/// A tile's rows as halves, floats or unsigned bytes, 128 more than their multiples of the step: a block a tile.
struct PackLines {
  Prepare prepare;
  Precision precision;
};
__global__ void __launch_bounds__(prepare_threads) pack_lines(PackLines args) {
  VICINAL_SHARED(double, es, tile_rows);
  VICINAL_SHARED(double, ns, tile_rows);
  VICINAL_SHARED(double, lowered, tile_rows);
  const Prepare& p = args.prepare;
  const PreparedMatrix& matrix = p.matrix;
  const bool halves = args.precision == Precision::fp16, bytes = args.precision == Precision::int8;
  const double step = bytes ? p.transform.step : 1, inverse = 1 / step;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * tile_rows, columns = matrix.width / (bytes    ? 1
                                                                                                          : halves ? 2
                                                                                                                   : 4);
  for (int r = warp_index(); r < tile_rows; r += thread_count() / 32) {
    // A row of the tile, by a warp.
    const std::int64_t position = begin + r;
    auto* const line = matrix.bytes + position * matrix.width;
    const bool present = position < matrix.count;
    const std::int64_t row = present ? matrix.order[position] : 0, base = row * matrix.dims;
    const RowMap map = present ? row_map(p, row) : RowMap{0, 0};
    // Its elements are rounded, and what rounding took is summed.
    QuantizationErrors sums{0, 0, 0, 0, 0, 0};
    with_elements(matrix, [&](auto load) {
      for (std::int64_t i = lane_index(); i < columns; i += 32) {
        double rounded = 0;
        if (present && i < matrix.dims) {
          const double x = (load(base + i) - map.shift) * map.factor - static_cast<double>(p.transform.centre[i]);
          if (bytes) {
            double n = rint(x * inverse);
            n = n >= -128 ? (n > 127 ? 127 : n) : n < -128 ? -128 : 0;  // NaN is nothing: its row will not be excluded
            rounded = n * step;
            line[i] = static_cast<std::int8_t>(static_cast<int>(n) + 128);
          } else if (halves) {
            const std::uint16_t bits = half_bits(x);
            rounded = half_value(bits);
            reinterpret_cast<std::uint16_t*>(line)[i] = bits;
          } else {
            const float nearest = static_cast<float>(x);
            rounded = is_finite(static_cast<double>(nearest)) ? static_cast<double>(nearest) : 0.0;
            reinterpret_cast<float*>(line)[i] = static_cast<float>(rounded);
          }
          const double e = x - rounded, size = fabs(e);
          sums.xx = fma(x, x, sums.xx);
          sums.nn = fma(rounded, rounded, sums.nn);
          sums.ee = fma(e, e, sums.ee);
          sums.e_abs += size;
          sums.e_max = sums.e_max < size ? size : sums.e_max;
          sums.n_abs += fabs(rounded);
        } else if (bytes) {
          line[i] = 0;
        } else if (halves) {
          reinterpret_cast<std::uint16_t*>(line)[i] = 0;
        } else {
          reinterpret_cast<float*>(line)[i] = 0;
        }
      }
    });
    // Its quantization error and norm.
    sums = {lanes_joined(sums.xx, Plus{}),    lanes_joined(sums.nn, Plus{}),      lanes_joined(sums.ee, Plus{}),
            lanes_joined(sums.e_abs, Plus{}), lanes_joined(sums.e_max, Larger{}), lanes_joined(sums.n_abs, Plus{})};
    if (lane_index() == 0) close_row(p, position, present, sums, {es, ns, lowered});
  }
  close_tile(matrix, blockIdx.x, {es, ns, lowered}, step);
}

}  // namespace vicinal::cuda
