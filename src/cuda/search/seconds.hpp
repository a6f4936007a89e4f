// What a search on a device will take: rates of one H200, for `--plan`. Pure arithmetic;
// no answer depends on it. bench/plan_cuda.py holds them against what was measured. They
// are of rows that the first precision certifies: of others the data decide.
#pragma once
#include <algorithm>
#include <cmath>

#include "backend/search.hpp"
#include "core/divide.hpp"
#include "cuda/search/core/args.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/filter/speculate.hpp"
#include "cuda/search/fused/shape.hpp"

namespace vicinal::cuda {

/// Rates of one H200, 2026-11-22, bench/results/plan_cuda.csv; what prepares and reads rows, 2026-11-23. Memory of the
/// host was copied at 7.3e9 to 9.4e9 bytes a second from one loan to the next.
struct H200Rates {
  /// A call: launches, and what comes back.
  double call_s = 0.09e-3;
  /// Each further batch of queries.
  double batch_s = 0.3e-3;
  /// A selection from all pairs.
  double scan_s = 0.01e-3;

  /// To or from memory of the host that is not pinned, by the driver.
  double host_bytes_per_s = 8.2e9;
  /// Of results in memory of the host, with its pages and what is counted and certified there: 3.4e9 to 4.4e9 on nine of
  /// ten hosts of an H200, 2.5e9 on the other (2026-11-22 to 29, plan_cuda.csv: what k = 1000 takes beyond k = 10 with
  /// rows of the host), and less on one of two H100 (several_gpus.csv).
  double result_bytes_per_s = 3.5e9;
  /// By the feed (cuda/device/feed.hpp).
  double fed_bytes_per_s = 5.1e10;
  /// What it takes besides, of 67 MB to 1.3 GB of rows; 2026-11-27 and 28, plan_cuda.csv. Of less it was not measured.
  double feed_s = 2.6e-3;
  /// From so many on, the feed brings them.
  double least_fed_bytes = 8388608;
  /// To all devices at once: 2 H100 of one host with 32 cores, of
  /// which some copy 5.5e10 and some 8.4e10; several_gpus.csv.
  double shared_bytes_per_s = 7.2e10;
  /// The same from pinned memory.
  double shared_pinned_bytes_per_s = 9.5e10;
  /// A chunk of a corpus that arrives while it is searched.
  double chunk_s = 0.1e-3;
  /// A query of each such chunk.
  double chunk_query_s = 1e-8;

  /// Preparing rows for this search at all.
  double prepare_s = 0.2e-3;
  /// A row that is prepared.
  double prepared_row_s = 1.5e-10;
  /// An element of rows that are packed as tiles.
  double packed_element_s = 2e-12;
  /// An element of rows of bytes that stay whole.
  double packed_byte_s = 1.9e-12;
  /// An element of rows that are packed as lines.
  double packed_line_element_s = 6e-12;
  /// An element of rows whose norms are taken.
  double measured_element_s = 1.8e-12;
  /// By kernels that read rows, at most.
  double read_bytes_per_s = 3.8e12;

  /// A pair and column of a filter in single precision.
  double difference_s = 1.2e-13;
  /// A pair and column of a filter in bytes, of magnitudes.
  double byte_difference_s = 2.4e-14;
  /// A pair and column of a filter in bytes, of the largest of them.
  double largest_byte_s = 4.5e-14;

  // Kernels around a filter in bytes, which few queries do not fill the device with. 2026-11-28, plan_cuda.csv.
  /// Queries that fill it.
  double filling_queries = 1024;
  /// One of the queries up to these, where thresholds are guessed.
  double underfilled_query_s = 5e-8;
  /// The same of proved thresholds and rows of several slabs, in rounds of which each ranks what passed before the next.
  double proved_underfilled_query_s = 3e-7;
  /// The most that this takes, of the seconds of the filter: few rows pass in few rounds.
  double proved_underfilled_share = 1.0 / 3;
  /// A query and root of k: what passes is reranked.
  double reranked_s = 2.1e-8;
  /// The same in lists of global memory.
  double reranked_long_s = 2.4e-8;
  /// A query, neighbour and column: what is ranked of it.
  double neighbor_element_s = 4.5e-12;

