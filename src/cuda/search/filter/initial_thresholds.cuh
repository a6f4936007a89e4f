// SEED: thresholds before anything is searched, from the sample that the filter took of the tiles, a block a query. The
// nearest row of each group has a distance with an upper bound, and all are different rows, so the largest of any
// `want` of these bounds bounds the k-th distance. Which groups are nearest is guessed in single precision, and only
// theirs are bounded, a warp 32 of them together: a bound takes some 200 instructions in double precision. Thresholds
// that are guessed: speculative_thresholds.cuh.
#pragma once
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/core/threshold.cuh"
#include "cuda/search/filter/scatter.cuh"

namespace vicinal::cuda {

inline constexpr int initial_threads = 256;
inline constexpr std::int64_t kept_groups =
    16384;  // so many groups' estimates stay in shared memory; of more they are made each time

struct InitialThresholds {
  SearchArgs args;
  const int* nearest;  // Filter's
  std::int64_t groups;
  std::uint32_t want;  // bounds
};
inline std::int64_t initial_thresholds_memory(std::int64_t groups) {
  return groups <= kept_groups ? groups * static_cast<std::int64_t>(sizeof(float)) : 0;
}

/// A group: its tile, and where its largest sum is.
struct Group {
  std::uint32_t tile, at;
};

/// It tells whether a sum bounds a distance: sums from 2^29 on are
/// of rows that are always candidates, or masked, and bound nothing.
__device__ __forceinline__ bool is_valid(const SearchArgs& args, int sum) {
  return args.floats || (sum > -(1 << 29) && sum < 1 << 29);
}
__device__ __forceinline__ double bound_of_group(const SearchArgs& args, const QuantizedQuery& query, float step,
                                                 const TileMetadata& metadata, int sum) {
  if (args.floats) return upper_of(args.model, decode_descending(sum), query.square, query.norms, metadata.maxima);
  if (!is_valid(args, sum)) return infinite;
  const double unit = int8_unit(args.model.sum, step, metadata.step);
  return int8_upper(args.model, int8_distance(sum, unit, 0), unit, query.square, query.norms, metadata.maxima);
}

/// Estimates of the bounds of a tile's groups, with what they have in common found once.
class BoundEstimates {
 public:
  __device__ BoundEstimates(const SearchArgs& args, const QuantizedQuery& query, float step,
                            const TileMetadata& metadata)
      : args_(args), products_(args.model.sum == Sum::products),
        unit_(static_cast<float>(int8_unit(args.model.sum, step, metadata.step))),
        square_(static_cast<float>(query.square)),
        beside_(products_ ? static_cast<float>(ip_slack(args.model, query.norms, metadata.maxima)) : metadata.e) {}
  __device__ __forceinline__ float of(int sum) const {
    if (args_.floats) return decode_descending(sum);
    if (!is_valid(args_, sum)) return static_cast<float>(infinite);
    if (products_) return beside_ - static_cast<float>(sum) * unit_;
    const float whole = square_ + -static_cast<float>(sum) * unit_ + beside_ * beside_;
    return beside_ + sqrtf(whole > 0 ? whole : 0);
  }

