// sieve_block: sieve with a block a row, from the row to the caller's results in one launch.
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
    Word limit = Form::last();
    if (p.guess.samples > 0) {
      sieve.sample(row, 0, 1);
      limit = sieve.limit_among(p.guess.samples, p.guess.rank, p.guess.most_rank);
    }
    for (;;) {
      sieve.clear();
      sieve.gather(row, 0, p.rows.cols, limit, [&](Word& now) { sieve.drop(k, now); });
      if (sieve.count() >= k) break;
      __syncthreads();
      limit = sieve.exact_limit(row, p.k);
    }
    sieve.shrink(k);
    sieve.finish(row, k);
  }
}

template <class Launch>
void run_sieve_block(Launch& launch, const Job& job, const Emission& emission) {
  with_reader(job.form, job.rows, [&]<class Form, class Reader>() {
    Sieve p;
    p.rows = job.rows;
    p.k = job.k;
    p.out = emission;
    p.sorted = static_cast<int>(power_of_two(job.k));
    const std::int64_t word = word_size(job.form);
    p.capacity = static_cast<int>(sieve_room(job.k)) + SieveRow<Form, Reader>::round_words + 32;
    p.guess = sieve_guess(job.rows.cols, job.k, std::min<std::int64_t>(p.capacity, sieve_block_samples), 1,
                          Reader::count == 1 ? 1 : 32 / job.rows.size);
    launch(blocks_for(job.rows.rows, job.multiprocessors), sieve_threads, (p.sorted + p.capacity) * word,
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