  /// Rounds of proved thresholds, of each of which kernels wait for the one before. 2026-11-29, plan_cuda.csv.
  double proved_rounds_s = 5e-5;

  // What a sample of the rows says (pilot.hpp). 2026-11-29, knn_cuda.csv.
  /// A query and byte of a row that bytes leave to be ranked, beyond those of evenly spread rows.
  double left_byte_s = 1.5e-12;
  /// Those of evenly spread rows are so many of each neighbour.
  double usual_left = 5;
  /// A row of a corpus in which equal rows are marked.
  double marked_row_s = 1.2e-9;

  // The same where thresholds are guessed. 2026-11-27, knn_cuda.csv.
  /// A query of floats.
  double guessed_query_s = 5.9e-8;
  /// A query whose candidates two bytes refine.
  double refined_query_s = 3e-8;
  /// A query and root of k.
  double guessed_root_s = 6.9e-9;
  /// A query and byte of a neighbour.
  double guessed_byte_s = 5.3e-13;
  /// The same in lists of global memory.
  double guessed_long_byte_s = 9e-13;

  // Tiles whose groups of rows are tested (filter/int8_wgmma_groups.cuh).
  /// A tile of half a slab.
  double grouped_half_s = 3.3e-9;
  /// A tile of one slab.
  double grouped_tile_s = 4.9e-9;
  /// A slab of tiles of more, of which steps of 32 columns beyond the last are left out.
  double grouped_slab_s = 4.8e-9;

  /// What tiles take that serve both of their sides, of what all take that serve one; 2026-11-28, knn_cuda.csv.
  double symmetric_share = 0.6;

  /// A call of a few queries of a kept corpus (fused/search.cuh).
  double fused_call_s = 4.6e-5;
  /// A pair of it, beside reading the corpus.
  double fused_pair_s = 5e-13;

  /// A pair of the canonical precision, of rows that stay in registers.
  double resident_pair_s = 8e-12;
  /// A column of such a pair.
  double resident_element_s = 1.2e-13;
  /// A pair of the canonical precision, of other rows.
  double pair_s = 3.6e-11;
  /// A column of such a pair.
  double pair_element_s = 2.9e-13;
  /// A neighbour of the canonical precision's lists.
  double listed_s = 1.1e-10;
};

/// It returns the seconds in which rows of the host come to the device.
inline double fetching_seconds(const Shape& shape) {
  constexpr H200Rates rates;
  const double bytes =
      static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(dtype_size(shape.dtype));
  if (shape.on_device) return 0;
  const double copied = bytes / rates.host_bytes_per_s;
  return bytes < rates.least_fed_bytes ? copied : std::min(copied, rates.feed_s + bytes / rates.fed_bytes_per_s);
}

/// It returns the seconds in which a filter makes and tests the
/// sums of so many pairs. grouped: of rows that all may answer.
inline double filtering_seconds(Precision precision, Sum sum, std::int64_t queries, std::int64_t rows,
                                std::int64_t dims, bool grouped = false) {
  constexpr H200Rates rates;
  const auto q = static_cast<double>(queries), n = static_cast<double>(rows), d = static_cast<double>(dims);
  if (on_tensor_cores(precision, sum)) {
    const bool groups = grouped && in_codes(precision) && tests_groups(queries, dims);
    const double tile = !groups       ? filter_precision(precision).tile_seconds
                        : dims <= 64  ? rates.grouped_half_s
                        : dims <= 128 ? rates.grouped_tile_s
                                      : rates.grouped_slab_s;
    const double slabs = groups && dims > 128 ? std::ceil(d / 32) / 4 : std::ceil(d / 128);
    return tile * std::ceil(q / block_queries) * std::ceil(n / tile_rows) * slabs;
  }
  const double difference = !in_codes(precision)  ? rates.difference_s
                            : sum == Sum::largest ? rates.largest_byte_s
                                                  : rates.byte_difference_s;
  return q * n * d * difference;
}

/// It returns the seconds in which rows on the device are packed.
inline double preparing_seconds(const ProblemShape& problem, Precision precision) {
  constexpr H200Rates rates;
  const auto n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols);
  const bool bytes = problem.corpus.dtype == DType::u8 || problem.corpus.dtype == DType::i8;
  if (in_lines(precision, filter_sum_of(problem.metric)))
    return rates.prepared_row_s * n + rates.packed_line_element_s * n * d;
  if (bytes && filter_sum_of(problem.metric) == Sum::squares && !needs_norms(problem.metric))
    return rates.packed_byte_s * n * d;
  return rates.prepared_row_s * n + rates.packed_element_s * n * d;
}

