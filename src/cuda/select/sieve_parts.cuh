// sieve_parts is sieve for a few rows of medium length, where a sample, a reading and a finish one after the other
// would mostly wait. A row is dealt out to parts, eight values at a time, at columns that hang on a hash. A block takes
// a part: the 16th of the least words of its threads, four by four, is a threshold that at least 16 words are not
// beyond, and those words, 32 at most, go to memory with the threshold. A block then takes what all parts found: its
// best k are the answer when the k-th is not beyond any part's threshold. Where a part held more of the answer than it
// could say, which takes rows that are made for it, the block reads the row itself.
#pragma once
#include "cuda/select/sieve.cuh"

namespace vicinal::cuda {

template <class Form>
struct SieveParts {
  Sieve one;
  int parts;  // a power of two
  // The found words of each row: the first of each part, the second of each part, ..., with last() where a part has no
  // more.
  typename Form::Word* found;
  typename Form::Word* thresholds;  // of each part: words that are not beyond it were found
};

/// How many of the buffer's words are less than this one.
template <class Word>
__device__ __forceinline__ int rank_in(const Word* buffer, int count, Word word) {
  int rank = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) rank += buffer[i] < word;
  return rank;
}

/// Gives all threads the rank-th, counted from 0, of the least words
/// of groups of `lanes` lanes: so many words at least are less.
template <class Form, int lanes, class Word = typename Form::Word>
__device__ __forceinline__ Word threshold_of_lanes(Word least, int rank, Word* buffer, Word* chosen) {
#pragma unroll
  for (int step = 1; step < lanes; step *= 2) {
    const Word other = from_lane(least, lane_index() ^ step);
    if (other < least) least = other;
  }
  const int mine = thread_index() % lanes;
  if (mine == 0) buffer[thread_index() / lanes] = least;
  if (thread_index() == 0) *chosen = Form::last();  // where fewer groups have words
  __syncthreads();
  int less = 0;
#pragma unroll 8
  for (int i = 0; i < sieve_threads / lanes / lanes; ++i) less += buffer[i * lanes + mine] < least;
#pragma unroll
  for (int step = 1; step < lanes; step *= 2) less += from_lane(less, lane_index() ^ step);
  if (mine == 0 && less == rank && least < Form::last()) *chosen = least;
  __syncthreads();
  return *chosen;
}

/// The keys of a part, those of this thread, which looks at them twice: of rows of up to 2^20 columns they stay in
/// registers. A thread's columns ascend.
template <bool Float>
class PartOfRow {
 public:
  __device__ PartOfRow(const Rows& rows, std::int64_t row, int part, int parts)
      : rows_(rows), row_(row), part_(part), parts_(parts), vectors_(static_cast<int>(rows.cols / 4)),
        groups_((vectors_ + 2 * parts - 1) / (2 * parts)),
        first_(reinterpret_cast<const Sixteen*>(rows.data + row * rows.row_stride)) {
    load(thread_index() / 2);
  }

  /// Calls body(key, column) for each.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) {
    for (int group = thread_index() / 2; group < groups_; group += at_once * step) {
      if (groups_ > at_once * step) load(group);
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (vector_[u] >= vectors_) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) body(keys_[u].word[i], vector_[u] * 4 + i);
      }
    }
    const int col = vectors_ * 4 + thread_index();
    if (part_ == 0 && col < rows_.cols) body(key_at<std::uint32_t>(rows_, row_, col), col);
  }

 private:
  static constexpr int at_once = 4, step = sieve_threads / 2;  // two threads a place
  __device__ __forceinline__ void load(int group) {
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      vector_[u] = 2 * static_cast<int>(sieve_part_place(row_, part_, group + u * step, parts_)) + thread_index() % 2;
      if (vector_[u] < vectors_) keys_[u] = first_[vector_[u]];
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t& one = keys_[u].word[i];
        one = Float ? ordered_float<std::uint32_t>(one, 0x7f800000u, rows_.largest)
                    : ordered_integer<std::uint32_t>(one, rows_.is_signed, rows_.largest);
      }
  }

  const Rows& rows_;
  std::int64_t row_;
  int part_, parts_, vectors_, groups_;
  const Sixteen* first_;
  Sixteen keys_[at_once];
  int vector_[at_once];
};

