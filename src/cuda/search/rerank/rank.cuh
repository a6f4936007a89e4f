// RERANK: canonical distances of some rows for one query, as words of the one total order.
#pragma once
#include "cuda/search/core/element.cuh"

namespace vicinal::cuda {

inline constexpr int rows_at_once = 4;  // that a warp ranks

/// A Ranking is everything that a canonical distance hangs on. A search makes it of its SearchArgs; a permutation index
/// has no more than this.
struct Ranking {
  PreparedMatrix rows, queries;
  Metric metric = Metric::euclidean;
  DistanceType type = DistanceType::f32;
  std::int64_t first_row = 0;
  Counters* counters = nullptr;
};

/// The ranking of a search's rows.
inline Ranking ranking_of(const SearchArgs& args) {
  return {.rows = args.rows,
          .queries = args.queries,
          .metric = args.model.metric,
          .type = args.model.type,
          .first_row = args.first_row,
          .counters = args.counters};
}

/// Lanes of the sums of Rows rows and Queries queries: rows[r] and queries[q] are where they begin.
template <Sum sum, int Rows, int Queries>
__device__ __forceinline__ void sum_lanes(const Ranking& args, const std::int64_t (&rows)[Rows],
                                          const double (&shifts)[Rows], const std::int64_t (&queries)[Queries],
                                          double (&lists)[Rows * Queries]) {
#pragma unroll
  for (int i = 0; i < Rows * Queries; ++i) lists[i] = 0;
  const auto run = [&](auto load, auto query) {
    for (std::int64_t i = lane_index(); i < args.rows.dims; i += 32) {
      double r[Rows];
#pragma unroll
      for (int j = 0; j < Rows; ++j) r[j] = load(rows[j] + i);
#pragma unroll
      for (int q = 0; q < Queries; ++q) {
        const double x = query(queries[q] + i);
#pragma unroll
        for (int j = 0; j < Rows; ++j) lists[q * Rows + j] = with<sum>(lists[q * Rows + j], x, r[j], shifts[j]);
      }
    }
  };
  const auto any = [&](std::int64_t at) { return element(args.rows.rows, args.rows.dtype, at); };
  const auto value = [&](std::int64_t at) { return args.queries.values[at]; };
  if constexpr (Rows * Queries == 1) {
    // Pairs by themselves are rare, and their queries may have no values (keeps_values).
    run(any, [&](std::int64_t at) {
      return args.queries.values != nullptr ? value(at) : element(args.queries.rows, args.queries.dtype, at);
    });
  } else if (args.rows.dtype == DType::f32) {
    run([&](std::int64_t at) { return static_cast<double>(static_cast<const float*>(args.rows.rows)[at]); }, value);
  } else {
    run(any, value);
  }
}

/// The sums of Rows x Queries pairs: lane i gets that of pair i / (32 / (Rows * Queries)), queries first.
template <int Rows, int Queries>
__device__ __forceinline__ double pair_sums(const Ranking& args, Sum sum, const std::int64_t (&rows)[Rows],
                                            const double (&shifts)[Rows], const std::int64_t (&queries)[Queries]) {
  double lists[Rows * Queries] = {};
  switch (sum) {
#define SUM(name, join)                                                      \
  case Sum::name:                                                            \
    sum_lanes<Sum::name, Rows, Queries>(args, rows, shifts, queries, lists); \
    break;
#include "core/sums.def"
    case Sum::none: break;  // refused when the search was opened
  }
  return join_of(sum) == Join::max ? lists_joined(lists, Larger{}) : lists_joined(lists, Plus{});
}

/// The canonical value of a sum, before it is rounded to a key and folded.
__device__ __forceinline__ double value_of_sum(const Ranking& args, double sum, std::int64_t query, std::int64_t row) {
  double value;
  if (needs_norms(args.metric)) {
    const double self = args.rows.self[row], other = args.queries.self[query];
    value = self < 0 || other < 0 ? 1.0 : canonical_value(args.metric, sum, other, self);
  } else {
    value = canonical_value(args.metric, sum, 0, 0);
  }
  if (value != value) {
    if (atomicAdd(&args.counters->undefined_keys, 1u) == 0)
      args.counters->first_undefined = static_cast<unsigned long long>(args.first_row + row);
  }
  return value;
}

/// Rounded to its type, and folded: smaller is nearer.
__device__ __forceinline__ double folded_key(const Ranking& args, double value) {
  const double key = args.type == DistanceType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
  return descending(args.metric) ? -key : key;
}

}  // namespace vicinal::cuda
