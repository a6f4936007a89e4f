// The candidates of a permutation index from one look at the scores: a sample of the objects tells a score that hardly more than the
// wanted number are within, one pass lists what is within it, and each list is cut to the first by (score, number). A query whose
// list came out too short or too long is told as failed; footrule.cuh answers it.
//   near_count:      a histogram of half the scores of evenly spaced objects for each query
//   near_limits:     from its counts the score for each query
//   near_list:       objects within it; a thread holds some objects' ranks, a block takes queries a few at a time from shared memory
//   near_cut:        the candidates, in no order
#pragma once
#include <cmath>

#include "cuda/permutation/footrule.cuh"

namespace vicinal::cuda {

inline constexpr int near_queries = 64;  // of a block at a time
inline constexpr int near_room = 32;     // objects that a block keeps for one of them before it hands them out
inline constexpr std::int64_t near_sample = 1 << 15;  // objects, at least

struct NearArgs {
  RanksArgs job;
  std::int64_t lines = 0, spacing = 1;  // of 32 objects: how many are counted, one in so many
  std::int64_t sampled = 0;             // objects of them
  std::int64_t parts = 1;               // near_count: blocks for each group of queries
  std::int64_t splits = 1;              // near_list: blocks that share the queries of some objects
};

/// Dynamic shared memory: bins counters for each query of a group.
template <int Words>
__global__ void __launch_bounds__(rank_threads) near_count(NearArgs args) {
  const RanksArgs& job = args.job;
  VICINAL_SHARED(std::uint32_t, queries, rank_queries_at_once * most_rank_words);
  auto* const counts = dynamic_shared<std::uint32_t>();
  const std::int64_t group = blockIdx.x / args.parts, part = blockIdx.x % args.parts;
  for (std::uint32_t i = threadIdx.x; i < rank_queries_at_once * job.bins; i += blockDim.x) counts[i] = 0;
  const int used = load_queries(job, group, queries), warps = thread_count() / 32;
  for (std::int64_t line = part * warps + warp_index(); line < args.lines; line += args.parts * warps) {
    const std::int64_t object = line * args.spacing * 32 + lane_index();
    if (object >= job.count) continue;
    unsigned ranks[Words];
#pragma unroll
    for (int w = 0; w < Words; ++w) ranks[w] = job.objects[w * job.pitch + object];
    for (int query = 0; query < used; ++query) {
      unsigned sum = 0;
#pragma unroll
      for (int w = 0; w < Words; ++w) sum = add_differences(ranks[w], queries[query * Words + w], sum);
      atomicAdd(&counts[static_cast<std::uint32_t>(query) * job.bins + sum / 2], 1u);
    }
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < static_cast<std::uint32_t>(used) * job.bins; i += blockDim.x)
    if (counts[i] != 0) atomicAdd(&job.histogram[group * rank_queries_at_once * job.bins + i], counts[i]);
}

/// A block a query: the first score up to which the sample has more than its share of the candidates, and a margin that it hardly ever misses.
template <int>
__global__ void near_limits(NearArgs args) {
  const RanksArgs& job = args.job;
  VICINAL_SHARED(std::uint32_t, spare, rank_threads / 32);
  const std::uint32_t* const bins = job.histogram + static_cast<std::int64_t>(blockIdx.x) * job.bins;
  const float share =
      static_cast<float>(job.candidates) * static_cast<float>(args.sampled) / static_cast<float>(job.count);
  const auto wanted = static_cast<std::uint32_t>(args.sampled < job.count ? share + 4 * sqrtf(share) + 4 : share);
  const std::int64_t each = (static_cast<std::int64_t>(job.bins) + thread_count() - 1) / thread_count();
  std::uint32_t before = sum_before_share(bins, job.bins, each, spare);
  if (thread_index() == 0) job.last[blockIdx.x] = job.bins - 1;
  __syncthreads();
  for (std::int64_t bin = thread_index() * each; bin < (thread_index() + 1) * each && bin < job.bins; ++bin) {
    if (before < wanted && wanted <= before + bins[bin]) job.last[blockIdx.x] = static_cast<std::uint32_t>(bin);
    before += bins[bin];
  }
}

/// To a list that is as long as it may be, and counts on.
__device__ __forceinline__ void put_near(const RanksArgs& job, std::int64_t query, std::uint32_t place,
                                         std::int64_t object, unsigned half) {
  if (place < job.capacity)
    job.list[query * job.capacity + place] =
        static_cast<unsigned long long>(half) << 32 | static_cast<unsigned long long>(object);
}

template <int Words, int Each>
__global__ void __launch_bounds__(rank_threads) near_list(NearArgs args) {
  const RanksArgs& job = args.job;
  VICINAL_SHARED(RankWords, asked, near_queries * Words / 4);
  VICINAL_SHARED(std::uint32_t, limits, near_queries);
  VICINAL_SHARED(std::uint32_t, counts, near_queries);
  VICINAL_SHARED(std::uint32_t, places, near_queries);
  VICINAL_SHARED(std::uint32_t, kept, near_queries * near_room);
  const std::int64_t first = blockIdx.x / args.splits * (rank_threads * Each), split = blockIdx.x % args.splits;

  std::uint32_t ranks[Each][Words];  // of this thread's objects
#pragma unroll
  for (int e = 0; e < Each; ++e) {
    const std::int64_t object = first + e * rank_threads + thread_index();
#pragma unroll
    for (int w = 0; w < Words; ++w)
      ranks[e][w] = object < job.count ? job.objects[w * job.pitch + object] : all_lanes;  // far from all
  }
  const std::int64_t groups = (job.query_count + near_queries - 1) / near_queries;
  for (std::int64_t group = split; group < groups; group += args.splits) {
    // Some queries into shared memory, with their limits.
    const std::int64_t first_query = group * near_queries, left = job.query_count - first_query;
    const int used = static_cast<int>(left < near_queries ? left : near_queries);
    const auto* from = reinterpret_cast<const RankWords*>(job.queries + first_query * Words);
    for (int i = thread_index(); i < used * Words / 4; i += rank_threads) asked[i] = from[i];
    if (thread_index() < used) {
      limits[thread_index()] = 2 * job.last[first_query + thread_index()];
      counts[thread_index()] = 0;
    }
    __syncthreads();

    // Footrules of each query; objects within its limit are kept in shared memory, or listed at once where that is full.
    for (int query = 0; query < used; ++query) {
      unsigned sums[Each];
#pragma unroll
      for (int e = 0; e < Each; ++e) sums[e] = 0;
#pragma unroll
      for (int w = 0; w < Words / 4; ++w) {
        const RankWords four = asked[query * (Words / 4) + w];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int e = 0; e < Each; ++e) sums[e] = add_differences(ranks[e][4 * w + i], four.of[i], sums[e]);
        }
      }
      const unsigned limit = limits[query];
      bool any = false;
#pragma unroll
      for (int e = 0; e < Each; ++e) any = any || sums[e] <= limit;
      if (__ballot_sync(all_lanes, any) == 0) continue;
#pragma unroll
      for (int e = 0; e < Each; ++e) {
        if (!(sums[e] <= limit)) continue;
        const std::uint32_t place = atomicAdd(&counts[query], 1u);
        const int local = e * rank_threads + thread_index();
        if (place < near_room) {
          kept[query * near_room + static_cast<int>(place)] = sums[e] / 2 << 16 | static_cast<std::uint32_t>(local);
        } else {
          put_near(job, first_query + query, atomicAdd(&job.counts[first_query + query], 1u), first + local,
                   sums[e] / 2);
        }
      }
    }
    __syncthreads();

