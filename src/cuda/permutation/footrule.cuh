// Candidates of a permutation index, exactly: the objects whose ranks of the permutants are nearest
// to a query's by Spearman's footrule, by packed differences and a top-c partition, without a table
// of scores. Scores are cheaper to compute three times than to write once. A thread holds an
// object's ranks in registers and takes the queries of its block from shared memory.
//   footrule_histogram:    counts half the scores of each query
//   footrule_threshold:    finds the score of the last candidate, and how many of the equals are taken
//   footrule_strip_counts: counts the objects of each strip that are below it, and at it
//   footrule_prefix_sums:  sums those before each strip
//   footrule_emit:         writes the candidates, ascending, each to its position
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/permutation/args.hpp"
#include "cuda/ptx/differences.cuh"

namespace vicinal::cuda {

/// The queries of block group `group` to shared memory; how many there are.
__device__ __forceinline__ int load_queries(const RanksArgs& batch, std::int64_t group, std::uint32_t* queries) {
  const std::int64_t first = group * rank_queries_at_once;
  const int used = static_cast<int>(batch.query_count - first < rank_queries_at_once ? batch.query_count - first
                                                                                     : rank_queries_at_once);
  for (int i = thread_index(); i < used * batch.words; i += thread_count())
    queries[i] = batch.queries[first * batch.words + i];
  __syncthreads();
  return used;
}

/// Calls use(object, query, half the score) for the objects of strips first, first + step, ...; of lanes without an
/// object too, with an object beyond the count. All lanes of a warp are at the same query.
template <int Words, class Use>
__device__ __forceinline__ void each_score(const RanksArgs& batch, const std::uint32_t* queries, int used,
                                           std::int64_t first, std::int64_t step, const Use& use) {
  for (std::int64_t strip = first; strip < batch.strips; strip += step) {
    for (int i = 0; i < strip_objects; i += 32) {
      const std::int64_t object = strip * strip_objects + i + lane_index();
      unsigned ranks[Words];
#pragma unroll
      for (int w = 0; w < Words; ++w) ranks[w] = object < batch.count ? batch.objects[w * batch.pitch + object] : 0u;
      for (int query = 0; query < used; ++query) {
        unsigned sum = 0;
#pragma unroll
        for (int w = 0; w < Words; ++w) sum = add_differences(ranks[w], queries[query * Words + w], sum);
        use(strip, object, query, sum / 2);
      }
    }
  }
}

/// Blocks: `parts` for each group of queries.
struct FootruleArgs {
  RanksArgs batch;
  std::int64_t parts;
};
/// Dynamic shared memory: bins counters for each query of a group.
template <int Words>
__global__ void footrule_histogram(FootruleArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, queries, rank_queries_at_once * most_rank_words);
  std::uint32_t* const counts = dynamic_shared<std::uint32_t>();
  const std::int64_t group = blockIdx.x / args.parts, part = blockIdx.x % args.parts;
  const std::uint32_t all = rank_queries_at_once * batch.bins;
  for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) counts[i] = 0;
  const int used = load_queries(batch, group, queries);
  const int warps = thread_count() / 32;
  each_score<Words>(batch, queries, used, part * warps + warp_index(), args.parts * warps,
                    [&](std::int64_t, std::int64_t object, int query, unsigned half) {
                      if (object < batch.count)
                        atomicAdd(&counts[static_cast<std::uint32_t>(query) * batch.bins + half], 1u);
                    });
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < static_cast<std::uint32_t>(used) * batch.bins; i += blockDim.x)
    if (counts[i] != 0) atomicAdd(&batch.histogram[group * rank_queries_at_once * batch.bins + i], counts[i]);
}

/// The sum of all numbers before this thread's equal share of `count`.
__device__ __forceinline__ std::uint32_t sum_before_share(const std::uint32_t* numbers, std::int64_t count,
                                                          std::int64_t share, std::uint32_t* scratch) {
  std::uint32_t sum = 0, total;
  for (std::int64_t i = thread_index() * share; i < (thread_index() + 1) * share && i < count; ++i) sum += numbers[i];
  return block_sum_before(sum, total, scratch);
}

/// A block a query.
template <int>
__global__ void footrule_threshold(RanksArgs batch) {
  VICINAL_SHARED(std::uint32_t, scratch, rank_threads / 32);
  const std::uint32_t* const bins = batch.histogram + static_cast<std::int64_t>(blockIdx.x) * batch.bins;
  const auto wanted = static_cast<std::uint32_t>(batch.candidates);
  const std::int64_t share = (static_cast<std::int64_t>(batch.bins) + thread_count() - 1) / thread_count();
  std::uint32_t before = sum_before_share(bins, batch.bins, share, scratch);
  for (std::int64_t bin = thread_index() * share; bin < (thread_index() + 1) * share && bin < batch.bins; ++bin) {
    if (before < wanted && wanted <= before + bins[bin]) {
      batch.last[blockIdx.x] = static_cast<std::uint32_t>(bin);
      batch.equal_taken[blockIdx.x] = wanted - before;
    }
    before += bins[bin];
  }
}

