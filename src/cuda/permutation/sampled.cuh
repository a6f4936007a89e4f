// Candidates of a permutation index from one pass over the scores: a sample of the objects
// gives each query a threshold that hardly more than the wanted number are within, the pass
// lists what is within it, and each list is cut to the first by (score, number). A query whose
// list came out too short or too long is reported as failed; footrule.cuh answers it.
//   sample_scores:     counts half the scores of evenly spaced objects for each query
//   sample_thresholds: takes each query's threshold from its counts
//   list_candidates:   lists objects within it; a thread holds some objects' ranks, a block takes queries a few at a
//                      time from shared memory
//   cut_candidates:    cuts each list to the candidates, in no order
#pragma once
#include <cmath>

#include "cuda/permutation/footrule.cuh"

namespace vicinal::cuda {

inline constexpr int list_queries = 64;  // of a block at a time
inline constexpr int block_room = 32;    // objects that a block keeps for one of them before it hands them out
inline constexpr std::int64_t least_sample = 1 << 15;  // objects, at least

struct SampledArgs {
  RanksArgs batch;
  std::int64_t lines = 0, spacing = 1;  // of 32 objects: how many are counted, one in so many
  std::int64_t sampled = 0;             // objects of them
  std::int64_t parts = 1;               // sample_scores: blocks for each group of queries
  std::int64_t splits = 1;              // list_candidates: blocks that share the queries of some objects
};

/// Dynamic shared memory: bins counters for each query of a group.
template <int Words>
__global__ void __launch_bounds__(rank_threads) sample_scores(SampledArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, queries, rank_queries_at_once * most_rank_words);
  auto* const counts = dynamic_shared<std::uint32_t>();
  const std::int64_t group = blockIdx.x / args.parts, part = blockIdx.x % args.parts;
  for (std::uint32_t i = threadIdx.x; i < rank_queries_at_once * batch.bins; i += blockDim.x) counts[i] = 0;
  const int used = load_queries(batch, group, queries), warps = thread_count() / 32;
  for (std::int64_t line = part * warps + warp_index(); line < args.lines; line += args.parts * warps) {
    const std::int64_t object = line * args.spacing * 32 + lane_index();
    if (object >= batch.count) continue;
    unsigned ranks[Words];
#pragma unroll
    for (int w = 0; w < Words; ++w) ranks[w] = batch.objects[w * batch.pitch + object];
    for (int query = 0; query < used; ++query) {
      unsigned sum = 0;
#pragma unroll
      for (int w = 0; w < Words; ++w) sum = add_differences(ranks[w], queries[query * Words + w], sum);
      atomicAdd(&counts[static_cast<std::uint32_t>(query) * batch.bins + sum / 2], 1u);
    }
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < static_cast<std::uint32_t>(used) * batch.bins; i += blockDim.x)
    if (counts[i] != 0) atomicAdd(&batch.histogram[group * rank_queries_at_once * batch.bins + i], counts[i]);
}

/// A block a query: the first score up to which the sample has more than
/// its share of the candidates, and a margin that it hardly ever misses.
template <int>
__global__ void sample_thresholds(SampledArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, scratch, rank_threads / 32);
  const std::uint32_t* const bins = batch.histogram + static_cast<std::int64_t>(blockIdx.x) * batch.bins;
  const float share =
      static_cast<float>(batch.candidates) * static_cast<float>(args.sampled) / static_cast<float>(batch.count);
  const auto wanted = static_cast<std::uint32_t>(args.sampled < batch.count ? share + 4 * sqrtf(share) + 4 : share);
  const std::int64_t each = (static_cast<std::int64_t>(batch.bins) + thread_count() - 1) / thread_count();
  std::uint32_t before = sum_before_share(bins, batch.bins, each, scratch);
  if (thread_index() == 0) batch.last[blockIdx.x] = batch.bins - 1;
  __syncthreads();
  for (std::int64_t bin = thread_index() * each; bin < (thread_index() + 1) * each && bin < batch.bins; ++bin) {
    if (before < wanted && wanted <= before + bins[bin]) batch.last[blockIdx.x] = static_cast<std::uint32_t>(bin);
    before += bins[bin];
  }
}