    // Output: one place in each query's list for all that the block kept.
    if (thread_index() < used) {
      std::uint32_t& count = counts[thread_index()];
      count = count < near_room ? count : near_room;
      places[thread_index()] = count > 0 ? atomicAdd(&job.counts[first_query + thread_index()], count) : 0;
    }
    __syncthreads();
    for (int i = thread_index(); i < used * near_room; i += rank_threads) {
      const int query = i / near_room, at = i % near_room;
      if (at >= static_cast<int>(counts[query])) continue;
      put_near(job, first_query + query, places[query] + static_cast<std::uint32_t>(at), first + (kept[i] & 0xffffu),
               kept[i] >> 16);
    }
    __syncthreads();
  }
}

/// Of `bins` counters in shared memory, the one in which the wanted-th lies, and how many of it are wanted. All threads get both.
struct Bin {
  std::uint32_t at, wanted;
};
__device__ __forceinline__ Bin bin_of_wanted(const std::uint32_t* bins, std::int64_t count, std::uint32_t wanted,
                                             std::uint32_t* spare) {
  const std::int64_t each = (count + thread_count() - 1) / thread_count();
  std::uint32_t before = sum_before_share(bins, count, each, spare);
  for (std::int64_t bin = thread_index() * each; bin < (thread_index() + 1) * each && bin < count; ++bin) {
    if (before < wanted && wanted <= before + bins[bin]) {
      spare[rank_threads / 32] = static_cast<std::uint32_t>(bin);
      spare[rank_threads / 32 + 1] = wanted - before;
    }
    before += bins[bin];
  }
  __syncthreads();
  const Bin found{spare[rank_threads / 32], spare[rank_threads / 32 + 1]};
  __syncthreads();
  return found;
}

