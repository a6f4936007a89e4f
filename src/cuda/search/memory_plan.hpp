// How many bytes of the device a session takes, and how many tiles, slots and candidates that is for.
#pragma once
#include <algorithm>

#include "backend/search.hpp"
#include "core/divide.hpp"
#include "core/text.hpp"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/core/prepared.hpp"
#include "cuda/search/filter/kernel.hpp"
#include "cuda/search/filter/speculate.hpp"
#include "cuda/search/output/underflow.cuh"
#include "cuda/search/rerank/exhaustive.cuh"
#include "cuda/search/rerank/rerank_long.cuh"

namespace vicinal::cuda {

inline std::int64_t slots_of(const Plan& plan) {
  return std::max<std::int64_t>(plan.candidate_slots >= 256 ? 4096 : 0, 4 * plan.candidate_slots);
}

/// How many times its even share of a block's candidates a warp's segment
/// holds: in a block that is not full some warps have no queries.
inline std::int64_t idle_share(std::int64_t queries) {
  return queries > block_queries / 2 ? 1 : block_queries / 32 / ((queries + 31) / 32);
}

/// Tiles that seed the thresholds of `want` rows each: eight groups of
/// rows for each of them, if that is no more than an eighth of all.
inline std::int64_t sample_tiles(std::int64_t tiles, std::int64_t want) {
  const std::int64_t fair = 8 * want / groups_a_tile + 1, least = 4 * want / groups_a_tile + 1;
  return std::min(tiles, std::max(tiles / 32, std::min(fair, std::max(tiles / 8, least))));
}

/// Whether thresholds come from a sample of the tiles before any
/// are searched; else all pairs of the first tiles come through.
inline bool samples_first(std::int64_t tiles, std::int64_t want, std::int64_t capacity) {
  return sample_tiles(tiles, want) * groups_a_tile >= 2 * want && capacity / tile_rows < tiles;
}
/// Candidates that the segments of all warps have room for together; workers: warps
/// that have one. speculates: all tiles pass at once. Groups of rows are fewer than
/// rows where thresholds are guessed twice, which those of few queries are not.
inline std::int64_t candidate_entries(std::int64_t batch, std::int64_t capacity, std::int64_t workers,
                                      bool speculates = false, bool groups = false) {
  const bool more = speculates && !(groups && batch > block_queries);
  return std::max(batch * (more ? capacity / 4 * 3 : capacity / 2) * idle_share(batch), 1024 * workers);
}

/// In how many launches each of the two parts of a graph passes whose tiles serve both sides; and the same as above of
/// one of them.
inline std::int64_t symmetric_launches(std::int64_t rows) { return rows <= 1 << 17 ? 1 : 4; }
inline std::int64_t symmetric_entries(std::int64_t rows, std::int64_t passing, std::int64_t workers) {
  const std::int64_t launches = symmetric_launches(rows);
  return std::max(rows * (launches == 1 ? passing / 4 : passing / (2 * launches)), 1024 * workers);
}
inline constexpr std::int64_t symmetric_guesses = 65536;  // queries whose thresholds are guessed at a time there

/// Kernels count a launch's candidates in 32 bits: as many of them take more memory than devices have.
inline void check_candidates(std::int64_t candidates) {
  if (candidates > std::int64_t{UINT32_MAX})
    fail(ErrorCode::out_of_memory, cat("room for ", candidates, " candidates of a filter, where 32 bits count ",
                                       UINT32_MAX, " at most; search fewer queries at a time"));
}

/// Whether candidates of such a search may be groups, as kernels of wgmma have them where all rows may answer. With
/// bitmaps and first and last rows they are not; the plan does not know these and counts too much.
inline bool finds_groups(const Plan& plan, const ProblemShape& problem, Precision precision) {
  return precision == Precision::int8 && plan.instruction_set == "wgmma" && problem.filter_bytes == 0 &&
         tests_groups(plan.query_batch, problem.corpus.cols) && has_products(filter_sum_of(problem.metric));
}

/// How a plan's searches speculate of so many tiles. symmetric: they may serve both of their sides.
inline Speculation planned_speculation(const SpeculationRule& rule, const Plan& plan, std::int64_t tiles,
                                       std::int64_t dims, std::int64_t k, bool without_self, bool symmetric) {
  const Speculation one_sided = speculation_of(rule, plan.query_batch, tiles, dims, k, without_self, slots_of(plan));
  return symmetric ? symmetric_speculation(one_sided, rule, tiles, dims, k, k + (without_self ? 1 : 0)) : one_sided;
}

/// Queries of a speculative batch that are searched again at a time, with `slots` each in the memory of those that all
/// had: whole blocks, or of fewer whole warps; a warp at least.
inline std::int64_t repeated_batch(std::int64_t batch, std::int64_t slots, const Speculation& speculation) {
  constexpr std::int64_t most_of_graphs = 16384;  // whose batch is all rows
  if (speculation.serves_both()) batch = std::min(batch, most_of_graphs * slots / speculation.slots);
  constexpr std::int64_t warp = 32;
  const std::int64_t fit = batch * speculation.slots / slots, step = fit < block_queries ? warp : block_queries;
  return std::min(batch, std::max(warp, fit / step * step));
}
/// Candidates that a speculative session has room for: of a batch and a smaller last one by guessed thresholds, and of
/// queries that are searched again. groups: these are what its filter finds. workers: as above.
inline std::int64_t speculative_entries(std::int64_t batch, std::int64_t slots, const Speculation& speculation,
                                        bool groups, std::int64_t workers) {
  std::int64_t entries = candidate_entries(repeated_batch(batch, slots, speculation), slots, workers);
  if (speculation.serves_both()) return std::max(entries, symmetric_entries(batch, speculation.passing, workers));
  for (const std::int64_t some : {batch, std::min<std::int64_t>(batch, block_queries)})
    entries = std::max(entries, candidate_entries(some, speculation.slots, workers, true, groups));
  return entries;
}
/// Slots of a whole batch.
inline std::int64_t batch_slots(std::int64_t batch, std::int64_t slots, const Speculation& speculation) {
  if (!speculation.active()) return batch * slots;
  return std::max(batch * speculation.slots, repeated_batch(batch, slots, speculation) * slots);
}

/// Everything that a session holds on the plan's first precision but a prepared corpus. selecting: what selections of
/// the canonical precision work in.
inline std::int64_t session_bytes(const Plan& plan, const ProblemShape& problem, std::int64_t selecting,
                                  int multiprocessors, std::int64_t packed_rows = most_packed_rows) {
  const Precision precision = precision_of(plan.cascade.front());
  const bool wide = wide_words(plan.distance_type, problem.corpus.rows, packed_rows);
  const std::int64_t batch = plan.query_batch, k = problem.k, rows = std::min(plan.corpus_chunk, problem.corpus.rows);
  const bool values = !has_filter(precision) ||
                      keeps_values(problem.metric, problem.corpus.dtype, problem.queries.dtype, problem.corpus.cols);
  std::int64_t total = matrix_bytes(batch, problem.queries, problem.metric, precision, true, values) +
                       batch * (k * word_size(wide) + 128) + 2 * problem.filter_bytes;
  total += std::int64_t{2} << 20;  // that small arrays are pieces of (Runtime)
  if (!problem.queries.on_device) total += batch * k * static_cast<std::int64_t>(8 + distance_size(plan.distance_type));
  if (!problem.prepared || !filter_precision(precision).prepared)
    total += matrix_bytes(rows, problem.corpus, problem.metric, precision, false) +
             (rows < problem.corpus.rows ? host_row_bytes(rows, problem.corpus) : 0);  // and the rows that come next
  if (!problem.prepared && plan.distance_type == DistanceType::f32 && descending(problem.metric))
    total += std::max(underflowed_room, k) * underflowed_bytes;
  if (!has_filter(precision)) return total + exhaustive_bytes(batch, k, rows, plan.distance_type, wide) + selecting;
  const std::int64_t tiles = divide_up(rows, tile_rows), slots = slots_of(plan),
                     warps = std::int64_t{multiprocessors} * most_writing_warps;
  const bool sampled = samples_first(tiles, k + 1, slots);
  // Of proved thresholds; where they are guessed first, of the queries that are searched again.
  Speculation speculation;
  if (guesses(precision, filter_sum_of(problem.metric)) && problem.filter_bytes == 0 &&
      at_once(plan, problem.corpus.rows, problem.prepared))
    speculation = planned_speculation(SpeculationRule(), plan, tiles, problem.corpus.cols, k, true, plan.symmetric);
  const std::int64_t proved = speculation.active() ? repeated_batch(batch, slots, speculation) : batch;
  std::int64_t nearest = sampled ? padded_to_blocks(proved) * sample_tiles(tiles, k + 1) * groups_a_tile : 0;
  const bool groups = finds_groups(plan, problem, precision);
  const std::int64_t candidates = speculation.active()
                                      ? speculative_entries(batch, slots, speculation, groups, warps)
                                      : std::max(candidate_entries(batch, slots, warps),
                                                 candidate_entries(std::min<std::int64_t>(batch, 32), slots, warps));
  std::int64_t found = candidates * static_cast<std::int64_t>(groups ? sizeof(GroupCandidate) : sizeof(Candidate));
  // All pairs of the first part; the last unit of work of each block may be a small one, and blocks of another size
  // (FilterBlock) have up to a tile of queries more.
  if (!sampled)
    found = std::max(found, 2 * (padded_to_blocks(proved) + tile_rows) *
                                std::min(tiles, std::max<std::int64_t>(1, slots / tile_rows)) * tile_rows *
                                static_cast<std::int64_t>(sizeof(Candidate)));
  if (speculation.active()) {
    const std::int64_t guessed = speculation.serves_both() ? std::min(batch, symmetric_guesses) : batch;
    nearest = std::max(nearest, padded_to_blocks(guessed) * speculation.sample(batch).tiles * groups_a_tile);
    if (speculation.serves_both())  // rows in another order, and thresholds
      total +=
          (padded_to_blocks(rows) + tile_rows * 4) * (filter_width(precision, problem.corpus.cols) + 64) + rows * 21;
    total += batch * problem.queries.cols * static_cast<std::int64_t>(dtype_size(problem.queries.dtype)) +
             batch * 8;  // the rows of those that are searched again
  }
  const std::int64_t all = batch_slots(batch, slots, speculation);
  return total + nearest * 4 + long_bytes(k, batch, all, wide) + all * static_cast<std::int64_t>(sizeof(Slot)) + found;
}

}  // namespace vicinal::cuda