/// To a list that is as long as it may be, and counts on.
__device__ __forceinline__ void append_candidate(const RanksArgs& batch, std::int64_t query, std::uint32_t position,
                                                 std::int64_t object, unsigned half) {
  if (position < batch.capacity)
    batch.list[query * batch.capacity + position] =
        static_cast<unsigned long long>(half) << 32 | static_cast<unsigned long long>(object);
}

template <int Words, int Each>
__global__ void __launch_bounds__(rank_threads) list_candidates(SampledArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(RankWords, asked, list_queries * Words / 4);
  VICINAL_SHARED(std::uint32_t, limits, list_queries);
  VICINAL_SHARED(std::uint32_t, counts, list_queries);
  VICINAL_SHARED(std::uint32_t, positions, list_queries);
  VICINAL_SHARED(std::uint32_t, listed, list_queries * block_room);
  const std::int64_t first = blockIdx.x / args.splits * (rank_threads * Each), split = blockIdx.x % args.splits;
  std::uint32_t ranks[Each][Words];  // of this thread's objects
#pragma unroll
  for (int e = 0; e < Each; ++e) {
    const std::int64_t object = first + e * rank_threads + thread_index();
#pragma unroll
    for (int w = 0; w < Words; ++w)
      ranks[e][w] = object < batch.count ? batch.objects[w * batch.pitch + object] : all_lanes;  // far from all
  }
  const std::int64_t groups = (batch.query_count + list_queries - 1) / list_queries;
  for (std::int64_t group = split; group < groups; group += args.splits) {
    // Some queries into shared memory, with their limits.
    const std::int64_t first_query = group * list_queries, left = batch.query_count - first_query;
    const int used = static_cast<int>(left < list_queries ? left : list_queries);
    const auto* from = reinterpret_cast<const RankWords*>(batch.queries + first_query * Words);
    for (int i = thread_index(); i < used * Words / 4; i += rank_threads) asked[i] = from[i];
    if (thread_index() < used) {
      limits[thread_index()] = 2 * batch.last[first_query + thread_index()];
      counts[thread_index()] = 0;
    }
    __syncthreads();

    // Objects within a query's limit are kept in shared memory, or listed at once where that is full.
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
        const std::uint32_t position = atomicAdd(&counts[query], 1u);
        const int local = e * rank_threads + thread_index();
        if (position < block_room) {
          listed[query * block_room + static_cast<int>(position)] =
              sums[e] / 2 << 16 | static_cast<std::uint32_t>(local);
        } else {
          append_candidate(batch, first_query + query, atomicAdd(&batch.counts[first_query + query], 1u), first + local,
                           sums[e] / 2);
        }
      }
    }
    __syncthreads();

    // Output: one position in each query's list for all that the block kept.
    if (thread_index() < used) {
      std::uint32_t& count = counts[thread_index()];
      count = count < block_room ? count : block_room;
      positions[thread_index()] = count > 0 ? atomicAdd(&batch.counts[first_query + thread_index()], count) : 0;
    }
    __syncthreads();
    for (int i = thread_index(); i < used * block_room; i += rank_threads) {
      const int query = i / block_room, at = i % block_room;
      if (at >= static_cast<int>(counts[query])) continue;
      append_candidate(batch, first_query + query, positions[query] + static_cast<std::uint32_t>(at),
                       first + (listed[i] & 0xffffu), listed[i] >> 16);
    }
    __syncthreads();
  }
}

