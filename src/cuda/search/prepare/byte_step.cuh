// PREPARE, for differences of bytes: the step that all rows and queries share, by
// the sizes of sampled rows. Any step is sound, since quantization errors are
// measured; what lies beyond 127 of them is cut, and makes its row's error large.
#pragma once
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/prepare/measure.cuh"

namespace vicinal::cuda {

inline constexpr int byte_step_threads = 1024, most_step_rows = 1024;

struct ByteStep {
  PreparedMatrix matrix;  // rows, dtype, dims
  DeviceTransform transform;
  Visits visits;
  std::int64_t count = 0;  // of rows to look at, most_step_rows at most
  bool largest = false;    // the sum is the largest difference: an element that is cut is an error of its own size
  double* step = nullptr;
};

/// A size that nine rows of ten are within, and of the largest difference all but a hundredth, and a quarter more.
__global__ void __launch_bounds__(byte_step_threads) choose_byte_step(ByteStep args) {
  VICINAL_SHARED(std::uint32_t, sizes, most_step_rows);
  VICINAL_SHARED(unsigned, scratch, 260);
  const PreparedMatrix& matrix = args.matrix;
  for (std::int64_t i = warp_index(); i < args.count; i += thread_count() / 32) {
    const std::int64_t base = args.visits.at(i) * matrix.dims;
    double size = 0;
    with_elements(matrix, [&](auto load) {
      for (std::int64_t c = lane_index(); c < matrix.dims; c += 32) {
        const double moved = fabs(load(base + c) * args.transform.scale - args.transform.centre[c]);
        size = size < moved ? moved : size;
      }
    });
    const auto rounded = static_cast<float>(lanes_joined(size, Larger{}));
    if (lane_index() == 0) sizes[i] = is_finite(static_cast<double>(rounded)) ? bits_of(rounded) : 0;
  }
  __syncthreads();
  const std::int64_t beyond = args.count / (args.largest ? 100 : 10);
  const std::uint32_t chosen = block_kth(args.count, static_cast<std::uint32_t>(args.count - beyond), scratch,
                                         [&](std::int64_t i) { return sizes[i]; });
  const float size = __uint_as_float(chosen) * (args.largest ? 1.25f : 1.0f), step = size / 127;
  if (thread_index() == 0) *args.step = step > 0x1p-100f && size < 0x1p100f ? static_cast<double>(step) : 1.0;
}

}  // namespace vicinal::cuda
