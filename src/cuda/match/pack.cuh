// Rows of an image as signed bytes in tiles, and what each row adds to its
// scores: a warp a row, a lane four columns at a time. With q' = q - 128:
//   q.r = q'.r' + t(q) + t(r),           t(x) = 128 sum x' + 8192 columns
//   -(q - r)^2 = 2 q'.r' + t(q) + t(r),  t(x) = -x'.x'
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/match/job.hpp"

namespace vicinal::cuda {

inline constexpr int match_pack_threads = 256;

/// Byte c of a row, less 128; 0 beyond its columns, where products of it are 0 too.
__device__ __forceinline__ int match_byte(const MatchPack& p, std::int64_t row, std::int64_t c) {
  const std::int64_t bytes = p.form == ByteForm::bits ? 8 * p.columns : p.columns;
  if (row >= p.image.rows || c >= bytes) return 0;
  const auto* whole = static_cast<const std::uint8_t*>(p.rows) + row * p.columns;
  int value = 0;
  switch (p.form) {
    case ByteForm::plain: value = whole[c]; break;
    case ByteForm::shifted: value = static_cast<std::int8_t>(whole[c]) + 128; break;
    case ByteForm::bits: value = whole[c / 8] >> (c % 8) & 1; break;
    case ByteForm::rounded: value = static_cast<int>(static_cast<const float*>(p.rows)[row * p.columns + c]); break;
  }
  return value - 128;
}

__global__ void match_pack(MatchPack p) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (thread_count() / 32);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index();
       row < p.image.padded_rows; row += warps) {
    int sum = 0, square = 0;
    for (std::int64_t c = 4 * lane_index(); c < p.width; c += 4 * 32) {
      std::uint32_t four = 0;
      for (int k = 0; k < 4; ++k) {
        const int value = match_byte(p, row, c + k);
        sum += value;
        square += value * value;
        four |= static_cast<std::uint32_t>(value & 255) << (8 * k);
      }
      *reinterpret_cast<std::uint32_t*>(p.image.bytes + match_chunk(p.width, row, static_cast<int>(c / 16)) + c % 16) =
          four;
    }
    int sums = 0, squares = 0;
    warp_sum_before(sum, sums);
    warp_sum_before(square, squares);
    const auto bytes = static_cast<int>(p.form == ByteForm::bits ? 8 * p.columns : p.columns);
    const int term = p.kind == ScoreKind::product ? 128 * sums + 8192 * bytes : -squares;
    if (lane_index() == 0) p.image.terms[row] = row < p.image.rows ? term : absent_term;
  }
}

}  // namespace vicinal::cuda
