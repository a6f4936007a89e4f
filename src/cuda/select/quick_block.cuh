// quick_block: quick multi-select with a block a row, for fewer and longer rows.
#pragma once
#include "cuda/select/quick.cuh"

namespace vicinal::cuda {

template <class Form>
__global__ void __launch_bounds__(quick_block_threads) quick_block(Quick<Form> p) {
  VICINAL_SHARED(typename Form::Word, segments, quick_block_threads);
  VICINAL_SHARED(QuickPart, parts, most_parts);
  VICINAL_SHARED(std::uint64_t, sums, 64);
  QuickGroup<Form, 0> block(p, blockIdx.x, segments, parts, sums);
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += p.groups) block.select(row);
}

template <class Launch>
void run_quick_block(Launch& launch, const SelectBatch& batch) {
  with_form(batch.form, [&]<class Form>() {
    using Word = typename Form::Word;
    launch(batch.workers, quick_block_threads, 0, quick_block<Form>,
           {batch.rows, batch.k, static_cast<Word*>(batch.list), static_cast<Word*>(batch.workspace), batch.workers});
  });
}

template <class Launch>
const SelectKernel<Launch>& quick_block_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "quick_block",
      .workspace = [](const SelectShape& s) { return quick_workspace(s.form, s.cols, false, s.multiprocessors); },
      .values_alone = true,
      .select = run_quick_block<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(quick_block);

}  // namespace vicinal::cuda