template <class Form, bool Float>
__global__ void __launch_bounds__(sieve_threads) sieve_parts_find(SieveParts<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(Word, least_of, sieve_threads);
  VICINAL_SHARED(Word, buffer, sieve_part_buffer);
  VICINAL_SHARED(Word, chosen, 1);
  VICINAL_SHARED(int, count, 1);
  let_next_start();
  for (std::int64_t work = blockIdx.x; work < p.one.rows.rows * p.parts; work += gridDim.x) {
    const std::int64_t row = work / p.parts;
    const int part = static_cast<int>(work % p.parts);
    PartOfRow<Float> values(p.one.rows, row, part, p.parts);
    // A threshold for the part: one of the least words of its threads.
    std::uint32_t least = ~0u;
    int least_col = -1;
    values.each([&](std::uint32_t key, int col) {
      if (key < least || least_col < 0) {
        least = key;
        least_col = col;
      }
    });
    if (thread_index() == 0) *count = 0;
    const Word mine = least_col < 0 ? Form::last() : Form::make(least, least_col);
    const Word threshold = threshold_of_lanes<Form, sieve_part_lanes>(mine, sieve_part_kept - 1, least_of, chosen);
    // Words within it; threads whose least is beyond it have none.
    const std::uint32_t most = Form::key(threshold);
    if (!(threshold < mine))
      values.each([&](std::uint32_t key, int col) {
        if (key > most) return;
        const Word word = Form::make(key, col);
        if (!(threshold < word)) buffer[atomicAdd(count, 1)] = word;
      });
    __syncthreads();
    // Output: all of them, or the least where there are too many.
    const int n = *count;
    Word* found = p.found + row * p.parts * sieve_part_slots + part;
    if (n <= sieve_part_slots) {
      if (thread_index() < sieve_part_slots)
        found[thread_index() * p.parts] = thread_index() < n ? buffer[thread_index()] : Form::last();
      if (thread_index() == 0) p.thresholds[work] = threshold;
    } else {
      for (int i = thread_index(); i < n; i += sieve_threads) {
        const int rank = rank_in(buffer, n, buffer[i]);
        if (rank < sieve_part_slots) found[rank * p.parts] = buffer[i];
        if (rank == sieve_part_slots - 1) p.thresholds[work] = buffer[i];
      }
    }
    __syncthreads();
  }
}

