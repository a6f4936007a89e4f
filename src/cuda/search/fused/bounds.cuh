// Thresholds of the few queries. Lanes that see the same queries remember the row that looks nearest of those that they
// alone see; their distances have upper bounds, as those of a sample have (filter/initial_thresholds.cuh), and so has
// the nearest of each other block, which it publishes. All are different rows, so the k-th least of these bounds bounds
// the k-th distance, whatever other blocks have published by then: it is larger where they are late.
#pragma once
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/fused/query.cuh"

namespace vicinal::cuda {

__device__ __forceinline__ std::uint32_t fused_ordered(float value) {
  return ListWords<Packed>::ordered(static_cast<double>(value));
}
__device__ __forceinline__ double fused_value(std::uint32_t ordered) {
  return ListWords<Packed>::key(static_cast<std::uint64_t>(ordered) << 32);
}

/// An upper bound of the distance of a row to a query, rounded up; infinite for rows whose bias stands for anything.
/// products: the sum without its bias.
__device__ __forceinline__ float fused_upper(const FusedArgs& f, const FusedShared& shared, int which,
                                             std::uint32_t position, int products) {
  const QuantizedQuery& query = shared.queries[which].quantized;
  const TileMetadata& tile = f.rows.tile_metadata[position / tile_rows];
  const int sum = int8_bias(tile.terms[position % tile_rows], shared.counters->inverse * tile.inverse) + products;
  const double unit = int8_unit(f.model.sum, shared.counters->step, tile.step);
  const float upper =
      up32(int8_upper(f.model, int8_distance(sum, unit, 0), unit, query.square, query.norms, tile.maxima));
  return sum > -(1 << 29) && sum < 1 << 29 ? upper : static_cast<float>(infinite);
}

/// At least the k-th least (from 1) of the words of a warp, `each`
/// a lane, and no more than a 2,048th beyond it as a float.
template <int each>
__device__ __forceinline__ std::uint32_t fused_kth(const std::uint32_t (&words)[each], unsigned k) {
  constexpr int last = 12;  // bit that is looked at
  std::uint32_t kth = 0;    // the largest number of these bits that fewer than k are below
  for (int bit = 31; bit >= last; --bit) {
    const std::uint32_t more = kth | 1u << bit;
    unsigned below = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) below += words[i] < more ? 1u : 0u;
    if (__reduce_add_sync(all_lanes, below) < k) kth = more;
  }
  return kth | ((1u << last) - 1);
}

/// What the filter excludes by a bound on the k-th key; nothing where it is not less than what is known. By one lane.
/// Each of the coefficients grows with the bound.
__device__ __forceinline__ void fused_tighten(const FusedArgs& f, const FusedShared& shared, int which, float bound) {
  const std::uint32_t ordered = fused_ordered(bound);
  if (!(bound < static_cast<float>(infinite)) || ordered >= shared.known[which]) return;
  const QuantizedQuery& query = shared.queries[which].quantized;
  shared.known[which] = ordered;
  const double theta = theta_of_key(f.model, static_cast<double>(bound), query.scale);
  shared.coeffs[which] = threshold_coeffs_f32(coeffs_of_query(f.model, theta, query.square, query.norms));
}

/// The threshold of a query by what its block has seen and the others have published, by a warp. waits: a while for the
/// others, which all begin at about the same time; what a block alone has seen would let too much pass.
__device__ __forceinline__ void fused_update(const FusedArgs& f, const FusedShared& shared, int which, bool waits) {
  constexpr int own = fused_places / 32, others = fused_blocks / 32, patience = 32;
  // What the block has seen: a place has a row that no other has. All are computed, for their loads come together then.
  std::uint32_t words[own + others], least = fused_none;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const auto* const place = shared.nearest + which * fused_places + i * 32 + lane_index();
    const unsigned long long now = *static_cast<const volatile unsigned long long*>(place);
    const auto position = static_cast<std::uint32_t>(now >> 32);
    const bool present = position != fused_none;
    const float upper =
        fused_upper(f, shared, which, present ? position : 0, static_cast<int>(static_cast<std::uint32_t>(now)));
    words[i] = present ? fused_ordered(upper) : fused_none;
    least = words[i] < least ? words[i] : least;
  }
  least = __reduce_min_sync(all_lanes, least);
  volatile std::uint32_t* const published = f.state.minima + which * fused_blocks;
  random_delay();
  if (lane_index() == 0) published[blockIdx.x] = least;
  for (int turn = 0; turn < patience; ++turn) {
    unsigned present = 0;
#pragma unroll
    for (int i = 0; i < others; ++i) {
      const int block = i * 32 + lane_index();
      words[own + i] = fused_none;
      if (block < f.blocks && block != static_cast<int>(blockIdx.x)) words[own + i] = published[block];
      present += words[own + i] != fused_none ? 1u : 0u;
    }
    if (!waits || static_cast<int>(__reduce_add_sync(all_lanes, present)) >= f.blocks - 1) break;
  }
  const double upper = fused_value(fused_kth(words, static_cast<unsigned>(f.k)));
  // Rounded up to a key, so that the k-th itself is no larger.
  if (lane_index() == 0 && is_finite(upper))
    fused_tighten(f, shared, which, up32(value_of_upper(f.model, upper, shared.queries[which].quantized.scale)));
  __syncwarp();
}

}  // namespace vicinal::cuda