/// Whether one kernel answers all queries (FusedSession), unless k is beyond fused_bounds().
inline bool plans_fused(const Plan& plan, const ProblemShape& problem, Precision precision) {
  return problem.prepared && in_codes(precision) && has_products(filter_sum_of(problem.metric)) && !problem.range &&
         problem.filter_bytes == 0 && plan.distance_type == DistanceType::f32 &&
         has_fused_shape(problem.queries.rows, problem.k, problem.corpus.rows, problem.corpus.cols);
}

/// It tells whether the thresholds of a search are guessed, not proved.
inline bool plans_guesses(const Plan& plan, const ProblemShape& problem, Precision precision) {
  return guesses(precision, filter_sum_of(problem.metric)) &&
         SpeculationRule().guesses(problem.k, plan.query_batch, problem.corpus.cols) &&
         at_once(plan, problem.corpus.rows, problem.prepared);
}

/// It returns the seconds in which what passes a filter of int8, or of tensor cores, is ranked.
inline double ranking_seconds(const Plan& plan, const ProblemShape& problem, Precision precision) {
  constexpr H200Rates rates;
  const auto k = static_cast<double>(problem.k), d = static_cast<double>(problem.corpus.cols),
             q = static_cast<double>(problem.queries.rows);
  const bool in_memory = problem.k > most_shared_k;  // lists
  if (!plans_guesses(plan, problem, precision))
    return rates.proved_rounds_s + q * ((in_memory ? rates.reranked_long_s : rates.reranked_s) * std::sqrt(k) +
                                        rates.neighbor_element_s * k * d);
  const auto size = static_cast<double>(dtype_size(problem.corpus.dtype));
  const bool refined = !in_memory && has_second_bytes(precision, problem.corpus.dtype, problem.corpus.cols);
  return q * ((refined    ? rates.refined_query_s
               : size > 1 ? rates.guessed_query_s
                          : 0.0) +
              rates.guessed_root_s * std::sqrt(k) +
              (in_memory ? rates.guessed_long_byte_s : rates.guessed_byte_s) * k * d * size);
}

/// It returns the seconds that rows take beyond what their shapes say. left: rows that bytes leave a query. duplicates:
/// a quarter of the rows have equals.
inline double data_seconds(const ProblemShape& problem, double left, bool duplicates) {
  constexpr H200Rates rates;
  const double bytes = static_cast<double>(problem.corpus.cols) * static_cast<double>(dtype_size(problem.corpus.dtype));
  const double beyond = std::max(0.0, left - rates.usual_left * static_cast<double>(problem.k));
  return static_cast<double>(problem.queries.rows) * beyond * bytes * rates.left_byte_s +
         (duplicates && !problem.prepared ? rates.marked_row_s * static_cast<double>(problem.corpus.rows) : 0);
}

/// It returns the seconds that the kernels around a filter of int8 take since its queries are too few to fill the
/// device. filtering: the seconds of the filter.
inline double underfilled_seconds(const Plan& plan, const ProblemShape& problem, Precision precision,
                                  double filtering) {
  constexpr H200Rates rates;
  const double queries = std::min(static_cast<double>(problem.queries.rows), rates.filling_queries);
  if (plans_guesses(plan, problem, precision)) return rates.underfilled_query_s * queries;
  const bool rounds = in_codes(precision) && on_tensor_cores(precision, filter_sum_of(problem.metric)) &&
                      !problem.range && problem.corpus.cols > 128;
  return rounds ? std::min(rates.proved_underfilled_query_s * queries, rates.proved_underfilled_share * filtering) : 0;
}

