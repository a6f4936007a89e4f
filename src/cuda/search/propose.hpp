// A device proposes how it would search vectors. No answer depends on anything here; its cost model is seconds.hpp.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend/search.hpp"
#include "core/bound.hpp"
#include "core/text.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/seconds.hpp"

namespace vicinal::cuda {

inline constexpr std::int64_t query_multiple = 32;         // queries of a warp
inline constexpr std::int64_t least_filtered_rows = 4096;  // so many are ranked at once
inline constexpr std::int64_t long_list = 2048,
                              least_rows_a_neighbor =
                                  24;  // of longer lists, ranking every pair is faster below so many rows for each
inline constexpr std::int64_t most_float_dims = std::int64_t{1} << 20;  // sums of floats prove something up to here

/// It tells whether every pair is ranked before rows are packed for the cheapest filter.
inline bool ranked_sooner(const ProblemShape& problem) {
  if (problem.prepared || problem.range) return false;
  SearchPlan plan;
  plan.passes = 1;
  const auto seconds = [&](Precision precision) {
    plan.cascade = {precision_name(precision)};
    return search_seconds(plan, problem);
  };
  return seconds(Precision::canonical) < seconds(filter_precisions[0].precision);
}

/// It returns the filters of a search, cheapest first; none where every pair is ranked.
inline std::vector<Precision> wanted_filters(const ProblemShape& problem, const Execution& run, Proof proof,
                                             const std::string& device) {
  if (ranks_every_pair(problem, run, proof)) return {};
  if (names_transform(run.filter))
    fail(ErrorCode::unsupported, cat("filter ", run.filter, " does not run on ", device));
  const std::int64_t n = problem.corpus.rows, k = problem.k;
  const bool few = n < least_filtered_rows || k * 3 >= n;
  const bool many_asked = k > long_list && k * least_rows_a_neighbor > n;
  if (problem.corpus.cols > most_float_dims || k > most_filtered_k ||
      (run.filter == "auto" && (many_asked || (few && !problem.prepared) || ranked_sooner(problem))))
    return {};
  const Sum sum = filter_sum_of(problem.metric);
  bool forced = has_filter(precision_of(run.filter));  // then no cheaper one is wanted
  std::vector<Precision> wanted;
  for (const FilterPrecision& row : filter_precisions) {
    forced = forced && run.filter != precision_name(row.precision);
    if (!forced && has_filter(row.precision) && row.takes(sum, problem.corpus.cols)) wanted.push_back(row.precision);
  }
  return wanted;
}

/// Rows of the host in a chunk that the bus brings while another is searched: an eighth of the corpus, of 32 to 128
/// MiB, so that the first one is soon there and the last one soon searched; 0 where the rows are not the host's, or
/// lists are long beside a chunk.
inline std::int64_t arriving_rows(const ProblemShape& problem) {
  constexpr std::int64_t least = std::int64_t{32} << 20, most = std::int64_t{128} << 20;
  const std::int64_t row = problem.corpus.cols * static_cast<std::int64_t>(dtype_size(problem.corpus.dtype));
  if (problem.prepared || problem.corpus.on_device || row == 0) return 0;
  const std::int64_t rows = std::clamp(problem.corpus.rows * row / 8, least, most) / row;
  return rows >= 64 * problem.k && rows >= least_filtered_rows ? rows : 0;
}

/// It returns how many rows a graph has at least whose tiles serve both sides: of fewer, ranking what passes takes longer
/// than products save. Of long lists more passes, and products of more than a slab of columns are more to save.
inline std::int64_t least_symmetric_rows(std::int64_t cols, std::int64_t k) {
  constexpr std::int64_t least = 3 << 15, usual_k = 32, slab = 128;
  return std::max(least, least * k * slab / (usual_k * std::max(cols, slab)));
}
/// Whether tiles of a graph may serve both of their sides: of rows that all may answer, by the filter that tests groups
/// of them, where thresholds are guessed.
inline bool proposes_symmetric(const ProblemShape& problem, const Execution& run, Precision first) {
  const std::int64_t rows = problem.corpus.rows, cols = problem.corpus.cols, tiles = divide_up(rows, tile_rows);
  if (!problem.symmetric || problem.range || problem.filtered || run.instruction_set != "wgmma" ||
      rows < least_symmetric_rows(cols, problem.k) || !serves_both_sides(first, filter_sum_of(problem.metric), cols))
    return false;
  const SpeculationRule rule;
  return symmetric_speculation(speculation_of(rule, rows, tiles, cols, problem.k, true, 4096), rule, tiles, cols,
                               problem.k, problem.k + 1)
      .serves_both();
}

/// SearchBackend::propose of a device. refusal(precision): why the device has no filter of it for these rows; empty
/// where it has. A note says why the search does not begin with the precision that it should.
template <class Refusal>
Proposal propose(const std::string& device, std::int64_t ready_bytes, const ProblemShape& problem, const Execution& run,
                 Proof proof, const Refusal& refusal) {
  Proposal proposal;
  proposal.multiples = {.queries = query_multiple, .rows = tile_rows};
  proposal.ready_bytes = ready_bytes;
  proposal.arriving_rows = arriving_rows(problem);
  const std::vector<Precision> wanted = wanted_filters(problem, run, proof, device);
  for (const Precision precision : wanted) {
    std::string why = refusal(precision);
    if (why.empty() && problem.has_rows_of(precision)) proposal.cascade.push_back(precision_name(precision));
    if (!why.empty() && precision == wanted.front()) proposal.notes.push_back(std::move(why));
  }
  proposal.set_slots(problem, !proposal.cascade.empty());
  if (!proposal.cascade.empty() && proposes_symmetric(problem, run, precision_of(proposal.cascade.front())))
    proposal.symmetric_tiles = 1;
  proposal.cascade.push_back(precision_name(Precision::canonical));
  return proposal;
}

}  // namespace vicinal::cuda
