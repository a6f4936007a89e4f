// Truncated radix sort, most significant digit first: Sismanis, Pitsianis and Sun 2012, II. A block a row counts the values of a
// digit of eight bits; buckets before that of the k-th word belong to the answer, those after it are dropped, and only the bucket
// of the k-th goes on to the next digit. Buckets are split stably, so that of equal keys the lowest positions are taken. What is
// left, the k words by buckets, is sorted by run_sort.
#pragma once
#include "cuda/select/job.hpp"

namespace vicinal::cuda {

template <class Form>
struct Radix {
  using Word = typename Form::Word;
  Rows rows;
  std::int64_t k;
  Word* list;             // rows x k
  Word* spare;            // two arrays of candidates for each block
  std::int64_t capacity;  // of each
};

template <class Form>
__global__ void __launch_bounds__(radix_threads) radix(Radix<Form> p) {
  using Word = typename Form::Word;
  using Key = typename Form::Key;
  constexpr int warps = radix_threads / 32, segments = 4;
  VICINAL_SHARED(unsigned, counts, warps * 256);
  VICINAL_SHARED(std::uint64_t, sums, 64);
  VICINAL_SHARED(std::uint64_t, chosen, 3);  // a digit, the words before its bucket, and those in it
  static_assert(radix_threads == 256, "a thread a digit");
  const int t = thread_index(), lane = lane_index(), warp = warp_index();
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    Word* answer = p.list + row * p.k;
    const Word* from = nullptr;
    std::int64_t n = p.rows.cols, kept = 0, need = p.k;
    Key prefix = 0, mask = 0;  // candidates are the words whose key has `prefix` under `mask`
    int into = 0;
    for (int shift = 8 * (p.rows.size - 1);; shift -= 8) {
      const auto word = [&](std::int64_t i) { return from != nullptr ? from[i] : input_word<Form>(p.rows, row, i); };

      // Count.
      for (int i = t; i < warps * 256; i += radix_threads) counts[i] = 0;
      __syncthreads();
      for (std::int64_t i = t; i < n; i += radix_threads) {
        const Key key = Form::key(word(i));
        if ((key & mask) == prefix) atomicAdd(counts + warp * 256 + static_cast<int>(key >> shift & 255), 1u);
      }
      __syncthreads();
      std::uint64_t of_digit = 0, total;
      for (int i = 0; i < warps; ++i) of_digit += counts[i * 256 + t];
      const std::uint64_t before = block_sum_before(of_digit, total, sums);
      if (before < static_cast<std::uint64_t>(need) && static_cast<std::uint64_t>(need) <= before + of_digit) {
        chosen[0] = static_cast<std::uint64_t>(t);
        chosen[1] = before;
        chosen[2] = of_digit;
      }
      __syncthreads();
      const Key digit = static_cast<Key>(chosen[0]);
      const auto below = static_cast<std::int64_t>(chosen[1]), within = static_cast<std::int64_t>(chosen[2]);
      need -= below;
      const bool done = within == need || shift == 0, store = !done && within <= p.capacity;
      Word* candidates = p.spare + (2 * static_cast<std::int64_t>(blockIdx.x) + into) * p.capacity;
      Word* same_out = done ? answer + kept + below : candidates;
      const std::int64_t same_end = done ? need : store ? within : 0;

      // Split, in order.
      std::int64_t same_seen = 0, low_seen = 0;
      for (std::int64_t base = 0; base < n && (below != 0 || same_end != 0); base += radix_threads * segments) {
        Word words[segments];
        unsigned low[segments], same[segments];
        std::uint64_t mine = 0;
#pragma unroll
        for (int s = 0; s < segments; ++s) {
          const std::int64_t i = base + (warp * segments + s) * 32 + lane;
          words[s] = i < n ? word(i) : Form::last();
          const Key key = Form::key(words[s]);
          const bool candidate = i < n && (key & mask) == prefix;
          low[s] = __ballot_sync(all_lanes, candidate && (key >> shift & 255) < digit);
          same[s] = __ballot_sync(all_lanes, candidate && (key >> shift & 255) == digit);
          mine += static_cast<std::uint64_t>(__popc(low[s])) | static_cast<std::uint64_t>(__popc(same[s])) << 32;
        }
        std::uint64_t in_round;
        const std::uint64_t before_warp =
            warps_before(mine, in_round, sums + (base / (radix_threads * segments) & 1) * 32);
        std::int64_t low_at = low_seen + static_cast<std::int64_t>(before_warp & 0xffffffffu);
        std::int64_t same_at = same_seen + static_cast<std::int64_t>(before_warp >> 32);
#pragma unroll
        for (int s = 0; s < segments; ++s) {
          if ((low[s] >> lane & 1) != 0) answer[kept + low_at + votes_below(low[s])] = words[s];
          const std::int64_t place = same_at + votes_below(same[s]);
          if ((same[s] >> lane & 1) != 0 && place < same_end) same_out[place] = words[s];
          low_at += __popc(low[s]);
          same_at += __popc(same[s]);
        }
        low_seen += static_cast<std::int64_t>(in_round & 0xffffffffu);
        same_seen += static_cast<std::int64_t>(in_round >> 32);
      }
      __syncthreads();
      if (done) break;
      kept += below;
      prefix |= digit << shift;
      mask |= Key{255} << shift;
      if (store) {
        from = candidates;
        n = within;
        into ^= 1;
      }
    }
  }
}

template <class Launch>
void run_radix(Launch& launch, const Job& job) {
  with_entries(job.form, [&]<class Form>() {
    using Word = typename Form::Word;
    launch(
        job.workers, radix_threads, 0, radix<Form>,
        {job.rows, job.k, static_cast<Word*>(job.list), static_cast<Word*>(job.spare), radix_capacity(job.rows.cols)});
  });
}

template <class Launch>
const SelectKernel<Launch>& radix_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "radix",
      .needs = [](const SelectShape& s) { return radix_needs(s.form, s.cols, s.multiprocessors); },
      .select = run_radix<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(radix);

}  // namespace vicinal::cuda
