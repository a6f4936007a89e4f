// What a search on a device will take: rates of one H200, for `--plan`. Pure arithmetic; no answer depends on it.
// bench/plan_cuda.py holds them against what was measured. They are of rows that the first precision certifies: of others the data decide.
#pragma once
#include <algorithm>
#include <cmath>

#include "backend/search.hpp"
#include "cuda/search/core/args.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/filter/speculate.hpp"

namespace vicinal::cuda {

/// H200, 2026-11-22, bench/results/plan_cuda.csv; what prepares and reads rows, 2026-11-23. Memory of the host was copied at 7.3e9 to 9.4e9 bytes a second from one loan to the next.
struct Rates {
  double a_call = 0.09e-3, a_batch = 0.3e-3,
         a_scan = 0.03e-3;    // launches, and what comes back; a selection from all pairs
  double host_bytes = 8.2e9;  // a second, to or from memory of the host that is not pinned, by the driver
  double result_bytes =
      1.6e9;  // of results in memory of the host, with its pages and what is counted and certified there; several_gpus.csv
  double fed_bytes = 5.1e10, least_fed = 8388608;  // by the feed (cuda/device/feed.hpp), and what is brought by it
  double
      shared_bytes = 7.2e10,
      shared_pinned_bytes =
          9.5e10;  // to all devices at once: 2 H100 of one host with 32 cores, of which some copy 5.5e10 and some 8.4e10; several_gpus.csv
  double a_chunk = 0.1e-3, a_chunk_query = 1e-8;  // of a corpus that arrives while it is searched
  double prepare = 0.2e-3, prepared_row = 1.5e-10, element = 2e-12, byte_element = 1.9e-12,
         line_element = 6e-12;  // of rows that are packed for this search: as tiles, of bytes that stay whole, as lines
  double measured_element = 1.8e-12, read_bytes = 3.8e12;    // of rows whose norms are taken; a second, at most
  double difference = 1.2e-13;                               // a pair and column of a filter in single precision
  double byte_difference = 2.4e-14, largest_byte = 4.5e-14;  // of one in bytes: magnitudes, the largest of them
  double reranked = 2.1e-8,
         reranked_long = 2.4e-8;      // a query and root of k: what passes is reranked; in lists of global memory
  double neighbor_element = 4.5e-12;  // a query, neighbour and column: what is ranked of it
  // The same where thresholds are guessed: a query of floats, one whose candidates two bytes refine, a query and root of k, byte of a neighbour, in lists
  // of global memory too. 2026-11-27, knn_cuda.csv.
  double guessed_query = 5.9e-8, refined_query = 3e-8, guessed_root = 6.9e-9, guessed_byte = 5.3e-13,
         guessed_long_byte = 9e-13;
  // Tiles whose groups of rows are tested (filter/int8_wgmma_groups.cuh), of half a slab, of one, and of more a slab, of which
  // steps of 32 columns beyond the last are left out.
  double grouped_half = 3.3e-9, grouped_tile = 4.9e-9, grouped_slab = 4.8e-9;
  double few_call = 4.6e-5,
         few_pair = 5e-13;  // of a few queries of a kept corpus (few/search.cuh), beside reading it
  double resident_pair = 8e-12,
         resident_element = 1.2e-13;  // of the canonical precision, of rows that stay in registers
  double pair = 3.6e-11, pair_element = 2.9e-13,
         listed = 1.1e-10;  // of the canonical precision, and a neighbour of its lists
};

/// It returns the seconds in which rows of the host come to the device.
inline double fetching_seconds(const Shape& shape) {
  constexpr Rates rates;
  const double bytes =
      static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(dtype_size(shape.dtype));
  return shape.on_device ? 0.0 : bytes / (bytes < rates.least_fed ? rates.host_bytes : rates.fed_bytes);
}

/// It returns the seconds in which a filter makes and tests the sums of so many pairs. grouped: of rows that all may answer.
inline double filtering_seconds(Precision precision, Sum sum, std::int64_t queries, std::int64_t rows,
                                std::int64_t dims, bool grouped = false) {
  constexpr Rates rates;
  const auto q = static_cast<double>(queries), n = static_cast<double>(rows), d = static_cast<double>(dims);
  if (on_tensor_cores(precision, sum)) {
    const bool groups = grouped && in_codes(precision) && tests_groups(queries, dims);
    const double tile = !groups       ? filter_precision(precision).tile_seconds
                        : dims <= 64  ? rates.grouped_half
                        : dims <= 128 ? rates.grouped_tile
                                      : rates.grouped_slab;
    const double slabs = groups && dims > 128 ? std::ceil(d / 32) / 4 : std::ceil(d / 128);
    return tile * std::ceil(q / block_queries) * std::ceil(n / tile_rows) * slabs;
  }
  const double difference = !in_codes(precision)  ? rates.difference
                            : sum == Sum::largest ? rates.largest_byte
                                                  : rates.byte_difference;
  return q * n * d * difference;
}

/// It returns the seconds in which rows on the device are packed.
inline double preparing_seconds(const ProblemShape& problem, Precision precision) {
  constexpr Rates rates;
  const auto n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols);
  const bool bytes = problem.corpus.dtype == DType::u8 || problem.corpus.dtype == DType::i8;
  if (in_lines(precision, filter_sum_of(problem.metric))) return rates.prepared_row * n + rates.line_element * n * d;
  if (bytes && filter_sum_of(problem.metric) == Sum::squares && !needs_norms(problem.metric))
    return rates.byte_element * n * d;
  return rates.prepared_row * n + rates.element * n * d;
}

