// A RowChoice tells kernels which rows may answer which query.
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t row) {
  if (choice.all) return true;
  if (row < choice.begin || row >= choice.end) return false;
  return choice.bits == nullptr || (choice.bits[row >> 6] >> (row & 63) & 1) != 0;
}
__device__ __forceinline__ bool may_answer(const RowChoice& choice, std::int64_t query, std::int64_t row) {
  if (choice.labelled && (choice.row_labels[row] == choice.query_labels[query]) != choice.same_label) return false;
  return !choice.without_self || row != choice.first_self + query;
}
/// Whether a row of the chunk may answer a query of the batch.
__device__ __forceinline__ bool may_pair(const SearchArgs& args, std::int64_t query, std::int64_t row) {
  return args.choice.all || (may_answer(args.choice, args.first_row + row) &&
                             may_answer(args.choice, args.number_of(query), args.first_row + row));
}

}  // namespace vicinal::cuda