/// It returns the seconds of all that the device does but to fetch the corpus.
inline double working_seconds(const Plan& plan, const ProblemShape& problem) {
  constexpr H200Rates rates;
  const auto n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols),
             q = static_cast<double>(problem.queries.rows);
  const double batches = std::max(1.0, std::ceil(q / static_cast<double>(std::max<std::int64_t>(plan.query_batch, 1))));
  double seconds = rates.call_s + (batches - 1) * rates.batch_s + fetching_seconds(problem.queries);
  if (!problem.queries.on_device)
    seconds += q * static_cast<double>(problem.k * static_cast<std::int64_t>(8 + distance_size(plan.distance_type))) /
               rates.result_bytes_per_s;
  const Precision precision = precision_of(plan.cascade.front());
  const double bytes = n * d * static_cast<double>(dtype_size(problem.corpus.dtype));
  if (!has_filter(precision)) {
    if (!problem.prepared && needs_norms(problem.metric))
      seconds += static_cast<double>(plan.passes) * rates.measured_element_s * n * d;
    const bool resident = d <= 128 && q >= 64 && n >= 65536;
    const double pair =
        resident ? rates.resident_pair_s + rates.resident_element_s * d : rates.pair_s + rates.pair_element_s * d;
    return seconds + rates.scan_s + std::max(q * n * pair, bytes / rates.read_bytes_per_s) +
           q * static_cast<double>(problem.k) * rates.listed_s;
  }
  if (plans_fused(plan, problem, precision))
    return seconds - rates.call_s + rates.fused_call_s +
           n * static_cast<double>(filter_width(precision, problem.corpus.cols)) / rates.read_bytes_per_s +
           q * n * rates.fused_pair_s;
  if (!problem.prepared)
    seconds += rates.prepare_s + static_cast<double>(plan.passes) * preparing_seconds(problem, precision);
  const Sum sum = filter_sum_of(problem.metric);
  const double filtering = (plan.symmetric ? rates.symmetric_share : 1.0) *
                           filtering_seconds(precision, sum, problem.queries.rows, problem.corpus.rows,
                                             problem.corpus.cols, !problem.range && problem.filter_bytes == 0);
  seconds += filtering;
  if (!in_codes(precision) && !on_tensor_cores(precision, sum)) return seconds;
  return seconds + ranking_seconds(plan, problem, precision) + underfilled_seconds(plan, problem, precision, filtering);
}

inline double search_seconds(const Plan& plan, const ProblemShape& problem) {
  constexpr H200Rates rates;
  double working = working_seconds(plan, problem);
  const double fetching = problem.prepared ? 0.0 : static_cast<double>(plan.passes) * fetching_seconds(problem.corpus);
  const std::int64_t chunk = plan.corpus_chunk > 0 ? plan.corpus_chunk : problem.corpus.rows;
  if (fetching == 0 || chunk >= problem.corpus.rows) return working + fetching;
  // One chunk arrives while the one before is searched: the longer of the two hides the other but for a chunk's share.
  const auto chunks = static_cast<double>(divide_up(problem.corpus.rows, chunk));
  working += static_cast<double>(plan.passes) * chunks *
             (rates.chunk_s + rates.chunk_query_s * static_cast<double>(plan.query_batch));
  return std::max(working, fetching) + std::min(working, fetching) / chunks;
}

/// Whether some queries are ranked on a precision, whose rows must be made for it, sooner than beside every row.
inline bool ranked_sooner_on(Precision precision, Plan plan, ProblemShape problem) {
  problem.prepared = false;
  plan.passes = 1;
  const auto seconds = [&](Precision on) {
    plan.cascade = {precision_name(on)};
    return search_seconds(plan, problem);
  };
  return seconds(precision) < seconds(Precision::canonical);
}

}  // namespace vicinal::cuda
