// SEED: thresholds before anything is searched, from the sample that the filter took of the tiles, a block a query. The nearest row of each
// group has a distance with an upper bound, and all are different rows, so the largest of any `want` of these bounds bounds the k-th
// distance. Which groups are nearest is guessed in single precision, and only theirs are bounded: a bound takes some 200 instructions
// in double precision.
#pragma once
#include "cuda/search/held.hpp"
#include "cuda/search/settle.cuh"

namespace vicinal::cuda {

struct Seed {
  SearchJob job;
  const int* nearest;     // Filter's
  std::uint32_t* likely;  // as many, where they are more than near_groups
  std::int64_t groups;
  std::uint32_t want;
};
/// Of a group's largest sum, and of nothing at either end: seeds there stand for terms beyond them, which bound nothing.
__device__ __forceinline__ double bound_of_group(const Seed& s, const PlacedQuery& query, float step, std::int64_t tile, int sum) {
  const SearchJob& job = s.job;
  const TileHead& head = job.rows.heads[job.visits.at(tile)];
  if (job.floats) return upper_of(job.model, risen(sum), query.square, query.norms, head.maxima);
  if (sum <= -(1 << 29) || sum >= 1 << 29) return infinite;
  const double unit = byte_unit(job.model.form, step, head.step);
  return byte_upper(job.model, byte_t(sum, unit, 0), unit, query.square, query.norms, head.maxima);
}
__global__ void __launch_bounds__(settle_threads) seed_thresholds(Seed s) {
  VICINAL_SHARED(unsigned, spare, 260);
  VICINAL_SHARED(std::uint32_t, near, near_groups);
  const SearchJob& job = s.job;
  const std::int64_t place = blockIdx.x;
  const int* mine = s.nearest + place * s.groups;
  std::uint32_t* likely = s.groups <= near_groups ? near : s.likely + place * s.groups;
  const PlacedQuery query = job.queries.placed[place];
  const float step = job.queries.heads[place / tile_rows].step, square = static_cast<float>(query.square);
  for (std::int64_t t = thread_index(); t < s.groups / groups_a_tile; t += thread_count()) {
    const TileHead& head = job.rows.heads[job.visits.at(t)];
    const float unit = static_cast<float>(byte_unit(job.model.form, step, head.step));
    const float beside = job.model.form == Form::ip ? static_cast<float>(ip_slack(job.model, query.norms, head.maxima)) : head.e;
#pragma unroll
    for (int g = 0; g < groups_a_tile; ++g) {
      const int sum = mine[t * groups_a_tile + g];
      float guess = static_cast<float>(infinite);
      if (job.floats) {
        guess = risen(sum);
      } else if (sum > -(1 << 29) && sum < 1 << 29) {
        const float t_of_sum = -static_cast<float>(sum) * unit, whole = square + t_of_sum + beside * beside;
        guess = beside + (job.model.form == Form::ip ? t_of_sum : sqrtf(whole > 0 ? whole : 0));
      }
      likely[t * groups_a_tile + g] = ordered_t(guess);
    }
  }
  __syncthreads();
  const std::uint32_t nth = block_kth(s.groups, s.want, spare, [&](std::int64_t i) { return likely[i]; });
  std::uint32_t least, most;
  block_ends(s.groups, spare, least, most, [&](std::int64_t i) {
    return likely[i] <= nth ? ordered_t(up32(bound_of_group(s, query, step, i / groups_a_tile, mine[i]))) : 0u;
  });
  if (thread_index() != 0) return;
  const double upper = ListWords<Packed>::key(static_cast<std::uint64_t>(most) << 32);
  if (is_finite(upper)) tighten(job, place, value_of_upper(job.model, upper, query.scale));
}

}  // namespace vicinal::cuda
