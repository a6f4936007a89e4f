// sieve_block is sieve with a block a row, from the row to the caller's results in one launch.
#pragma once
#include "cuda/select/sieve.cuh"

namespace vicinal::cuda {

/// Dynamic shared memory of `sorted + capacity` words.
template <class Form, class Reader>
__global__ void __launch_bounds__(sieve_threads, sieve_blocks) sieve_block(Sieve p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  SieveRow<Form, Reader> sieve(p, dynamic_shared<Word>(), state, sums, ends);
  const int k = static_cast<int>(p.k);
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    Word threshold = Form::last();
    if (p.speculative.samples > 0) {
      sieve.sample(row, 0, 1);
      threshold = sieve.threshold_among(p.speculative.samples, p.speculative.rank, p.speculative.most_rank);
    }
    for (;;) {
      sieve.clear();
      sieve.gather(row, 0, p.rows.cols, threshold, [&](Word& now) { sieve.drop(k, now); });
      if (sieve.count() >= k) break;
      __syncthreads();
      threshold = sieve.exact_threshold(row, p.k);
    }
    sieve.shrink(k);
    sieve.finish(row, k);
  }
}

template <class Launch>
void run_sieve_block(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  with_reader(batch.form, batch.rows, [&]<class Form, class Reader>() {
    Sieve p;
    p.rows = batch.rows;
    p.k = batch.k;
    p.out = emission;
    p.sorted = static_cast<int>(power_of_two(batch.k));
    const std::int64_t word = word_size(batch.form);
    p.capacity = static_cast<int>(sieve_room(batch.k)) + SieveRow<Form, Reader>::round_words + 32;
    p.speculative = speculate(batch.rows.cols, batch.k, std::min<std::int64_t>(p.capacity, sieve_block_samples), 1,
                              Reader::count == 1 ? 1 : 32 / batch.rows.size);
    launch(blocks_for(batch.rows.rows, batch.multiprocessors), sieve_threads, (p.sorted + p.capacity) * word,
           sieve_block<Form, Reader>, p);
  });
}

template <class Launch>
const SelectKernel<Launch>& sieve_block_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "sieve_block",
      .refusal = [](const SelectArgs& task, FormName form) -> const char* {
        if (task.k <= sieve_most_k(form)) return nullptr;
        return form == FormName::wide ? "its k is at most 2,048 for values of 8 bytes" : "its k is at most 4,096";
      },
      .select_and_emit = run_sieve_block<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(sieve_block);

}  // namespace vicinal::cuda
