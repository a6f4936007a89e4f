// sieve_grid is sieve with many blocks a row, for rows too few to fill the device: one launch takes speculative
// thresholds, one gathers what is not beyond them in global memory, one finishes. Answers longer than a block sorts are
// selected by one block a row, which sees that there are enough words and not too many, and then sorted by run_sort.
#pragma once
#include "cuda/select/sieve.cuh"

namespace vicinal::cuda {

template <class Form>
struct SieveGrid {
  using Word = typename Form::Word;
  Sieve one;
  std::int64_t chunk, chunks;  // columns of a block of the gathering, and such blocks a row
  int samplers, kept;          // blocks that sample a row, and the smallest words that each hands on
  Word* thresholds;            // a row
  Word* samples;               // samplers x kept a row
  Word* found;                 // most_found a row
  std::int64_t most_found;
  unsigned long long* counts;  // words found, a row
  unsigned* arrived;           // samplers done, a row
};

/// The rows of kernels that read them seldom, or little of them: one instance for all types.
template <class Form>
using SlowRow = SieveRow<Form, StridedReader<typename Form::Key>>;

template <class Form>
__global__ void sieve_start(SieveGrid<Form> p) {
  const std::int64_t step = std::int64_t{gridDim.x} * sieve_threads;
  for (std::int64_t row = std::int64_t{blockIdx.x} * sieve_threads + thread_index(); row < p.one.rows.rows;
       row += step) {
    p.counts[row] = 0;
    p.arrived[row] = 0;
    p.thresholds[row] = Form::last();
  }
}

/// Each block hands on the smallest of its samples; the last of a row to come chooses among them.
template <class Form>
__global__ void __launch_bounds__(sieve_threads) sieve_speculate(SieveGrid<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  VICINAL_SHARED(unsigned, before, 1);
  SlowRow<Form> sieve(p.one, dynamic_shared<Word>(), state, sums, ends);
  for (std::int64_t work = blockIdx.x; work < p.one.rows.rows * p.samplers; work += gridDim.x) {
    const std::int64_t row = work / p.samplers;
    const int number = static_cast<int>(work % p.samplers);
    sieve.sample(row, number, p.samplers);
    int count = p.one.speculative.samples;
    if (p.samplers > 1) {
      if (thread_index() == 0) state->count = count;
      __syncthreads();
      sieve.shrink(p.kept);
      Word* all = p.samples + row * p.samplers * p.kept;
      for (int i = thread_index(); i < p.kept; i += sieve_threads) all[number * p.kept + i] = sieve.answer()[i];
      __threadfence();
      __syncthreads();
      if (thread_index() == 0) before[0] = atomicAdd(p.arrived + row, 1u);
      __syncthreads();
      const bool last = before[0] + 1 == static_cast<unsigned>(p.samplers);
      __syncthreads();
      if (!last) continue;
      __threadfence();
      count = p.samplers * p.kept;
      for (int i = thread_index(); i < count; i += sieve_threads) sieve.buffer()[i] = all[i];
      __syncthreads();
    }
    const Word threshold = sieve.threshold_among(count, p.one.speculative.rank, p.one.speculative.most_rank);
    if (thread_index() == 0) {
      p.thresholds[row] = threshold;
      p.counts[row] = 0;
    }
    __syncthreads();
  }
}

/// The buffer's words to the row's list in global memory, as many as fit there.
template <class Form, class Reader>
__device__ void sieve_flush(const SieveGrid<Form>& p, SieveRow<Form, Reader>& sieve, SieveState* state,
                            std::int64_t row) {
  const int count = state->count;
  if (thread_index() == 0)
    state->need = static_cast<std::int64_t>(atomicAdd(p.counts + row, static_cast<unsigned long long>(count)));
  __syncthreads();
  const std::int64_t first = state->need;
  for (int i = thread_index(); i < count; i += sieve_threads)
    if (first + i < p.most_found) p.found[row * p.most_found + first + i] = sieve.buffer()[i];
  if (thread_index() == 0) state->count = 0;
  __syncthreads();
}

template <class Form, class Reader>
__global__ void __launch_bounds__(sieve_threads, sieve_blocks) sieve_gather(SieveGrid<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  SieveRow<Form, Reader> sieve(p.one, dynamic_shared<Word>(), state, sums, ends);
  for (std::int64_t work = blockIdx.x; work < p.one.rows.rows * p.chunks; work += gridDim.x) {
    const std::int64_t row = work / p.chunks, begin = work % p.chunks * p.chunk;
    const std::int64_t end = begin + p.chunk < p.one.rows.cols ? begin + p.chunk : p.one.rows.cols;
    Word threshold = p.thresholds[row];
    sieve.clear();
    sieve.gather(row, begin, end, threshold, [&](Word&) { sieve_flush(p, sieve, state, row); });
    if (state->count > 0) sieve_flush(p, sieve, state, row);
    __syncthreads();
  }
}

/// Whether the row's list is the words not beyond its threshold, and at least k of them.
template <class Form>
__device__ __forceinline__ bool sieve_sound(const SieveGrid<Form>& p, std::int64_t row) {
  const std::int64_t count = static_cast<std::int64_t>(p.counts[row]);
  return count >= p.one.k && count <= p.most_found;
}

/// A block a row: what was found, or where that is not sound the row itself, to the results.
template <class Form>
__global__ void __launch_bounds__(sieve_threads) sieve_finish(SieveGrid<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  SlowRow<Form> sieve(p.one, dynamic_shared<Word>(), state, sums, ends);
  const int k = static_cast<int>(p.one.k);
  for (std::int64_t row = blockIdx.x; row < p.one.rows.rows; row += gridDim.x) {
    Word threshold = p.thresholds[row];
    sieve.clear();
    if (sieve_sound(p, row)) {
      const std::int64_t count = static_cast<std::int64_t>(p.counts[row]);
      for (std::int64_t base = 0; base < count;) {
        const int held = state->count;
        std::int64_t more = p.one.capacity - held;
        if (more > count - base) more = count - base;
        __syncthreads();
        for (std::int64_t i = thread_index(); i < more; i += sieve_threads)
          sieve.buffer()[held + i] = p.found[row * p.most_found + base + i];
        if (thread_index() == 0) state->count = held + static_cast<int>(more);
        __syncthreads();
        base += more;
        if (base < count) sieve.drop(k, threshold);
      }
    } else {
      threshold = sieve.exact_threshold(row, p.one.k);
      sieve.clear();
      sieve.gather(row, 0, p.one.rows.cols, threshold, [&](Word& now) { sieve.drop(k, now); });
    }
    sieve.shrink(k);
    sieve.finish(row, k);
  }
}

/// A block a row: mends what is not sound and ends the list with words that come after every other.
template <class Form>
__global__ void __launch_bounds__(sieve_threads) sieve_long_rows(SieveGrid<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  SlowRow<Form> sieve(p.one, dynamic_shared<Word>(), state, sums, ends);
  for (std::int64_t row = blockIdx.x; row < p.one.rows.rows; row += gridDim.x) {
    const bool sound = sieve_sound(p, row);
    __syncthreads();
    if (!sound) {
      Word threshold = sieve.exact_threshold(row, p.one.k);
      if (thread_index() == 0) p.counts[row] = 0;
      sieve.clear();
      sieve.gather(row, 0, p.one.rows.cols, threshold, [&](Word&) { sieve_flush(p, sieve, state, row); });
      if (state->count > 0) sieve_flush(p, sieve, state, row);
      __syncthreads();
    }
    for (std::int64_t i = static_cast<std::int64_t>(p.counts[row]) + thread_index(); i < p.most_found;
         i += sieve_threads)
      p.found[row * p.most_found + i] = Form::last();
  }
}

template <class Launch>
void run_sieve_grid(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  const SieveGridPlan plan = sieve_grid_plan(batch.rows.cols, batch.k, batch.rows.size, batch.form);
  const std::int64_t rows = batch.rows.rows, word = word_size(batch.form);
  with_reader(batch.form, batch.rows, [&]<class Form, class Reader>() {
    using Word = typename Form::Word;
    SieveGrid<Form> p;
    p.one.rows = batch.rows;
    p.one.k = batch.k;
    p.one.out = emission;
    p.one.speculative = plan.speculative;
    p.samplers = plan.samplers;
    p.kept = plan.kept;
    p.most_found = plan.most_found;
    p.thresholds = static_cast<Word*>(batch.workspace);
    p.samples = p.thresholds + rows;
    p.found = static_cast<Word*>(batch.list);
    p.counts = reinterpret_cast<unsigned long long*>(p.samples + rows * plan.samplers * plan.kept);
    p.arrived = reinterpret_cast<unsigned*>(p.counts + rows);
    const auto memory = [&](std::int64_t sorted, std::int64_t capacity) {
      p.one.sorted = static_cast<int>(sorted);
      p.one.capacity = static_cast<int>(capacity);
      return (sorted + capacity) * word;
    };
    constexpr std::int64_t round = SieveRow<Form, Reader>::round_words + 32;
    if (plan.speculative.samples == 0 || plan.samplers > 1)  // else one block a row starts it
      launch(blocks_for(divide_up(rows, sieve_threads), batch.multiprocessors), sieve_threads, 0, sieve_start<Form>, p);
    if (plan.speculative.samples > 0) {
      const std::int64_t bytes =
          memory(plan.kept, std::max<std::int64_t>(plan.speculative.samples, plan.samplers * plan.kept));
      launch(blocks_for(rows * plan.samplers, batch.multiprocessors), sieve_threads, bytes, sieve_speculate<Form>, p);
    }
    // As many blocks as the device holds at a time, or some times that.
    p.chunk = divide_up(divide_up(batch.rows.cols * rows, std::int64_t{batch.multiprocessors} * 8), 1024) * 1024;
    p.chunk = std::max<std::int64_t>(p.chunk, 4096);
    p.chunks = divide_up(batch.rows.cols, p.chunk);
    const std::int64_t gather_bytes = memory(0, 1024 + round);
    launch(blocks_for(rows * p.chunks, batch.multiprocessors), sieve_threads, gather_bytes, sieve_gather<Form, Reader>,
           p);
    const std::int64_t by_row = blocks_for(rows, batch.multiprocessors);
    if (plan.in_block) {
      const std::int64_t all =
          std::min<std::int64_t>(plan.most_found, (64 << 10) / word);  // what was found, at once where it fits
      const std::int64_t bytes = memory(power_of_two(batch.k), std::max(sieve_room(batch.k) + round, all));
      launch(by_row, sieve_threads, bytes, sieve_finish<Form>, p);
      return;
    }
    const std::int64_t bytes = memory(0, 1024 + round);
    launch(by_row, sieve_threads, bytes, sieve_long_rows<Form>, p);
    SelectBatch rest = batch;
    rest.k = plan.most_found;
    rest.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(p.arrived + rows) + 15) / 16 * 16);
    run_sort(launch, rest);
    rest.k = batch.k;
    rest.list_row = plan.most_found;
    run_emit(launch, rest, emission);
  });
}

template <class Launch>
const SelectKernel<Launch>& sieve_grid_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "sieve_grid",
      .workspace = [](const SelectShape& s) { return sieve_grid_workspace(s.cols, s.k, s.size, s.form); },
      .list_words = [](const SelectShape& s) { return sieve_grid_plan(s.cols, s.k, s.size, s.form).most_found; },
      .select_and_emit = run_sieve_grid<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(sieve_grid);

}  // namespace vicinal::cuda
