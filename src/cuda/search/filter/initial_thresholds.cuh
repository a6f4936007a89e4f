// SEED: thresholds before anything is searched, from the sample that the filter took of the tiles, a block a query. The nearest row of each
// group has a distance with an upper bound, and all are different rows, so the largest of any `want` of these bounds bounds the k-th
// distance. Which groups are nearest is guessed in single precision, and only theirs are bounded, a warp 32 of them together: a bound takes
// some 200 instructions in double precision.
#pragma once
#include "cuda/search/rerank/rerank.cuh"

namespace vicinal::cuda {

inline constexpr std::int64_t kept_groups =
    16384;  // so many groups' guesses stay in shared memory; of more they are made each time

struct Seed {
  SearchJob job;
  const int* nearest;  // Filter's
  std::int64_t groups;
  std::uint32_t want;
};
inline std::int64_t seed_memory(std::int64_t groups) {
  return groups <= kept_groups ? groups * static_cast<std::int64_t>(sizeof(float)) : 0;
}

/// A group: its tile, and where its largest sum is.
struct Group {
  std::uint32_t tile, at;
};

/// Of a group's largest sum, and of nothing at either end: seeds there stand for terms beyond them, which bound nothing.
__device__ __forceinline__ bool tells(const SearchJob& job, int sum) {
  return job.floats || (sum > -(1 << 29) && sum < 1 << 29);
}
__device__ __forceinline__ double bound_of_group(const SearchJob& job, const PlacedQuery& query, float step,
                                                 const TileHead& head, int sum) {
  if (job.floats) return upper_of(job.model, risen(sum), query.square, query.norms, head.maxima);
  if (!tells(job, sum)) return infinite;
  const double unit = int8_unit(job.model.sum, step, head.step);
  return int8_upper(job.model, int8_distance(sum, unit, 0), unit, query.square, query.norms, head.maxima);
}

/// Guesses of the bounds of a tile's groups, with what they have in common found once.
class Guesses {
 public:
  __device__ Guesses(const SearchJob& job, const PlacedQuery& query, float step, const TileHead& head)
      : job_(job), unit_(static_cast<float>(int8_unit(job.model.sum, step, head.step))),
        square_(static_cast<float>(query.square)),
        beside_(job.model.sum == Sum::products ? static_cast<float>(ip_slack(job.model, query.norms, head.maxima))
                                               : head.e) {}
  __device__ __forceinline__ float of(int sum) const {
    if (job_.floats) return risen(sum);
    if (!tells(job_, sum)) return static_cast<float>(infinite);
    const float t = -static_cast<float>(sum) * unit_, whole = square_ + t + beside_ * beside_;
    return beside_ + (job_.model.sum == Sum::products ? t : sqrtf(whole > 0 ? whole : 0));
  }

 private:
  const SearchJob& job_;
  float unit_, square_, beside_;
};

/// take(guess, group) for each group of each tile, by all lanes of a warp together: those without a tile bring an infinite guess.
/// kept: guesses in shared memory, or null; a thread reads those that it wrote. known: they are there.
template <class Take>
__device__ __forceinline__ void each_group(const Seed& s, const PlacedQuery& query, float step, float* kept, bool known,
                                           const Take& take) {
  const SearchJob& job = s.job;
  const int* mine = s.nearest + blockIdx.x * s.groups;
  const std::int64_t tiles = s.groups / groups_a_tile;
  Visits far = job.visits;
  far.step = job.visits.at(thread_count());
  std::int64_t tile = job.visits.at(thread_index());
  for (std::int64_t t = thread_index(); t - lane_index() < tiles; t += thread_count(), tile = far.after(tile)) {
    const bool there = t < tiles;
    float guesses[groups_a_tile];
    if (known) {
#pragma unroll
      for (int g = 0; g < groups_a_tile; ++g) guesses[g] = there ? kept[g * tiles + t] : static_cast<float>(infinite);
    } else {
      const Guesses guess(job, query, step, job.rows.heads[tile]);
#pragma unroll
      for (int g = 0; g < groups_a_tile; ++g) {
        guesses[g] = there ? guess.of(mine[t * groups_a_tile + g]) : static_cast<float>(infinite);
        if (there && kept != nullptr) kept[g * tiles + t] = guesses[g];
      }
    }
#pragma unroll
    for (int g = 0; g < groups_a_tile; ++g)
      take(guesses[g], Group{static_cast<std::uint32_t>(tile), static_cast<std::uint32_t>(t * groups_a_tile + g)});
  }
}

__global__ void __launch_bounds__(settle_threads) seed_thresholds(Seed s) {
  VICINAL_SHARED(unsigned, spare, 260);
  VICINAL_SHARED(unsigned, bins, likely_bins);
  VICINAL_SHARED(Group, waiting, settle_threads * 2);  // to be bounded, 64 of each warp
  const SearchJob& job = s.job;
  const std::int64_t place = blockIdx.x;
  const PlacedQuery query = job.queries.placed[place];
  const float step = job.queries.heads[place / tile_rows].step;
  float* const kept = s.groups <= kept_groups ? dynamic_shared<float>() : nullptr;
  bool known = false;
  const float limit = likely_limit(s.want, bins, spare, [&](const auto& take) {
    each_group(s, query, step, kept, known, [&](float guess, const Group&) { take(guess); });
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
      const std::uint32_t upper = ordered_t(
          up32(bound_of_group(job, query, step, job.rows.heads[group.tile], s.nearest[place * s.groups + group.at])));
      most = most < upper ? upper : most;
    }
    __syncwarp();
  };
  each_group(s, query, step, kept, known, [&](float guess, const Group& group) {
    const bool near = guess <= limit && guess < static_cast<float>(infinite);
    const unsigned all = __ballot_sync(all_lanes, near);
    if (near) mine[wait + votes_below(all)] = group;
    wait += __popc(all);
    if (wait >= 32) bound(32);
  });
  bound(wait);

  // A limit is rounded, so what it left is counted: fewer than are wanted bound nothing.
  most = __reduce_max_sync(all_lanes, most);
  if (lane_index() == 0) {
    spare[2 * warp_index()] = most;
    spare[2 * warp_index() + 1] = static_cast<unsigned>(bounded);
  }
  __syncthreads();
  if (thread_index() != 0) return;
  std::uint32_t groups = 0;
  for (int w = 0; w < thread_count() / 32; ++w) {
    most = spare[2 * w] > most ? spare[2 * w] : most;
    groups += spare[2 * w + 1];
  }
  const double upper = ListWords<Packed>::key(static_cast<std::uint64_t>(most) << 32);
  if (groups >= s.want && is_finite(upper)) tighten(job, place, value_of_upper(job.model, upper, query.scale));
}

}  // namespace vicinal::cuda