 private:
  const SearchArgs& args_;
  bool products_;
  float unit_, square_, beside_;
};

/// take(estimate, group) for each group of each tile, by all lanes of a warp
/// together: those without a tile bring an infinite estimate. kept: estimates in
/// shared memory, or null; a thread reads those that it wrote. known: they are there.
template <class Take>
__device__ __forceinline__ void each_group(const InitialThresholds& s, const QuantizedQuery& query, float step,
                                           float* kept, bool known, const Take& take) {
  const SearchArgs& args = s.args;
  const int* mine = s.nearest + blockIdx.x * s.groups;
  const std::int64_t tiles = s.groups / groups_a_tile;
  Visits far = args.visits;
  far.step = args.visits.at(thread_count());
  std::int64_t tile = args.visits.at(thread_index());
  for (std::int64_t t = thread_index(); t - lane_index() < tiles; t += thread_count(), tile = far.after(tile)) {
    const bool present = t < tiles;
    float estimates[groups_a_tile];
    if (known) {
#pragma unroll
      for (int g = 0; g < groups_a_tile; ++g)
        estimates[g] = present ? kept[g * tiles + t] : static_cast<float>(infinite);
    } else {
      const BoundEstimates estimate(args, query, step, args.rows.tile_metadata[tile]);
#pragma unroll
      for (int g = 0; g < groups_a_tile; ++g) {
        const int sum = present ? mine[t * groups_a_tile + g] : 0;
        estimates[g] = present ? estimate.of(sum) : static_cast<float>(infinite);
        if (present && kept != nullptr) kept[g * tiles + t] = estimates[g];
      }
    }
#pragma unroll
    for (int g = 0; g < groups_a_tile; ++g)
      take(estimates[g], Group{static_cast<std::uint32_t>(tile), static_cast<std::uint32_t>(t * groups_a_tile + g)});
  }
}

__global__ void __launch_bounds__(initial_threads) initial_thresholds(InitialThresholds s) {
  VICINAL_SHARED(unsigned, scratch, 260);
  VICINAL_SHARED(unsigned, bins, likely_bins);
  VICINAL_SHARED(Group, waiting, initial_threads * 2);  // to be bounded, 64 of each warp
  const SearchArgs& args = s.args;
  const std::int64_t position = blockIdx.x;
  const QuantizedQuery query = args.queries.quantized[position];
  const float step = args.queries.tile_metadata[position / tile_rows].step;
  float* const kept = s.groups <= kept_groups ? dynamic_shared<float>() : nullptr;
  bool known = false;
  const float limit = likely_limit(s.want, bins, scratch, [&](const auto& take) {
    each_group(s, query, step, kept, known, [&](float estimate, const Group&) { take(estimate); });
    known = kept != nullptr;
  });

  std::uint32_t most = 0;  // of ordered bounds
  Group* const mine = waiting + warp_index() * 64;
  int wait = 0, bounded = 0;
  const auto bound = [&](int count) {
    __syncwarp();
    wait -= count;
    bounded += count;
    if (lane_index() < count) {
      const Group group = mine[wait + lane_index()];
      const std::uint32_t upper = ordered_t(up32(bound_of_group(args, query, step, args.rows.tile_metadata[group.tile],
                                                                s.nearest[position * s.groups + group.at])));
      most = most < upper ? upper : most;
    }
    __syncwarp();
  };
  each_group(s, query, step, kept, known, [&](float estimate, const Group& group) {
    const bool near = estimate <= limit && estimate < static_cast<float>(infinite);
    const unsigned all = __ballot_sync(all_lanes, near);
    if (near) mine[wait + votes_below(all)] = group;
    wait += __popc(all);
    if (wait >= 32) bound(32);
  });
  bound(wait);

  // A limit is rounded, so what it left is counted: fewer than are wanted bound nothing.
  most = __reduce_max_sync(all_lanes, most);
  if (lane_index() == 0) {
    scratch[2 * warp_index()] = most;
    scratch[2 * warp_index() + 1] = static_cast<unsigned>(bounded);
  }
  __syncthreads();
  if (thread_index() != 0) return;
  std::uint32_t groups = 0;
  for (int w = 0; w < thread_count() / 32; ++w) {
    most = scratch[2 * w] > most ? scratch[2 * w] : most;
    groups += scratch[2 * w + 1];
  }
  const double upper = ListWords<Packed>::key(static_cast<std::uint64_t>(most) << 32);
  if (groups >= s.want && is_finite(upper)) tighten(args, position, value_of_upper(args.model, upper, query.scale));
}

/// Few bounds are wanted of bytes' sums: a warp a query, which knows of 256 parts of the
/// sample the nearest row, and takes the bounds of the `want` nearest of these. They are
/// hardly looser than those of all groups, since few of the nearest rows share a part.
inline constexpr std::uint32_t most_want_by_warp = 32;
inline constexpr int warp_parts = 8;  // of a lane
inline bool thresholds_by_warp(const InitialThresholds& s) {
  return !s.args.floats && s.want <= most_want_by_warp && s.groups >= 32 * warp_parts * groups_a_tile;
}

/// The nearest row of a lane's parts: its tile's place in the sample, and the estimate of its bound as a key.
struct NearestOfParts {
  std::uint32_t keys[warp_parts], tiles[warp_parts];
};

/// The largest of a tile's sums that bounds anything; less than all others where none does.
__device__ __forceinline__ int largest_valid(const int* sums) {
  int largest = -(1 << 30);
#pragma unroll
  for (int g = 0; g < groups_a_tile; g += 4) {
    const int4 four = *reinterpret_cast<const int4*>(sums + g);
    for (const int sum : {four.x, four.y, four.z, four.w}) largest = sum < 1 << 29 && sum > largest ? sum : largest;
  }
  return largest;
}

__device__ __forceinline__ NearestOfParts nearest_of_parts(const InitialThresholds& s, const QuantizedQuery& query,
                                                           float step, std::int64_t position) {
  NearestOfParts nearest;
#pragma unroll
  for (int i = 0; i < warp_parts; ++i) nearest.keys[i] = 0xffffffffu;
  const auto tiles = static_cast<int>(s.groups / groups_a_tile);
  const int* const sums = s.nearest + position * s.groups;
  const Visits& visits = s.args.visits;
  Visits next = visits;
  next.step = visits.at(32);
  std::int64_t tile = visits.at(lane_index());
  for (int from = 0; from < tiles; from += 32 * warp_parts) {
    int largest[warp_parts];  // of all parts first, so that all loads are on their way together
#pragma unroll
    for (int i = 0; i < warp_parts; ++i) {
      const int t = from + 32 * i + lane_index();
      largest[i] = largest_valid(sums + (t < tiles ? t : tiles - 1) * groups_a_tile);
    }
#pragma unroll
    for (int i = 0; i < warp_parts; ++i, tile = next.after(tile)) {
      const int t = from + 32 * i + lane_index();
      const float bound = BoundEstimates(s.args, query, step, s.args.rows.tile_metadata[tile]).of(largest[i]);
      const std::uint32_t key = ordered_t(bound);
      if (t >= tiles || !(bound < static_cast<float>(infinite)) || key >= nearest.keys[i]) continue;
      nearest.keys[i] = key;
      nearest.tiles[i] = static_cast<std::uint32_t>(t);
    }
  }
  return nearest;
}

/// A key that at least `want` of a warp's parts are not beyond, and few more.
__device__ __forceinline__ std::uint32_t limit_of_parts(const NearestOfParts& nearest, unsigned want) {
  std::uint32_t low = 0xffffffffu;
#pragma unroll
  for (int i = 0; i < warp_parts; ++i) low = nearest.keys[i] < low ? nearest.keys[i] : low;
  std::uint32_t high = __reduce_max_sync(all_lanes, low);  // each lane has one that is not beyond
  low = __reduce_min_sync(all_lanes, low);
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    unsigned within = 0;
#pragma unroll
    for (int i = 0; i < warp_parts; ++i) within += nearest.keys[i] <= middle ? 1 : 0;
    within = __reduce_add_sync(all_lanes, within);
    if (within < want) {
      low = middle + 1;
    } else {
      high = middle;
      if (within <= want + want / 8) break;
    }
  }
  return high;
}

