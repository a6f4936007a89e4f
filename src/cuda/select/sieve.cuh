// Sieve is vicinal's own selection on CUDA (docs/design/0014): it takes a speculative threshold from a sample of the
// row, keeps in one pass what is not beyond it, and finishes exactly. Thresholds are words, a key and a position, so
// equal values are cut by position and rows of equal values are like any other. This file holds what a block does with
// a row; sieve_block.cuh and sieve_grid.cuh are the kernels: a block a row, and many blocks a row.
//   Words within the threshold gather in shared memory. When they fill it, the k-th of them is a better one, which no
//   word of the answer is beyond, and the rest is dropped: so no threshold can be too high. One that was too low, fewer
//   than k words kept, is seen by the count; then the k-th word is found digit by digit and the row read again.
#pragma once
#include "cuda/select/dense.cuh"
#include "cuda/select/emit.cuh"

namespace vicinal::cuda {

inline constexpr int sieve_threads = 256, sieve_warps = sieve_threads / 32;
inline constexpr int sieve_blocks = 4;   // of a multiprocessor, at least
inline constexpr int sieve_vectors = 2;  // that a thread has in work, and as many on the way

struct Sieve {
  Rows rows;
  std::int64_t k = 0;
  SpeculativeThreshold speculative;
  int capacity = 0;  // words that shared memory gathers; before them lie `sorted` more, for the answer
  int sorted = 0;    // a power of two, from k on
  Emission out;
};

/// The buffers of shared memory of a block.
struct SieveState {
  int count;   // words gathered
  int chosen;  // of another list
  std::int64_t need;
  std::uint64_t digit;
};

template <class Form, class Reader>
class SieveRow {
 public:
  using Word = typename Form::Word;
  using Key = typename Form::Key;
  /// What a round of gathering may add.
  static constexpr int round_words = sieve_threads * sieve_vectors * Reader::count;

  __device__ SieveRow(const Sieve& p, Word* memory, SieveState* state, int* sums, Word* ends)
      : p_(p), answer_(memory), buffer_(memory + p.sorted), state_(state), sums_(sums), ends_(ends) {}

  /// A threshold from a sample: `blocks` blocks look at different values of the row, this is number `block`. Leaves the
  /// sample in the buffer; its number of words is speculative.samples.
  __device__ void sample(std::int64_t row, int block, int blocks) {
    const std::int64_t runs = std::int64_t{p_.speculative.samples} / p_.speculative.run * blocks;
    const std::int64_t stratum = p_.rows.cols / runs / p_.speculative.run * p_.speculative.run;
#pragma unroll 4
    for (int i = thread_index(); i < p_.speculative.samples; i += sieve_threads) {
      const std::int64_t run =
          std::int64_t{block} * (p_.speculative.samples / p_.speculative.run) + i / p_.speculative.run;
      const std::int64_t col = sieve_sample_column(row, run, stratum, p_.speculative.run) + i % p_.speculative.run;
      buffer_[i] = input_word<Form>(p_.rows, row, col);
    }
    __syncthreads();
  }

  /// A word of the buffer's first `count` that at least `least` and at most `most` of them are not beyond; where so few
  /// words cannot be had, since a word is there several times, as few as can be. All threads get it.
  __device__ Word threshold_among(int count, int least, int most) {
    Word low = Form::last(), high = Form::first();
    for (int i = thread_index(); i < count; i += sieve_threads) {
      const Word word = buffer_[i];
      if (word < low) low = word;
      if (high < word) high = word;
    }
    ends(low, high);
    for (int phase = 0; low < high; phase ^= 1) {
      const Word middle = Form::middle(low, high);
      int mine = 0;
      for (int i = thread_index(); i < count; i += sieve_threads) mine += !(middle < buffer_[i]);
      mine = __reduce_add_sync(all_lanes, mine);
      if (lane_index() == 0) sums_[phase * sieve_warps + warp_index()] = mine;
      __syncthreads();
      int total = 0;
      for (int i = 0; i < sieve_warps; ++i) total += sums_[phase * sieve_warps + i];
      if (total < least) {
        low = Form::after(middle);
      } else {
        high = middle;
        if (total <= most) break;
      }
    }
    // The word itself: between it and `high` there may be many of which the buffer is not told.
    Word none = Form::last(), threshold = Form::first();
    for (int i = thread_index(); i < count; i += sieve_threads) {
      const Word word = buffer_[i];
      if (!(high < word) && threshold < word) threshold = word;
    }
    ends(none, threshold);
    return threshold;
  }