/// A Bin is the one of `bins` counters in shared memory in which the
/// wanted-th lies, and how many of it are wanted. All threads get both.
struct Bin {
  std::uint32_t at, wanted;
};
__device__ __forceinline__ Bin bin_of_wanted(const std::uint32_t* bins, std::int64_t count, std::uint32_t wanted,
                                             std::uint32_t* scratch) {
  const std::int64_t each = (count + thread_count() - 1) / thread_count();
  std::uint32_t before = sum_before_share(bins, count, each, scratch);
  for (std::int64_t bin = thread_index() * each; bin < (thread_index() + 1) * each && bin < count; ++bin) {
    if (before < wanted && wanted <= before + bins[bin]) {
      scratch[rank_threads / 32] = static_cast<std::uint32_t>(bin);
      scratch[rank_threads / 32 + 1] = wanted - before;
    }
    before += bins[bin];
  }
  __syncthreads();
  const Bin found{scratch[rank_threads / 32], scratch[rank_threads / 32 + 1]};
  __syncthreads();
  return found;
}

/// Counters of cut_candidates: of scores, then of some bits of numbers.
inline constexpr int number_bits = 11;
inline std::int64_t cut_counters(const RanksArgs& batch) {
  return std::max<std::int64_t>(batch.bins, 1 << number_bits);
}

inline constexpr std::uint32_t most_equals = 1 << number_bits;

/// A block a query.
template <int>
__global__ void __launch_bounds__(rank_threads) cut_candidates(SampledArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, scratch, rank_threads / 32 + 2);
  auto* bins = dynamic_shared<std::uint32_t>();
  const std::int64_t query = blockIdx.x;
  const std::uint32_t count = batch.counts[query];
  if (thread_index() == 0) batch.failed[query] = count < batch.candidates || count > batch.capacity ? 1 : 0;
  if (count < batch.candidates || count > batch.capacity) return;
  const unsigned long long* const list = batch.list + query * batch.capacity;
  const auto start = static_cast<std::uint32_t>(thread_index()), step = static_cast<std::uint32_t>(thread_count());

  // The score of the last candidate, and the first of the numbers that have it, some bits at a time.
  const auto count_where = [&](std::uint32_t of, const auto& bin) {
    for (std::uint32_t i = start; i < of; i += step) bins[i] = 0;
    __syncthreads();
    for (std::uint32_t i = start; i < count; i += step) bin(list[i]);
    __syncthreads();
  };
  count_where(batch.bins, [&](unsigned long long word) { atomicAdd(&bins[word >> 32], 1u); });
  Bin last = bin_of_wanted(bins, batch.bins, static_cast<std::uint32_t>(batch.candidates), scratch);
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
    last = bin_of_wanted(bins, std::int64_t{1} << bits, last.wanted, scratch);
    known = known << bits | last.at;
    unknown -= bits;
    all = bins[last.at] == last.wanted;
    __syncthreads();
  }
  if (thread_index() < 2) scratch[thread_index()] = 0;
  __syncthreads();
  for (std::uint32_t from = 0; from < count; from += step) {
    const std::uint32_t i = from + start;
    const unsigned long long word = i < count ? list[i] : 0;
    const bool equal = few && i < count && word >> 32 == known;
    if (equal) bins[atomicAdd(&scratch[1], 1u)] = static_cast<std::uint32_t>(word);
    const bool taken = i < count && !equal && word >> unknown <= known;
    const unsigned votes = __ballot_sync(all_lanes, taken);
    std::uint32_t position = 0;
    if (lane_index() == 0 && votes != 0) position = atomicAdd(&scratch[0], static_cast<std::uint32_t>(__popc(votes)));
    position = __shfl_sync(all_lanes, position, 0) + static_cast<std::uint32_t>(votes_below(votes));
    if (taken) batch.found[query * batch.candidates + position] = static_cast<std::uint32_t>(word);
  }
  if (!few) return;
  __syncthreads();
  for (std::uint32_t i = start; i < equals; i += step) {
    std::uint32_t before = 0;
    for (std::uint32_t other = 0; other < equals; ++other) before += bins[other] < bins[i] ? 1u : 0u;
    if (before < last.wanted) batch.found[query * batch.candidates + scratch[0] + before] = bins[i];
  }
}

}  // namespace vicinal::cuda