/// The largest bound of the parts within a limit, ordered, in every lane; 0xffffffff where they are fewer than `want`.
/// waiting: 64 entries of the warp.
__device__ __forceinline__ std::uint32_t bound_of_parts(const InitialThresholds& s, const QuantizedQuery& query,
                                                        float step, std::int64_t position,
                                                        const NearestOfParts& nearest, std::uint32_t limit,
                                                        std::uint32_t* waiting) {
  const SearchArgs& args = s.args;
  std::uint32_t most = 0;
  unsigned wait = 0, bounded = 0;
  const auto bound = [&](unsigned count) {
    __syncwarp();
    wait -= count;
    bounded += count;
    if (static_cast<unsigned>(lane_index()) < count) {
      const std::int64_t t = waiting[wait + static_cast<unsigned>(lane_index())];
      const int sum = largest_valid(s.nearest + position * s.groups + t * groups_a_tile);
      const std::uint32_t upper =
          ordered_t(up32(bound_of_group(args, query, step, args.rows.tile_metadata[args.visits.at(t)], sum)));
      most = most < upper ? upper : most;
    }
    __syncwarp();
  };
#pragma unroll
  for (int i = 0; i < warp_parts; ++i) {
    const bool near = nearest.keys[i] <= limit && nearest.keys[i] != 0xffffffffu;
    const unsigned all = __ballot_sync(all_lanes, near);
    if (near) waiting[wait + static_cast<unsigned>(votes_below(all))] = nearest.tiles[i];
    wait += static_cast<unsigned>(__popc(all));
    if (wait >= 32) bound(32);
  }
  bound(wait);
  most = __reduce_max_sync(all_lanes, most);
  return bounded >= s.want ? most : 0xffffffffu;
}

inline constexpr int thresholds_blocks = 3;  // of a multiprocessor
__global__ void __launch_bounds__(initial_threads, thresholds_blocks) initial_thresholds_by_warp(InitialThresholds s) {
  VICINAL_SHARED(std::uint32_t, waiting, initial_threads * 2);  // parts to be bounded, 64 of each warp
  const SearchArgs& args = s.args;
  constexpr std::int64_t warps_here = initial_threads / 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * warps_here;
  // Lane i keeps the bound of the warp's i-th query, so that 32 thresholds are tightened together.
  std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * warps_here + warp_index();
  while (position < args.queries.count) {
    const std::int64_t first = position;
    std::uint32_t mine = 0xffffffffu;
    for (int i = 0; i < 32 && position < args.queries.count; ++i, position += warps) {
      const QuantizedQuery query = args.queries.quantized[position];
      const float step = args.queries.tile_metadata[position / tile_rows].step;
      const NearestOfParts nearest = nearest_of_parts(s, query, step, position);
      const std::uint32_t most = bound_of_parts(s, query, step, position, nearest, limit_of_parts(nearest, s.want),
                                                waiting + warp_index() * 64);
      if (lane_index() == i) mine = most;
    }
    const std::int64_t own = first + lane_index() * warps;
    if (own >= args.queries.count || mine == 0xffffffffu) continue;
    const double upper = ListWords<Packed>::key(static_cast<std::uint64_t>(mine) << 32);
    if (is_finite(upper)) tighten(args, own, value_of_upper(args.model, upper, args.queries.quantized[own].scale));
  }
}

}  // namespace vicinal::cuda
