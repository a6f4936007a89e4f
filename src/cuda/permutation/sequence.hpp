// The order in which the kernels of the permutation index run, over any launcher: the runtime's, or the emulator's.
#pragma once
#include "cuda/permutation/footrule.cuh"

namespace vicinal::cuda {

/// Memory of histogram, below and equal holds zeros. blocks: that the device runs at once, about.
template <int Words, class Launch>
void run_footrule(const RanksJob& job, std::int64_t blocks, Launch& launch) {
  constexpr int warps = rank_threads / 32;
  const std::int64_t most = (job.strips + warps - 1) / warps;
  const std::int64_t groups = (job.query_count + rank_queries_at_once - 1) / rank_queries_at_once;
  const std::int64_t parts = std::clamp<std::int64_t>(blocks / groups, 1, most);
  const FootruleArgs args{job, parts};
  const std::int64_t grid = groups * parts, counters = rank_queries_at_once * std::int64_t{job.bins} * 4;
  launch(grid, rank_threads, counters, footrule_count<Words>, args);
  launch(job.query_count, rank_threads, 0, footrule_cut<Words>, job);
  launch(grid, rank_threads, 0, footrule_strips<Words>, args);
  launch(job.query_count, rank_threads, 0, footrule_places<Words>, job);
  launch(grid, rank_threads, 0, footrule_emit<Words>, args);
}

/// job.words <= most_rank_words.
template <class Launch>
void run_footrule(const RanksJob& job, std::int64_t blocks, Launch& launch) {
  if (job.words <= 4) run_footrule<4>(job, blocks, launch);
  else if (job.words <= 8) run_footrule<8>(job, blocks, launch);
  else if (job.words <= 16) run_footrule<16>(job, blocks, launch);
  else run_footrule<32>(job, blocks, launch);
}

}  // namespace vicinal::cuda
