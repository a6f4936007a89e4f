// quick_warp: quick multi-select with a warp a row, for many rows.
#pragma once
#include "cuda/select/quick.cuh"

namespace vicinal::cuda {

template <class Form>
__global__ void __launch_bounds__(quick_warp_threads) quick_warp(Quick<Form> p) {
  constexpr int groups = quick_warp_threads / 32;
  VICINAL_SHARED(typename Form::Word, segments, quick_warp_threads);
  VICINAL_SHARED(QuickPart, parts, groups * most_parts);
  const std::int64_t group = std::int64_t{blockIdx.x} * groups + warp_index();
  QuickGroup<Form, 1> warp(p, group, segments + warp_index() * 32, parts + warp_index() * most_parts, nullptr);
  for (std::int64_t row = group; group < p.groups && row < p.rows.rows; row += p.groups) warp.select(row);
}

template <class Launch>
void run_quick_warp(Launch& launch, const SelectBatch& batch) {
  constexpr int groups = quick_warp_threads / 32;
  with_form(batch.form, [&]<class Form>() {
    using Word = typename Form::Word;
    launch(divide_up(batch.workers, groups), quick_warp_threads, 0, quick_warp<Form>,
           {batch.rows, batch.k, static_cast<Word*>(batch.list), static_cast<Word*>(batch.workspace), batch.workers});
  });
}

template <class Launch>
const SelectKernel<Launch>& quick_warp_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "quick_warp",
      .workspace = [](const SelectShape& s) { return quick_workspace(s.form, s.cols, true, s.multiprocessors); },
      .values_alone = true,
      .select = run_quick_warp<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(quick_warp);

}  // namespace vicinal::cuda
