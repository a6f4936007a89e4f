// Keys of sums, for int8_wgmma.cuh: a sum with the number of its row among a lane's 16 in the low four bits.
#pragma once
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

/// The largest threshold in int8: above all sums of one slab or of
/// more; keys, of one slab shifted by 4, are less than 2^31 apart.
VICINAL_HOST_DEVICE inline constexpr float wgmma_threshold(bool one_slab) {
  return one_slab ? 0x1p-4F * most_quick_threshold : most_quick_threshold;
}

#if defined(VICINAL_WARPGROUPS)
static_assert(127 * 127 * 128 < wgmma_threshold(true) && 127.0 * 127 * most_int8_dims < wgmma_threshold(false));
/// Keys of sums: those of one slab are shifted, of longer rows the low bits are given up.
__device__ __forceinline__ int which_of_16(int row) { return (row >> 3 & 7) << 1 | (row & 1); }

template <bool shifted, bool sampling>
__device__ __forceinline__ int tile_bias(float term, int row, double inverse) {
  if constexpr (sampling) return int8_bias(term, inverse);
  else if constexpr (shifted)
    return quick_bias(term, static_cast<float>(inverse), wgmma_threshold(true)) * 16 + which_of_16(row);
  else return quick_bias(term, static_cast<float>(inverse), wgmma_threshold(false));
}
template <bool shifted>
__device__ __forceinline__ int tile_threshold(const ThresholdCoeffsF32& coeffs, float e, float n, float inverse) {
  if (!(coeffs.base > -static_cast<float>(infinite))) return 0x7fffffff;
  if constexpr (!shifted) return quick_threshold(coeffs, e, n, inverse, wgmma_threshold(false)) & ~15;
  return quick_threshold(coeffs, e, n, inverse, wgmma_threshold(true)) * 16;
}

/// What passed of a lane's 16 keys; `most` is the largest. query:
/// of lane 0; position: of the row of the lane's first key.
template <bool shifted>
__device__ __forceinline__ void append_candidates_of_keys(const Filter& f, const int* keys, int most, int threshold,
                                                          std::uint32_t query, std::uint32_t position,
                                                          Candidate* segment, std::uint32_t& used) {
  for (;;) {
    const bool passed = most >= threshold;
    const unsigned lanes = __ballot_sync(all_lanes, passed);
    if (lanes == 0) return;
    const std::uint32_t which = query + static_cast<std::uint32_t>(lane_index() / 4),
                        next = used + static_cast<std::uint32_t>(__popc(lanes));
    if (next > f.room) {
      if (passed) f.args.states[which].given_up = true;
      return;
    }
    if (passed)
      segment[used + static_cast<std::uint32_t>(votes_below(lanes))] = {
          which, position + static_cast<std::uint32_t>((most & 14) * 4 + (most & 1)), shifted ? most >> 4 : most | 15,
          0};
    used = next;
    // The largest of those below: as differences without a sign,
    // the key itself is nothing and a smaller one is far above.
    unsigned below = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      below = __viaddmax_u32(static_cast<unsigned>(keys[4 * i]), 0u - static_cast<unsigned>(most), below);
      below = __viaddmax_u32(static_cast<unsigned>(keys[4 * i + 1]), 0u - static_cast<unsigned>(most), below);
    }
    const int next_most = static_cast<int>(below + static_cast<unsigned>(most));
    if (!passed || below == 0 || next_most > most) threshold = 0x7fffffff;
    most = next_most;
  }
}
#endif

}  // namespace vicinal::cuda