/// Whether one kernel answers all queries (FewSession), unless k is beyond few_bounds().
inline bool few_at_once(const Plan& plan, const ProblemShape& problem, Precision precision) {
  return problem.prepared && in_codes(precision) && has_products(filter_sum_of(problem.metric)) && !problem.range &&
         problem.filter_bytes == 0 && plan.distance_type == DistanceType::f32 &&
         is_few_shape(problem.queries.rows, problem.k, problem.corpus.rows, problem.corpus.cols);
}

/// It returns the seconds in which what passes a filter of int8, or of tensor cores, is ranked.
inline double ranking_seconds(const Plan& plan, const ProblemShape& problem, Precision precision) {
  constexpr Rates rates;
  const auto k = static_cast<double>(problem.k), d = static_cast<double>(problem.corpus.cols),
             q = static_cast<double>(problem.queries.rows);
  const bool in_memory = problem.k > most_shared_k;  // lists
  const bool guessed = guesses(precision, filter_sum_of(problem.metric)) &&
                       SpeculationRule().guesses(problem.k, plan.query_batch, problem.corpus.cols) &&
                       at_once(plan, problem.corpus.rows, problem.prepared);
  if (!guessed)
    return q * ((in_memory ? rates.reranked_long : rates.reranked) * std::sqrt(k) + rates.neighbor_element * k * d);
  const auto size = static_cast<double>(dtype_size(problem.corpus.dtype));
  const bool refined = !in_memory && refines(precision, problem.corpus.dtype, problem.corpus.cols);
  return q * ((refined    ? rates.refined_query
               : size > 1 ? rates.guessed_query
                          : 0.0) +
              rates.guessed_root * std::sqrt(k) +
              (in_memory ? rates.guessed_long_byte : rates.guessed_byte) * k * d * size);
}

/// It returns the seconds of all that the device does but to fetch the corpus.
inline double working_seconds(const Plan& plan, const ProblemShape& problem) {
  constexpr Rates rates;
  const auto n = static_cast<double>(problem.corpus.rows), d = static_cast<double>(problem.corpus.cols),
             q = static_cast<double>(problem.queries.rows);
  const double batches = std::max(1.0, std::ceil(q / static_cast<double>(std::max<std::int64_t>(plan.query_batch, 1))));
  double seconds = rates.a_call + (batches - 1) * rates.a_batch + fetching_seconds(problem.queries);
  if (!problem.queries.on_device)
    seconds += q * static_cast<double>(problem.k * static_cast<std::int64_t>(8 + distance_size(plan.distance_type))) /
               rates.result_bytes;
  const Precision precision = precision_of(plan.cascade.front());
  const double bytes = n * d * static_cast<double>(dtype_size(problem.corpus.dtype));
  if (!has_filter(precision)) {
    if (!problem.prepared && needs_norms(problem.metric))
      seconds += static_cast<double>(plan.passes) * rates.measured_element * n * d;
    const bool resident = d <= 128 && q >= 64 && n >= 65536;
    const double pair =
        resident ? rates.resident_pair + rates.resident_element * d : rates.pair + rates.pair_element * d;
    return seconds + rates.a_scan + std::max(q * n * pair, bytes / rates.read_bytes) +
           q * static_cast<double>(problem.k) * rates.listed;
  }
  if (few_at_once(plan, problem, precision))
    return seconds - rates.a_call + rates.few_call +
           n * static_cast<double>(filter_width(precision, problem.corpus.cols)) / rates.read_bytes +
           q * n * rates.few_pair;
  if (!problem.prepared)
    seconds += rates.prepare + static_cast<double>(plan.passes) * preparing_seconds(problem, precision);
  const Sum sum = filter_sum_of(problem.metric);
  seconds += filtering_seconds(precision, sum, problem.queries.rows, problem.corpus.rows, problem.corpus.cols,
                               !problem.range && problem.filter_bytes == 0);
  if (!in_codes(precision) && !on_tensor_cores(precision, sum)) return seconds;
  return seconds + ranking_seconds(plan, problem, precision);
}

inline double search_seconds(const Plan& plan, const ProblemShape& problem) {
  constexpr Rates rates;
  double working = working_seconds(plan, problem);
  const double fetching = problem.prepared ? 0.0 : static_cast<double>(plan.passes) * fetching_seconds(problem.corpus);
  const std::int64_t chunk = plan.corpus_chunk > 0 ? plan.corpus_chunk : problem.corpus.rows;
  if (fetching == 0 || chunk >= problem.corpus.rows) return working + fetching;
  // One chunk arrives while the one before is searched: the longer of the two hides the other but for a chunk's share.
  const auto chunks = static_cast<double>((problem.corpus.rows + chunk - 1) / chunk);
  working += static_cast<double>(plan.passes) * chunks *
             (rates.a_chunk + rates.a_chunk_query * static_cast<double>(plan.query_batch));
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