/// Counters of near_cut: of scores, then of some bits of numbers.
inline constexpr int number_bits = 11;
inline std::int64_t cut_counters(const RanksArgs& job) { return std::max<std::int64_t>(job.bins, 1 << number_bits); }

inline constexpr std::uint32_t most_equals = 1 << number_bits;

/// A block a query.
template <int>
__global__ void __launch_bounds__(rank_threads) near_cut(NearArgs args) {
  const RanksArgs& job = args.job;
  VICINAL_SHARED(std::uint32_t, spare, rank_threads / 32 + 2);
  auto* bins = dynamic_shared<std::uint32_t>();
  const std::int64_t query = blockIdx.x;
  const std::uint32_t count = job.counts[query];
  if (thread_index() == 0) job.failed[query] = count < job.candidates || count > job.capacity ? 1 : 0;
  if (count < job.candidates || count > job.capacity) return;
  const unsigned long long* const list = job.list + query * job.capacity;
  const auto start = static_cast<std::uint32_t>(thread_index()), step = static_cast<std::uint32_t>(thread_count());

  // The score of the last candidate, and the first of the numbers that have it, some bits at a time.
  const auto count_where = [&](std::uint32_t of, const auto& bin) {
    for (std::uint32_t i = start; i < of; i += step) bins[i] = 0;
    __syncthreads();
    for (std::uint32_t i = start; i < count; i += step) bin(list[i]);
    __syncthreads();
  };
  count_where(job.bins, [&](unsigned long long word) { atomicAdd(&bins[word >> 32], 1u); });
  Bin last = bin_of_wanted(bins, job.bins, static_cast<std::uint32_t>(job.candidates), spare);
  unsigned long long known = last.at;  // the highest bits of the last candidate's word
  int unknown = 32;
  const std::uint32_t equals = bins[last.at];
  bool all = equals == last.wanted;
  __syncthreads();
  // Usually there are few: they are put aside below, and each counts those before it.
  const bool few = !all && equals <= most_equals;
  while (!all && !few && unknown > 0) {
    const int bits = unknown < number_bits ? unknown : number_bits;
    const unsigned long long before = known;
    count_where(1u << bits, [&](unsigned long long word) {
      if (word >> unknown == before) atomicAdd(&bins[word >> (unknown - bits) & ((1u << bits) - 1u)], 1u);
    });
    last = bin_of_wanted(bins, std::int64_t{1} << bits, last.wanted, spare);
    known = known << bits | last.at;
    unknown -= bits;
    all = bins[last.at] == last.wanted;
    __syncthreads();
  }
  if (thread_index() < 2) spare[thread_index()] = 0;
  __syncthreads();
  for (std::uint32_t from = 0; from < count; from += step) {
    const std::uint32_t i = from + start;
    const unsigned long long word = i < count ? list[i] : 0;
    const bool equal = few && i < count && word >> 32 == known;
    if (equal) bins[atomicAdd(&spare[1], 1u)] = static_cast<std::uint32_t>(word);
    const bool taken = i < count && !equal && word >> unknown <= known;
    const unsigned votes = __ballot_sync(all_lanes, taken);
    std::uint32_t place = 0;
    if (lane_index() == 0 && votes != 0) place = atomicAdd(&spare[0], static_cast<std::uint32_t>(__popc(votes)));
    place = __shfl_sync(all_lanes, place, 0) + static_cast<std::uint32_t>(votes_below(votes));
    if (taken) job.found[query * job.candidates + place] = static_cast<std::uint32_t>(word);
  }
  if (!few) return;
  __syncthreads();
  for (std::uint32_t i = start; i < equals; i += step) {
    std::uint32_t before = 0;
    for (std::uint32_t other = 0; other < equals; ++other) before += bins[other] < bins[i] ? 1u : 0u;
    if (before < last.wanted) job.found[query * job.candidates + spare[0] + before] = bins[i];
  }
}

}  // namespace vicinal::cuda
