// What a search on a device will take: rates of one H200, for `--plan`. Pure arithmetic; no answer depends on it.
// bench/plan_cuda.py holds them against what was measured. They are of rows that the first precision certifies: of others the data decide.
#pragma once
#include <algorithm>
#include <cmath>

#include "backend/search.hpp"
#include "cuda/search/core/args.hpp"
#include "cuda/search/core/precision.hpp"

namespace vicinal::cuda {

/// H200, 2026-11-22, bench/results/plan_cuda.csv. Memory of the host was copied at 7.3e9 to 9.4e9 bytes a second from one loan to the next.
struct Rates {
  double a_call = 0.16e-3, a_batch = 0.3e-3,
         a_scan = 0.07e-3;    // launches, and what comes back; a selection from all pairs
  double host_bytes = 8.2e9;  // a second, to or from memory of the host that is not pinned, by the driver
  double fed_bytes = 5.1e10, least_fed = 8388608;  // by the feed (cuda/device/feed.hpp), and what is brought by it
  double a_chunk = 0.25e-3, a_chunk_query = 3e-8;  // of a corpus that arrives while it is searched
  double prepare = 1.0e-3, sampled_element = 7.5e-9,
         element = 9e-12;  // of rows that are packed for this search; up to 1024 of them choose the transform
  double measured_element = 2.9e-12;                         // of rows that are only looked at
  double difference = 1.2e-13;                               // a pair and column of a filter in single precision
  double byte_difference = 2.4e-14, largest_byte = 4.5e-14;  // of one in bytes: magnitudes, the largest of them
  double reranked = 2.1e-8,
         reranked_long = 2.4e-8;      // a query and root of k: what passes is reranked; in lists of global memory
  double neighbor_element = 4.5e-12;  // a query, neighbour and column: what is ranked of it
  double pair = 3.6e-11, pair_element = 2.9e-13,
         listed = 2e-10;  // of the canonical precision, and a neighbour of its lists
};

/// It returns the seconds in which rows of the host come to the device.
inline double fetching_seconds(const Shape& shape) {
  constexpr Rates rates;
  const double bytes =
      static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(dtype_size(shape.dtype));
  return shape.on_device ? 0.0 : bytes / (bytes < rates.least_fed ? rates.host_bytes : rates.fed_bytes);
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
               rates.host_bytes;
  const Precision precision = precision_of(plan.cascade.front());
  if (!has_filter(precision)) {
    if (!problem.prepared) seconds += static_cast<double>(plan.passes) * rates.measured_element * n * d;
    return seconds + rates.a_scan + q * n * (rates.pair + rates.pair_element * d) +
           q * static_cast<double>(problem.k) * rates.listed;
  }
  if (!problem.prepared)
    seconds += rates.prepare + rates.sampled_element * std::min(n, 1024.0) * d +
               static_cast<double>(plan.passes) * rates.element * n * d;
  const Sum sum = filter_sum_of(problem.metric);
  if (!in_codes(precision) && !on_tensor_cores(precision, sum)) return seconds + q * n * d * rates.difference;
  const double tiles = std::ceil(q / block_queries) * std::ceil(n / tile_rows) * std::ceil(d / 128),
               k = static_cast<double>(problem.k);
  seconds += on_tensor_cores(precision, sum)
                 ? filter_precision(precision).tile_seconds * tiles
                 : q * n * d * (sum == Sum::largest ? rates.largest_byte : rates.byte_difference);
  return seconds + q * ((problem.k > most_shared_k ? rates.reranked_long : rates.reranked) * std::sqrt(k) +
                        rates.neighbor_element * k * d);
}

inline double search_seconds(const Plan& plan, const ProblemShape& problem) {
  constexpr Rates rates;
  const double working = working_seconds(plan, problem),
               fetching = problem.prepared ? 0.0 : static_cast<double>(plan.passes) * fetching_seconds(problem.corpus);
  const std::int64_t chunk = plan.corpus_chunk > 0 ? plan.corpus_chunk : problem.corpus.rows;
  if (fetching == 0 || chunk >= problem.corpus.rows) return working + fetching;
  // One chunk arrives while the one before is searched: the longer of the two hides the other but for a chunk's share.
  const auto chunks = static_cast<double>((problem.corpus.rows + chunk - 1) / chunk);
  return std::max(working, fetching) + std::min(working, fetching) / chunks +
         static_cast<double>(plan.passes) * chunks *
             (rates.a_chunk + rates.a_chunk_query * static_cast<double>(plan.query_batch));
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
