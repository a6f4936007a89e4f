// The order in which the kernels of the permutation index run, over any launcher: the runtime's, or the emulator's.
#pragma once
#include "cuda/permutation/near.cuh"

namespace vicinal::cuda {

/// Memory of histogram, below and equal holds zeros. blocks: that the device runs at once, about.
template <int Words, class Launch>
void run_footrule(const RanksArgs& job, std::int64_t blocks, Launch& launch) {
  constexpr int warps = rank_threads / 32;
  const std::int64_t most = (job.strips + warps - 1) / warps;
  const std::int64_t groups = (job.query_count + rank_queries_at_once - 1) / rank_queries_at_once;
  const std::int64_t parts = std::clamp<std::int64_t>(blocks / groups, 1, most);
  const FootruleArgs args{job, parts};
  const std::int64_t grid = groups * parts, counters = rank_queries_at_once * std::int64_t{job.bins} * 4;
  launch(grid, rank_threads, counters, footrule_count<Words>, args);
  launch(job.query_count, rank_threads, 0, footrule_cut<0>, job);
  launch(grid, rank_threads, 0, footrule_strips<Words>, args);
  launch(job.query_count, rank_threads, 0, footrule_places<0>, job);
  launch(grid, rank_threads, 0, footrule_emit<Words>, args);
}

/// A capacity that lists hardly ever exceed.
inline std::int64_t near_capacity(std::int64_t candidates, std::int64_t count) {
  return std::min(count, 2 * candidates + 4096);
}

/// Memory of histogram and counts holds zeros. multiprocessors: of the device. sample: objects that tell the limits.
template <int Words, int Each, class Launch>
void run_near(const RanksArgs& job, std::int64_t multiprocessors, std::int64_t sample, Launch& launch) {
  NearArgs args{.job = job};
  const std::int64_t lines = (job.count + 31) / 32;
  args.spacing = std::max<std::int64_t>(1, lines * 32 / sample);
  args.lines = (lines + args.spacing - 1) / args.spacing;
  args.sampled = std::min(args.lines * 32, job.count - (args.lines - 1) * (args.spacing - 1) * 32);
  constexpr int warps = rank_threads / 32;
  const std::int64_t groups = (job.query_count + rank_queries_at_once - 1) / rank_queries_at_once;
  args.parts = std::clamp<std::int64_t>(8 * multiprocessors / groups, 1, (args.lines + warps - 1) / warps);
  const std::int64_t pieces = (job.count + rank_threads * Each - 1) / (rank_threads * Each);
  const std::int64_t chunks = (job.query_count + near_queries - 1) / near_queries;
  args.splits = std::clamp<std::int64_t>(64 * multiprocessors / pieces, 1, chunks);
  launch(groups * args.parts, rank_threads, rank_queries_at_once * std::int64_t{job.bins} * 4, near_count<Words>, args);
  launch(job.query_count, rank_threads, 0, near_limits<0>, args);
  launch(pieces * args.splits, rank_threads, 0, near_list<Words, Each>, args);
  launch(job.query_count, rank_threads, cut_counters(job) * 4, near_cut<0>, args);
}

/// The kernels for the words of a job, which padded_rank_words tells.
template <class Launch>
void run_near(const RanksArgs& job, std::int64_t multiprocessors, std::int64_t sample, Launch& launch) {
  if (job.words == 4) run_near<4, 4>(job, multiprocessors, sample, launch);
  else if (job.words == 8) run_near<8, 4>(job, multiprocessors, sample, launch);
  else if (job.words == 16) run_near<16, 3>(job, multiprocessors, sample, launch);
  else run_near<32, 2>(job, multiprocessors, sample, launch);
}
template <class Launch>
void run_footrule(const RanksArgs& job, std::int64_t blocks, Launch& launch) {
  if (job.words == 4) run_footrule<4>(job, blocks, launch);
  else if (job.words == 8) run_footrule<8>(job, blocks, launch);
  else if (job.words == 16) run_footrule<16>(job, blocks, launch);
  else run_footrule<32>(job, blocks, launch);
}

}  // namespace vicinal::cuda
