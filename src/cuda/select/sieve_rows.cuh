// sieve_rows is sieve for rows that registers hold (register_row.cuh), of up to 1,024 values by a warp and of up to 8,192 by a block. Blocks
// stay, so that what served a row serves the next.
#pragma once
#include "cuda/select/register_row.cuh"

namespace vicinal::cuda {

/// Blocks of a multiprocessor: two sets of 32 registers a lane, one for a row and one for the next, are worth more than more warps.
template <int warps>
inline constexpr int sieve_rows_blocks = warps == 1 ? 4 : 2;

/// `vectors` a lane hold a row; `warps` a row.
template <class Reader, int vectors, int warps>
__global__ void __launch_bounds__(32 * (warps == 1 ? sieve_rows_warps : warps), sieve_rows_blocks<warps>)
    sieve_rows(SieveRows p) {
  constexpr int groups = warps == 1 ? sieve_rows_warps : 1, most_words = sieve_rows_words<warps>;
  VICINAL_SHARED(std::uint64_t, buffers, groups * most_words);
  VICINAL_SHARED(int, sums, 2 * warps + 1);
  RegisterRow<Reader, vectors, warps> keys(p, warps == 1 ? buffers + warp_index() * most_words : buffers, sums);
  const std::int64_t step = std::int64_t{gridDim.x} * groups,
                     begin = std::int64_t{blockIdx.x} * groups + (warps == 1 ? warp_index() : 0);
  keys.load(begin);
  for (std::int64_t row = begin; row < p.rows.rows; row += step) {
    keys.take();
    if (keys.find_threshold()) keys.remember_threshold();
    else keys.cut_equals();
    keys.gather();
    keys.load(row + step);  // which comes while this one is sorted, and while the next one's keys are made
    keys.sort_and_emit(row);
  }
}

template <int warps, class Launch>
void launch_sieve_rows(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  const SieveRows p = {batch.rows, static_cast<int>(batch.k), static_cast<int>(sieve_rows_sorted(batch.k)), emission};
  constexpr int groups = warps == 1 ? sieve_rows_warps : 1;
  // Blocks stay, so that what served a row serves the next.
  const std::int64_t blocks = std::min<std::int64_t>(divide_up(batch.rows.rows, groups),
                                                     std::int64_t{batch.multiprocessors} * sieve_rows_blocks<warps>);
  const bool whole = batch.rows.col_stride == batch.rows.size && batch.rows.cols * batch.rows.size % 16 == 0 &&
                     batch.rows.row_stride % 16 == 0 && reinterpret_cast<std::uintptr_t>(batch.rows.data) % 16 == 0;
  const auto go = [&]<class Reader>() {
    launch(blocks, 32 * groups * warps, 0, sieve_rows<Reader, 32 / Reader::count, warps>, p);
  };
  // Values of four bytes, and one text for all others.
  if (whole && batch.rows.size == 4) go.template operator()<DenseReader<std::uint32_t, 4>>();
  else go.template operator()<StridedReader<std::uint32_t>>();
}

template <class Launch>
void run_sieve_rows(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  if (batch.rows.cols <= 1024) launch_sieve_rows<1>(launch, batch, emission);
  else launch_sieve_rows<8>(launch, batch, emission);
}

inline const char* sieve_rows_refusal(const SelectArgs& task, FormName /*form*/) {
  const std::int64_t cols = task.values.cols;
  if (value_size(task.values.type) == 8) return "it is for values of 1, 2 and 4 bytes";
  if (cols > sieve_rows_cols) return "its rows have at most 8,192 columns";
  if (task.k <= sieve_rows_most_k(cols)) return nullptr;
  return cols <= 1024 ? "its k is at most 228 for rows of up to 1,024 columns" : "its k is at most 1,821";
}

template <class Launch>
const SelectKernel<Launch>& sieve_rows_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "sieve_rows", .refusal = sieve_rows_refusal, .select_and_emit = run_sieve_rows<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(sieve_rows);

}  // namespace vicinal::cuda