  /// Gathers the words of columns [begin, end) that are not beyond the threshold; full() is called by all threads when
  /// another round may not fit, and makes room. The count is in state->count.
  template <class Full>
  __device__ void gather(std::int64_t row, std::int64_t begin, std::int64_t end, Word& threshold, const Full& full) {
    using Vector = typename Reader::Vector;
    const Segment s = Reader::segment(p_.rows, row, begin, end);
    int last = -1;  // place of this thread's last word
    const std::int64_t edges = s.head - s.begin + s.end - s.tail;
    if (thread_index() < edges) {  // fewer than 32
      const std::int64_t head = s.head - s.begin, i = thread_index();
      const std::int64_t col = i < head ? s.begin + i : s.tail + (i - head);
      offer(key_at<Key>(p_.rows, row, col), col, threshold, last);
    }
    Vector now[sieve_vectors], next[sieve_vectors];
#pragma unroll
    for (int u = 0; u < sieve_vectors; ++u) {
      const std::int64_t at = u * sieve_threads + thread_index();
      if (at < s.vectors) next[u] = Reader::load(p_.rows, row, s, at);
    }
    for (std::int64_t base = 0; base < s.vectors; base += sieve_threads * sieve_vectors) {
      if (__syncthreads_or(last + 1 + round_words + 32 > p_.capacity)) {
        full(threshold);
        last = -1;
      }
#pragma unroll
      for (int u = 0; u < sieve_vectors; ++u) {
        now[u] = next[u];
        const std::int64_t at = base + (sieve_vectors + u) * sieve_threads + thread_index();
        if (at < s.vectors) next[u] = Reader::load(p_.rows, row, s, at);
      }
      const Key most = Form::key(threshold);
#pragma unroll
      for (int u = 0; u < sieve_vectors; ++u) {
        const std::int64_t at = base + u * sieve_threads + thread_index();
        if (at >= s.vectors) break;
#pragma unroll
        for (int i = 0; i < Reader::count; ++i) {
          const Key key = Reader::key(p_.rows, now[u], i);
          if (key <= most) offer(key, s.head + at * Reader::count + i, threshold, last);
        }
      }
    }
    __syncthreads();
  }

  /// Moves the buffer's words that are not beyond the k-th to answer_, in any order. Returns the k-th.
  __device__ Word shrink(int k) {
    const int count = state_->count;
    const Word threshold = threshold_among(count, k, k);
    if (thread_index() == 0) state_->chosen = 0;
    __syncthreads();
    for (int base = 0; base < count; base += sieve_threads) {
      const int i = base + thread_index();
      const bool in = i < count && !(threshold < buffer_[i]);
      const unsigned votes = __ballot_sync(all_lanes, in);
      int first = 0;
      if (lane_index() == 0 && votes != 0) first = atomicAdd(&state_->chosen, __popc(votes));
      first = from_lane(first, 0);
      if (in) answer_[first + votes_below(votes)] = buffer_[i];
    }
    __syncthreads();
    return threshold;
  }

  /// The same, and back into the buffer.
  __device__ void drop(int k, Word& threshold) {
    threshold = shrink(k);
    for (int i = thread_index(); i < k; i += sieve_threads) buffer_[i] = answer_[i];
    if (thread_index() == 0) state_->count = k;
    __syncthreads();
  }

