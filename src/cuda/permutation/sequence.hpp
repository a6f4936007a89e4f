// The sequence queues the kernels of the permutation index in their
// order, over any launcher: the runtime's, or the emulator's.
#pragma once
#include "core/divide.hpp"
#include "cuda/permutation/sampled.cuh"

namespace vicinal::cuda {

/// Memory of histogram, below and equal holds zeros. blocks: that the device runs at once, about.
template <int Words, class Launch>
void run_footrule(const RanksArgs& batch, std::int64_t blocks, Launch& launch) {
  constexpr int warps = rank_threads / 32;
  const std::int64_t most = divide_up(batch.strips, warps);
  const std::int64_t groups = divide_up(batch.query_count, rank_queries_at_once);
  const std::int64_t parts = std::clamp<std::int64_t>(blocks / groups, 1, most);
  const FootruleArgs args{batch, parts};
  const std::int64_t grid = groups * parts, counters = rank_queries_at_once * std::int64_t{batch.bins} * 4;
  launch(grid, rank_threads, counters, footrule_histogram<Words>, args);
  launch(batch.query_count, rank_threads, 0, footrule_threshold<0>, batch);
  launch(grid, rank_threads, 0, footrule_strip_counts<Words>, args);
  launch(batch.query_count, rank_threads, 0, footrule_prefix_sums<0>, batch);
  launch(grid, rank_threads, 0, footrule_emit<Words>, args);
}

/// A capacity that lists hardly ever exceed.
inline std::int64_t list_capacity(std::int64_t candidates, std::int64_t count) {
  return std::min(count, 2 * candidates + 4096);
}

/// Memory of histogram and counts holds zeros. multiprocessors: of the device. sample: objects that tell the limits.
template <int Words, int Each, class Launch>
void run_sampled(const RanksArgs& batch, std::int64_t multiprocessors, std::int64_t sample, Launch& launch) {
  SampledArgs args{.batch = batch};
  const std::int64_t lines = (batch.count + 31) / 32;
  args.spacing = std::max<std::int64_t>(1, lines * 32 / sample);
  args.lines = divide_up(lines, args.spacing);
  args.sampled = std::min(args.lines * 32, batch.count - (args.lines - 1) * (args.spacing - 1) * 32);
  constexpr int warps = rank_threads / 32;
  const std::int64_t groups = divide_up(batch.query_count, rank_queries_at_once);
  args.parts = std::clamp<std::int64_t>(8 * multiprocessors / groups, 1, divide_up(args.lines, warps));
  const std::int64_t pieces = divide_up(batch.count, rank_threads * Each);
  const std::int64_t chunks = divide_up(batch.query_count, list_queries);
  args.splits = std::clamp<std::int64_t>(64 * multiprocessors / pieces, 1, chunks);
  launch(groups * args.parts, rank_threads, rank_queries_at_once * std::int64_t{batch.bins} * 4, sample_scores<Words>,
         args);
  launch(batch.query_count, rank_threads, 0, sample_thresholds<0>, args);
  launch(pieces * args.splits, rank_threads, 0, list_candidates<Words, Each>, args);
  launch(batch.query_count, rank_threads, cut_counters(batch) * 4, cut_candidates<0>, args);
}

/// The kernels for the words of a batch, which padded_rank_words tells.
template <class Launch>
void run_sampled(const RanksArgs& batch, std::int64_t multiprocessors, std::int64_t sample, Launch& launch) {
  if (batch.words == 4) run_sampled<4, 4>(batch, multiprocessors, sample, launch);
  else if (batch.words == 8) run_sampled<8, 4>(batch, multiprocessors, sample, launch);
  else if (batch.words == 16) run_sampled<16, 3>(batch, multiprocessors, sample, launch);
  else run_sampled<32, 2>(batch, multiprocessors, sample, launch);
}
template <class Launch>
void run_footrule(const RanksArgs& batch, std::int64_t blocks, Launch& launch) {
  if (batch.words == 4) run_footrule<4>(batch, blocks, launch);
  else if (batch.words == 8) run_footrule<8>(batch, blocks, launch);
  else if (batch.words == 16) run_footrule<16>(batch, blocks, launch);
  else run_footrule<32>(batch, blocks, launch);
}

}  // namespace vicinal::cuda
