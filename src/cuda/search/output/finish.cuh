// FINISH: the lists of a batch become rows of the result, and what certify asks of each query.
#pragma once
#include "core/largest_error.hpp"
#include "cuda/search/core/list_words.cuh"
#include "cuda/search/filter/speculate.hpp"
#include "cuda/search/rerank/rank.cuh"

namespace vicinal::cuda {

/// The lists to their rows of the result, a warp a query.
struct Finish {
  SearchArgs args;
  Ranking ranking;
  std::int64_t first_id = 0, out_k = 0;
  bool own_rows = false;  // each query has the row of its number, and not of its position in the batch
  std::int64_t* ids = nullptr;
  void* distances = nullptr;
  std::int64_t* counts = nullptr;  // or null
  double *verified_radius = nullptr, *largest = nullptr;
  bool filters = true;           // false: every row was ranked
  std::int64_t pieces = 1;       // warps that share a query's row
  bool full_lists = true;        // every query has k rows that may answer it: a shorter list has lost them to infinity
  bool speculative = false;      // thresholds were guessed
  std::int64_t most_missed = 0;  // rows that passed for a query, or would: of no more it is searched again
  bool zeros_are_exact = false;
  Counters* host_counters = nullptr;  // memory of the host that has the counters in the end, or null
};
/// Whether a key of zero is always of a value that is +0: of distances in the unit of the elements, where two that
/// differ do so by 2^-149 at least.
constexpr bool zeros_are_exact(Metric metric, DType rows, DType queries) {
  return row_of(metric).triangle == Triangle::distance && rows != DType::f64 && queries != DType::f64;
}
/// Facts of a query that is to be searched again: a largest error that no query has.
inline constexpr double missed_mark = -1;

/// Whether the query is to be searched again: its guessed threshold is not proved by its list, which then is no answer,
/// or its slots were too few, and those that it has with a proved threshold may do.
template <class Form>
__device__ __forceinline__ bool is_missed(const Finish& f, std::int64_t position) {
  if (!f.speculative) return false;
  const SearchArgs& args = f.args;
  const QueryState& state = args.states[position];
  if (state.given_up) return args.queries.quantized[position].filterable && args.counts[position] <= f.most_missed;
  const std::int64_t k = args.k, found = static_cast<std::int64_t>(state.best);
  const auto* best = static_cast<const typename Form::Word*>(args.best) + position * k;
  return !verifies(state, k, found == k ? ListWords<Form>::key(best[k - 1]) : infinite);
}

/// The block that ends last publishes to the host what all have counted:
/// a copy by the driver would begin some 6 us after the kernel.
__device__ __forceinline__ void publish_counters(const Finish& f) {
  if (f.host_counters == nullptr) return;
  __syncthreads();
  if (thread_index() != 0) return;
  __threadfence();
  Counters& counters = *f.args.counters;
  if (atomicAdd(&counters.finished, 1ull) + 1 < gridDim.x) return;
  __threadfence();
  counters.finished = 0;
  *f.host_counters = counters;
  __threadfence_system();
}

/// It writes the radius that a query's list proves, and the largest error of its filter.
__device__ __forceinline__ void put_bounds(const Finish& f, std::int64_t position, std::int64_t query, bool lost,
                                           bool missed) {
  const SearchArgs& args = f.args;
  f.verified_radius[query] = lost ? -infinite : args.states[position].threshold_key;
  const double error = f.filters && !lost
                           ? largest_error(args.model, args.queries.quantized[position].norms,
                                           {double_of(args.rows.largest[0]), double_of(args.rows.largest[1])},
                                           args.queries.quantized[position].scale)
                           : 0;
  f.largest[query] = missed ? missed_mark : error;
  if (lost) atomicAdd(missed ? &args.counters->missed : &args.counters->given_up, 1ull);
  if (bits_of(error) > args.counters->largest_error)
    atomicMax(&args.counters->largest_error, bits_of(error));  // seldom: it grows
}

template <class Form>
__device__ __forceinline__ void finish_query(const Finish& f) {
  using Words = ListWords<Form>;
  const SearchArgs& args = f.args;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (thread_count() / 32) + warp_index(),
                     position = warp / f.pieces, piece = warp % f.pieces;
  if (position >= args.queries.count) return;
  const QueryState& state = args.states[position];
  const bool missed = is_missed<Form>(f, position), lost = missed || state.given_up;
  const std::int64_t query = f.filters ? args.queries.order[position] : position,
                     at = f.own_rows ? args.number_of(query) : query;
  const bool speaks = piece == 0 && lane_index() == 0;  // for the query
  if (speaks) put_bounds(f, position, query, lost, missed);
  if (lost) return;
  if (speaks && (f.full_lists || state.infinite_key) && static_cast<std::int64_t>(state.best) < args.k)
    atomicAdd(&args.counters->infinite_keys, 1u);
  // Its list: ids and distances, and -1 where it is short.
  const auto* best = static_cast<const typename Form::Word*>(args.best) + position * args.k;
  const auto have = static_cast<std::int64_t>(state.best);
  const bool descends = descending(f.ranking.metric), sums = f.ranking.type != DistanceType::u32;
  const bool narrow = !Words::wide || f.ranking.type == DistanceType::f32;  // keys, whatever the words are
  const double normal = narrow ? 0x1p-126 : 0x1p-1022;
  unsigned underflowed = 0;
  const auto put = [&](std::int64_t i, std::int64_t id, double value) {
    f.ids[at * f.out_k + i] = id;
    if (f.ranking.type == DistanceType::f64) static_cast<double*>(f.distances)[at * f.out_k + i] = value;
    else if (f.ranking.type == DistanceType::u32)
      static_cast<std::uint32_t*>(f.distances)[at * f.out_k + i] =
          id < 0 ? 0xffffffffu : static_cast<std::uint32_t>(value);
    else static_cast<float*>(f.distances)[at * f.out_k + i] = static_cast<float>(value);
  };
  for (std::int64_t from = 32 * piece; from < f.out_k; from += 32 * f.pieces) {
    const std::int64_t i = from + lane_index();
    bool again = false;
    if (i < have) {
      const double key = Words::key(best[i]);
      if (!is_finite(key)) {
        atomicAdd(&args.counters->infinite_keys, 1u);
        if (key < 0) atomicAdd(&args.counters->nearest_infinite, 1u);
      }
      again = key == 0 && sums && !f.zeros_are_exact;
      // A row that was ranked twice stands beside itself, and the list's k-th is nearer than it should be.
      if (i > 0 && Form::position(best[i]) == Form::position(best[i - 1])) atomicAdd(&args.counters->repeated, 1u);
      underflowed += sums && key != 0 && fabs(key) < normal ? 1u : 0u;
      if (!again) put(i, f.first_id + Form::position(best[i]), descends ? -key : key);
    } else if (i < f.out_k) {
      put(i, -1, descends ? -infinite : infinite);
    }
    // A key of zero may be of a value that is not: the whole warp takes it again, for its sign and what underflowed.
    for (unsigned left = __ballot_sync(all_lanes, again); left != 0; left &= left - 1) {
      const std::int64_t which = from + __ffs(static_cast<int>(left)) - 1,
                         row = Form::position(best[which]) - f.ranking.first_row;
      double known_value = 0;  // rows of an earlier chunk are gone: a product that is nothing is +0
      if (row >= 0 && row < args.rows.count) {
        const std::int64_t rows[1] = {row * args.rows.dims}, queries[1] = {query * args.rows.dims};
        const double shifts[1] = {f.ranking.metric == Metric::correlation ? args.rows.mean[row] : 0.0};
        const double value = value_of_sum(
            f.ranking, pair_sums<1, 1>(f.ranking, sum_of(f.ranking.metric), rows, shifts, queries), query, row);
        const double key = folded_key(f.ranking, value);
        known_value = descends ? -key : key;
        underflowed += lane_index() == 0 && !needs_norms(f.ranking.metric) && narrow && value != 0 ? 1u : 0u;
      }
      if (lane_index() == 0) put(which, f.first_id + Form::position(best[which]), known_value);
    }
  }
  // Counts.
  for (int h = 16; h > 0; h /= 2) underflowed += __shfl_xor_sync(all_lanes, underflowed, h);
  if (lane_index() != 0) return;
  if (piece == 0 && f.counts != nullptr) f.counts[at] = have;
  if (underflowed != 0) atomicAdd(&args.counters->underflowed, static_cast<unsigned long long>(underflowed));
}
template <class Form>
__global__ void finish_queries(Finish f) {
  wait_for_earlier();
  finish_query<Form>(f);
  publish_counters(f);
}

}  // namespace vicinal::cuda