  /// The k-th word of the row, from counts of its digits; `buffer_` is lost.
  __device__ Word exact_threshold(std::int64_t row, std::int64_t k) {
    auto* counts = reinterpret_cast<unsigned long long*>(buffer_);
    auto* before = reinterpret_cast<std::int64_t*>(counts + 256);
    static_assert(sieve_threads == 256, "a thread a digit");
    Key prefix = 0, mask = 0;
    std::int64_t need = k;
    const int t = thread_index();
    for (int shift = 8 * (p_.rows.size - 1); shift >= 0; shift -= 8) {
      counts[t] = 0;
      __syncthreads();
      for (std::int64_t i = t; i < p_.rows.cols; i += sieve_threads) {
        const Key key = key_at<Key>(p_.rows, row, i);
        if ((key & mask) == prefix) atomicAdd(counts + static_cast<int>(key >> shift & 255), 1ull);
      }
      __syncthreads();
      const auto mine = static_cast<std::int64_t>(counts[t]);
      std::int64_t total;
      const std::int64_t below = block_sum_before(mine, total, before);
      if (below < need && need <= below + mine) {
        state_->digit = static_cast<std::uint64_t>(t);
        state_->need = need - below;
      }
      __syncthreads();
      prefix |= static_cast<Key>(static_cast<Key>(state_->digit) << shift);
      mask |= static_cast<Key>(Key{255} << shift);
      need = state_->need;
    }
    // The position of the need-th of the equal keys.
    std::int64_t seen = 0;
    int* votes_of = reinterpret_cast<int*>(before);
    for (std::int64_t base = 0; seen < need; base += sieve_threads) {
      const std::int64_t col = base + t;
      const bool is = col < p_.rows.cols && key_at<Key>(p_.rows, row, col) == prefix;
      const unsigned votes = __ballot_sync(all_lanes, is);
      __syncthreads();
      int total;
      const std::int64_t place = seen + warps_before(__popc(votes), total, votes_of) + votes_below(votes);
      if (is && place == need - 1) state_->need = col;
      seen += total;
    }
    __syncthreads();
    const std::int64_t col = state_->need;
    __syncthreads();
    return Form::make(prefix, col);
  }

  /// Sorts the k words of answer_ and writes them where the caller wants them.
  __device__ void finish(std::int64_t row, int k) {
    for (int i = k + thread_index(); i < p_.sorted; i += sieve_threads) answer_[i] = Form::last();
    __syncthreads();
    for (int size = 2; size <= p_.sorted; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int pair = thread_index(); pair < p_.sorted / 2; pair += sieve_threads) {
          const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
          const Word a = answer_[i], b = answer_[j];
          if ((b < a) == ((i & size) == 0)) {
            answer_[i] = b;
            answer_[j] = a;
          }
        }
        __syncthreads();
      }
    for (int i = thread_index(); i < k; i += sieve_threads)
      emit_word<Form>(p_.rows, p_.out, row, row * k + i, answer_[i]);
    __syncthreads();
  }

  /// An empty buffer.
  __device__ void clear() {
    if (thread_index() == 0) state_->count = 0;
    __syncthreads();
  }

  __device__ Word* buffer() { return buffer_; }
  __device__ Word* answer() { return answer_; }
  __device__ int count() const { return state_->count; }

 private:
  /// The least `low` and the greatest `high` of all threads.
  __device__ void ends(Word& low, Word& high) {
    for (int step = 16; step > 0; step /= 2) {
      const Word a = from_lane(low, lane_index() ^ step), b = from_lane(high, lane_index() ^ step);
      if (a < low) low = a;
      if (high < b) high = b;
    }
    Word* of_warps = ends_;
    if (lane_index() == 0) {
      of_warps[warp_index()] = low;
      of_warps[sieve_warps + warp_index()] = high;
    }
    __syncthreads();
    for (int i = 0; i < sieve_warps; ++i) {
      if (of_warps[i] < low) low = of_warps[i];
      if (high < of_warps[sieve_warps + i]) high = of_warps[sieve_warps + i];
    }
    __syncthreads();  // what was read may be written again
  }

  __device__ __forceinline__ void offer(Key key, std::int64_t col, const Word& threshold, int& last) {
    const Word word = Form::make(key, col);
    if (threshold < word) return;
    last = atomicAdd(&state_->count, 1);
    buffer_[last] = word;
  }

  const Sieve& p_;
  Word* answer_;
  Word* buffer_;
  SieveState* state_;
  int* sums_;   // 2 * sieve_warps
  Word* ends_;  // as many
};

}  // namespace vicinal::cuda
