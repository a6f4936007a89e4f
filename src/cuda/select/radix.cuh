// Truncated radix sort, most significant digit first: Sismanis, Pitsianis and Sun 2012, II. A block a row counts the
// values of a digit of eight bits; buckets before that of the k-th word belong to the answer, those after it are
// dropped, and only the bucket of the k-th goes on to the next digit. Buckets are split stably, so that of equal keys
// the lowest positions are taken. What is left, the k words by buckets, is sorted by run_sort.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

template <class Form>
struct Radix {
  using Word = typename Form::Word;
  Rows rows;
  std::int64_t k;
  Word* list;             // rows x k
  Word* workspace;        // two arrays of candidates for each block
  std::int64_t capacity;  // of each
};

/// Which words of a row are candidates: those whose key has `prefix`
/// under `mask`; `shift` is that of the digit that splits them next.
template <class Key>
struct RadixDigit {
  Key prefix = 0, mask = 0;
  int shift = 0;
  __device__ __forceinline__ bool has(Key key) const { return (key & mask) == prefix; }
  __device__ __forceinline__ Key of(Key key) const { return key >> shift & 255; }
};

/// Counts the digits of the candidates among n words, and finds the digit of the need-th: chosen[0] is the digit,
/// chosen[1] the words before its bucket, and chosen[2] those in it.
template <class Form, class WordAt>
__device__ __forceinline__ void count_digits(const RadixDigit<typename Form::Key>& digits, std::int64_t n,
                                             std::int64_t need, unsigned* counts, std::uint64_t* sums,
                                             std::uint64_t* chosen, const WordAt& word) {
  constexpr int warps = radix_threads / 32;
  const int t = thread_index(), warp = warp_index();
  for (int i = t; i < warps * 256; i += radix_threads) counts[i] = 0;
  __syncthreads();
  for (std::int64_t i = t; i < n; i += radix_threads) {
    const auto key = Form::key(word(i));
    if (digits.has(key)) atomicAdd(counts + warp * 256 + static_cast<int>(digits.of(key)), 1u);
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
}

/// Splits the candidates among n words in order: those of a lower digit than `digit` go to lower_out, the first
/// same_end of its own to same_out.
template <class Form, class WordAt>
__device__ __forceinline__ void split_by_digit(const RadixDigit<typename Form::Key>& digits, typename Form::Key digit,
                                               std::int64_t n, typename Form::Word* lower_out,
                                               typename Form::Word* same_out, std::int64_t same_end,
                                               std::uint64_t* sums, const WordAt& word) {
  constexpr int segments = 4;
  const int lane = lane_index(), warp = warp_index();
  std::int64_t same_seen = 0, low_seen = 0;
  for (std::int64_t base = 0; base < n; base += radix_threads * segments) {
    // Where this warp's candidates stand among those of the round.
    typename Form::Word words[segments];
    unsigned low[segments], same[segments];
    std::uint64_t mine = 0;
#pragma unroll
    for (int s = 0; s < segments; ++s) {
      const std::int64_t i = base + (warp * segments + s) * 32 + lane;
      words[s] = i < n ? word(i) : Form::last();
      const auto key = Form::key(words[s]);
      const bool candidate = i < n && digits.has(key);
      low[s] = __ballot_sync(all_lanes, candidate && digits.of(key) < digit);
      same[s] = __ballot_sync(all_lanes, candidate && digits.of(key) == digit);
      mine += static_cast<std::uint64_t>(__popc(low[s])) | static_cast<std::uint64_t>(__popc(same[s])) << 32;
    }
    std::uint64_t in_round;
    const std::uint64_t before_warp = warps_before(mine, in_round, sums + (base / (radix_threads * segments) & 1) * 32);

    // Output.
    std::int64_t low_at = low_seen + static_cast<std::int64_t>(before_warp & 0xffffffffu);
    std::int64_t same_at = same_seen + static_cast<std::int64_t>(before_warp >> 32);
#pragma unroll
    for (int s = 0; s < segments; ++s) {
      if ((low[s] >> lane & 1) != 0) lower_out[low_at + votes_below(low[s])] = words[s];
      const std::int64_t place = same_at + votes_below(same[s]);
      if ((same[s] >> lane & 1) != 0 && place < same_end) same_out[place] = words[s];
      low_at += __popc(low[s]);
      same_at += __popc(same[s]);
    }
    low_seen += static_cast<std::int64_t>(in_round & 0xffffffffu);
    same_seen += static_cast<std::int64_t>(in_round >> 32);
  }
  __syncthreads();
}

template <class Form>
__global__ void __launch_bounds__(radix_threads) radix(Radix<Form> p) {
  using Word = typename Form::Word;
  using Key = typename Form::Key;
  static_assert(radix_threads == 256, "a thread a digit");
  VICINAL_SHARED(unsigned, counts, radix_threads / 32 * 256);
  VICINAL_SHARED(std::uint64_t, sums, 64);
  VICINAL_SHARED(std::uint64_t, chosen, 3);
  for (std::int64_t row = blockIdx.x; row < p.rows.rows; row += gridDim.x) {
    Word* answer = p.list + row * p.k;
    const Word* from = nullptr;
    std::int64_t n = p.rows.cols, kept = 0, need = p.k;
    RadixDigit<Key> digits;
    int into = 0;
    for (digits.shift = 8 * (p.rows.size - 1);; digits.shift -= 8) {
      const auto word = [&](std::int64_t i) { return from != nullptr ? from[i] : input_word<Form>(p.rows, row, i); };
      count_digits<Form>(digits, n, need, counts, sums, chosen, word);

      // Where the bucket of the need-th goes: to the answer, if all of it that is wanted is known, or to the
      // candidates, if they have room.
      const Key digit = static_cast<Key>(chosen[0]);
      const auto below = static_cast<std::int64_t>(chosen[1]), within = static_cast<std::int64_t>(chosen[2]);
      need -= below;
      const bool done = within == need || digits.shift == 0, store = !done && within <= p.capacity;
      Word* candidates = p.workspace + (2 * static_cast<std::int64_t>(blockIdx.x) + into) * p.capacity;
      Word* same_out = done ? answer + kept + below : candidates;
      const std::int64_t same_end = done ? need : store ? within : 0;
      split_by_digit<Form>(digits, digit, below != 0 || same_end != 0 ? n : 0, answer + kept, same_out, same_end, sums,
                           word);
      if (done) break;

      // The next digit, of that bucket alone.
      kept += below;
      digits.prefix |= digit << digits.shift;
      digits.mask |= Key{255} << digits.shift;
      if (store) {
        from = candidates;
        n = within;
        into ^= 1;
      }
    }
  }
}

template <class Launch>
void run_radix(Launch& launch, const SelectBatch& batch) {
  with_entries(batch.form, [&]<class Form>() {
    using Word = typename Form::Word;
    launch(batch.workers, radix_threads, 0, radix<Form>,
           {batch.rows, batch.k, static_cast<Word*>(batch.list), static_cast<Word*>(batch.workspace),
            radix_capacity(batch.rows.cols)});
  });
}

template <class Launch>
const SelectKernel<Launch>& radix_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "radix",
      .workspace = [](const SelectShape& s) { return radix_workspace(s.form, s.cols, s.multiprocessors); },
      .select = run_radix<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(radix);

}  // namespace vicinal::cuda
