// A bound on a query's k-th key tightens its threshold.
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

/// From a bound on the k-th key to what the filter excludes.
__device__ __forceinline__ void tighten(const SearchArgs& args, std::int64_t position, double bound) {
  QueryState& state = args.states[position];
  if (!(bound < state.threshold_key)) return;
  const QuantizedQuery query = args.queries.quantized[position];
  state.threshold_key = bound;
  state.threshold_filter = theta_of_key(args.model, bound, query.scale);
  if (!state.given_up) state.coeffs = coeffs_of_query(args.model, state.threshold_filter, query.square, query.norms);
}

/// A query that has lost rows has no answer here, whatever else is found: nothing passes for it any more.
__device__ __forceinline__ void give_up(const SearchArgs& args, std::int64_t position) {
  args.states[position].given_up = true;
  args.states[position].coeffs.base = -infinite;
}

}  // namespace vicinal::cuda