template <int Words>
__global__ void footrule_strip_counts(FootruleArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, queries, rank_queries_at_once * most_rank_words);
  VICINAL_SHARED(std::uint32_t, last, rank_queries_at_once);
  const std::int64_t group = blockIdx.x / args.parts, part = blockIdx.x % args.parts, strips = batch.strips;
  const std::int64_t first_query = group * rank_queries_at_once;
  if (threadIdx.x < rank_queries_at_once && first_query + threadIdx.x < batch.query_count)
    last[threadIdx.x] = batch.last[first_query + threadIdx.x];
  const int used = load_queries(batch, group, queries);
  const int warps = thread_count() / 32;
  each_score<Words>(batch, queries, used, part * warps + warp_index(), args.parts * warps,
                    [&](std::int64_t strip, std::int64_t object, int query, unsigned half) {
                      const bool present = object < batch.count;
                      const unsigned below = __ballot_sync(all_lanes, present && half < last[query]);
                      const unsigned equal = __ballot_sync(all_lanes, present && half == last[query]);
                      if (lane_index() != 0) return;
                      const std::int64_t at = (first_query + query) * strips + strip;
                      batch.below[at] += static_cast<std::uint32_t>(__popc(below));
                      batch.equal[at] += static_cast<std::uint32_t>(__popc(equal));
                    });
}

/// A block a query: counts become counts of what lies before.
template <int>
__global__ void footrule_prefix_sums(RanksArgs batch) {
  VICINAL_SHARED(std::uint32_t, scratch, rank_threads / 32);
  const std::int64_t strips = batch.strips, share = (strips + thread_count() - 1) / thread_count();
  for (std::uint32_t* const all : {batch.below, batch.equal}) {
    std::uint32_t* const numbers = all + static_cast<std::int64_t>(blockIdx.x) * strips;
    std::uint32_t before = sum_before_share(numbers, strips, share, scratch);
    for (std::int64_t i = thread_index() * share; i < (thread_index() + 1) * share && i < strips; ++i) {
      const std::uint32_t here = numbers[i];
      numbers[i] = before;
      before += here;
    }
    __syncthreads();
  }
}

template <int Words>
__global__ void footrule_emit(FootruleArgs args) {
  const RanksArgs& batch = args.batch;
  VICINAL_SHARED(std::uint32_t, queries, rank_queries_at_once * most_rank_words);
  VICINAL_SHARED(std::uint32_t, last, rank_queries_at_once);
  VICINAL_SHARED(std::uint32_t, taken, rank_queries_at_once);
  const std::int64_t group = blockIdx.x / args.parts, part = blockIdx.x % args.parts, strips = batch.strips;
  const std::int64_t first_query = group * rank_queries_at_once;
  if (threadIdx.x < rank_queries_at_once && first_query + threadIdx.x < batch.query_count) {
    last[threadIdx.x] = batch.last[first_query + threadIdx.x];
    taken[threadIdx.x] = batch.equal_taken[first_query + threadIdx.x];
  }
  const int used = load_queries(batch, group, queries);
  const int warps = thread_count() / 32;
  each_score<Words>(batch, queries, used, part * warps + warp_index(), args.parts * warps,
                    [&](std::int64_t strip, std::int64_t object, int query, unsigned half) {
                      const bool present = object < batch.count;
                      const unsigned below = __ballot_sync(all_lanes, present && half < last[query]);
                      const unsigned equal = __ballot_sync(all_lanes, present && half == last[query]);
                      if ((below | equal) == 0) return;
                      // What lies before the strip, as far as this warp has come in it, is kept where the count was.
                      const std::int64_t at = (first_query + query) * strips + strip;
                      const std::uint32_t below_before = batch.below[at], equal_before = batch.equal[at];
                      __syncwarp();
                      const std::uint32_t b = below_before + static_cast<std::uint32_t>(votes_below(below));
                      const std::uint32_t e = equal_before + static_cast<std::uint32_t>(votes_below(equal));
                      const bool mine = present && (half < last[query] || (half == last[query] && e < taken[query]));
                      if (mine) {
                        const std::uint32_t position = b + (e < taken[query] ? e : taken[query]);
                        batch.found[(first_query + query) * batch.candidates + position] =
                            static_cast<std::uint32_t>(object);
                      }
                      if (lane_index() == 0) {
                        batch.below[at] = below_before + static_cast<std::uint32_t>(__popc(below));
                        batch.equal[at] = equal_before + static_cast<std::uint32_t>(__popc(equal));
                      }
                      __syncwarp();
                    });
}

}  // namespace vicinal::cuda