template <class Form>
__global__ void __launch_bounds__(sieve_threads) sieve_parts_finish(SieveParts<Form> p) {
  using Word = typename Form::Word;
  constexpr int held = sieve_most_parts * sieve_part_slots / sieve_threads;
  VICINAL_SHARED(SieveState, state, 1);
  VICINAL_SHARED(int, sums, 2 * sieve_warps);
  VICINAL_SHARED(Word, ends, 2 * sieve_warps);
  VICINAL_SHARED(Word, least_of, sieve_threads);
  VICINAL_SHARED(Word, chosen, 1);
  const int k = static_cast<int>(p.one.k), t = thread_index(), words = p.parts * sieve_part_slots;
  SieveRow<Form, StridedReader<typename Form::Key>> sieve(p.one, dynamic_shared<Word>(), state, sums, ends);
  wait_for_earlier();
  for (std::int64_t row = blockIdx.x; row < p.one.rows.rows; row += gridDim.x) {
    // This thread's words of what the parts found.
    const Word* found = p.found + row * words;
    Word word[held], least = Form::last();  // parts are at least 64, so that words fill rounds of all threads
#pragma unroll
    for (int i = 0; i < held; ++i) word[i] = i * sieve_threads < words ? found[i * sieve_threads + t] : Form::last();
#pragma unroll
    for (int i = 0; i < held; ++i)
      if (word[i] < least) least = word[i];
    const Word least_limit = t < p.parts ? p.thresholds[row * p.parts + t] : Form::last();
    sieve.clear();
    // A threshold from the least words of groups of threads: few groups are fewer comparisons, and leave more words.
    const Word threshold = k <= 24    ? threshold_of_lanes<Form, 4>(least, k - 1, least_of, chosen)
                           : k <= 100 ? threshold_of_lanes<Form, 2>(least, k - 1, least_of, chosen)
                                      : threshold_of_lanes<Form, 1>(least, k - 1, least_of, chosen);
    // Those within it, side by side in shared memory.
    unsigned within = 0;
    static_assert(held == 32, "a bit a word");
#pragma unroll
    for (int i = 0; i < held; ++i)
      within |= static_cast<unsigned>(!(threshold < word[i]) && word[i] < Form::last()) << i;
    int of_warp, before = 0;
    const int place = warp_sum_before(__popc(within), of_warp);
    if (lane_index() == 0 && of_warp > 0) before = atomicAdd(&state->count, of_warp);
    Word* next = sieve.buffer() + place + from_lane(before, 0);
#pragma unroll
    for (int i = 0; i < held; ++i)
      if ((within >> i & 1) != 0) *next++ = word[i];
    __syncthreads();
    if (state->count > sieve_parts_compared) {  // neighbours of a value are in one part, as in sorted rows
      Word last = threshold;
      sieve.drop(k, last);
    }
    // Output, where the parts have told all of the answer.
    const int n = state->count;
    for (int i = t; i < n; i += sieve_threads) {
      const Word one = sieve.buffer()[i];
      const int rank = rank_in(sieve.buffer(), n, one);
      if (rank < k) sieve.answer()[rank] = one;
    }
    __syncthreads();
    const bool beyond = n < k || least_limit < sieve.answer()[k - 1];
    if (!__syncthreads_or(beyond)) {
      for (int i = t; i < k; i += sieve_threads)
        emit_word<Form, 4>(p.one.rows, p.one.out, row, row * k + i, sieve.answer()[i]);
    } else {
      Word exact = sieve.exact_threshold(row, p.one.k);
      sieve.clear();
      sieve.gather(row, 0, p.one.rows.cols, exact, [&](Word& now) { sieve.drop(k, now); });
      sieve.shrink(k);
      sieve.finish(row, k);
    }
    __syncthreads();
  }
}

template <class Launch>
void run_sieve_parts(Launch& launch, const SelectBatch& batch, const Emission& emission) {
  SieveParts<Packed> p;
  p.one.rows = batch.rows;
  p.one.k = batch.k;
  p.one.out = emission;
  p.parts = sieve_parts(batch.rows.cols);
  p.found = static_cast<Packed::Word*>(batch.workspace);
  p.thresholds = p.found + batch.rows.rows * p.parts * sieve_part_slots;
  launch(blocks_for(batch.rows.rows * p.parts, batch.multiprocessors), sieve_threads, 0,
         batch.rows.is_float ? sieve_parts_find<Packed, true> : sieve_parts_find<Packed, false>, p);
  p.one.sorted = static_cast<int>(power_of_two(batch.k));
  p.one.capacity = sieve_most_parts * sieve_part_slots;  // all that may be found
  launch.next(blocks_for(batch.rows.rows, batch.multiprocessors), sieve_threads,
              (p.one.sorted + p.one.capacity) * sizeof(Packed::Word), sieve_parts_finish<Packed>, p);
}

inline const char* sieve_parts_refusal(const SelectArgs& task, FormName /*form*/) {
  const auto multiple = [](std::int64_t bytes) { return bytes % 16 == 0; };
  const Values& values = task.values;
  if (value_size(values.type) != 4) return "it is for values of 4 bytes";
  if (values.col_stride != 4 || (values.rows > 1 && !multiple(values.row_stride)) ||
      !multiple(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(values.data))))
    return "its rows are values side by side that start at multiples of 16 bytes";
  if (values.cols < sieve_parts_least_cols || values.cols > sieve_parts_most_cols)
    return "its rows have 65,536 to 4,194,304 columns";
  return task.k <= sieve_parts_most_k ? nullptr : "its k is at most 128";
}

template <class Launch>
const SelectKernel<Launch>& sieve_parts_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "sieve_parts",
      .refusal = sieve_parts_refusal,
      .workspace = [](const SelectShape& s) { return sieve_parts_workspace(s.cols); },
      .select_and_emit = run_sieve_parts<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(sieve_parts);

}  // namespace vicinal::cuda
