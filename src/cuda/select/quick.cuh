// Quick multi-select: Komarov, Dashti and D'Souza 2014. A group, a warp or a block, partitions its row around
// a pivot in segments of 32 words: ballots and popcounts say where each word goes, the segment is put in
// order in shared memory, and both sides are written side by side into an auxiliary array. What is known to
// belong to the answer stays where it is, and a stack of references says in which array; only the part that
// holds the k-th word is partitioned again. Ours: words equal to the pivot are counted, not moved, so that
// equal words cost one pass; the pivot is a sample of a rank near the one that is wanted; after
// `sampled_rounds` it is the middle of the words still possible, so no input takes more than the bits of a
// word in rounds; and the last words, as many as the group has lanes, are ranked by counting.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

template <class Form>
struct Quick {
  using Word = typename Form::Word;
  Rows rows;
  std::int64_t k;
  Word* list;       // rows x k
  Word* workspace;  // two arrays of a row's length for each group
  std::int64_t groups;
};

inline constexpr int quick_segments = 4;  // that a warp holds in registers at a time
inline constexpr int sampled_rounds = 20;
inline constexpr int most_parts = sampled_rounds + 130;  // a word is of 128 bits at most

/// The words from the end of the part before up to `end` are in array `source`; 2 is the input.
struct QuickPart {
  std::int64_t end;
  int source;
};

/// Warps of a group, 0 for a whole block.
template <class Form, int warps>
class QuickGroup {
  using Word = typename Form::Word;

 public:
  // `segments`: 32 words a warp of the group; `parts`: most_parts; `sums`: two buffers of a number a warp.
  __device__ QuickGroup(const Quick<Form>& p, std::int64_t group, Word* segments, QuickPart* parts, std::uint64_t* sums)
      : p_(p), arrays_(p.workspace + group * 2 * p.rows.cols), segments_(segments), parts_(parts), sums_(sums) {}

  __device__ void select(std::int64_t row) {
    row_ = row;
    Word* answer = p_.list + row * p_.k;
    std::int64_t low = 0, high = p_.rows.cols;  // the part in work; the answer before it is known
    Word least = Form::first(), most = Form::last();
    int source = 2, parts = 0;
    for (int round = 0;; ++round) {
      const std::int64_t need = p_.k - low, count = high - low;
      if (need == 0) break;
      if (need == count) {
        keep(parts, high, source);
        break;
      }
      if (count <= size()) {
        rank(answer + low, source, low, static_cast<int>(count), need);
        break;
      }
      const Word pivot = round < sampled_rounds ? sample(source, low, count, need, round) : Form::middle(least, most);
      std::int64_t left = low, right = high;
      const int into = source == 0 ? 1 : 0;
      partition(source, into, pivot, left, right);
      // [low, left) is before the pivot, [right, high) after it; between are its equals, of which none is written yet.
      if (p_.k <= left) {
        high = left;
        most = Form::before(pivot);
      } else {
        const std::int64_t end = p_.k < right ? p_.k : right;
        Word* out = arrays_ + into * p_.rows.cols;
        for (std::int64_t i = left + index(); i < end; i += size()) out[i] = pivot;
        if (end > low) keep(parts, end, into);
        low = end;
        least = Form::after(pivot);
      }
      source = into;
      sync();
    }
    sync();
    std::int64_t i = 0;
    for (int n = 0; n < parts; ++n) {
      const QuickPart part = parts_[n];
      for (std::int64_t at = i + index(); at < part.end; at += size()) answer[at] = word(part.source, at);
      i = part.end;
    }
    sync();
  }

 private:
  __device__ static int size() { return warps == 1 ? 32 : thread_count(); }
  __device__ static int index() { return warps == 1 ? lane_index() : thread_index(); }
  __device__ static int warp() { return warps == 1 ? 0 : warp_index(); }
  __device__ static void sync() {
    if constexpr (warps == 1) __syncwarp();
    else __syncthreads();
  }
  __device__ Word word(int source, std::int64_t i) const {
    return source == 2 ? input_word<Form>(p_.rows, row_, i) : arrays_[source * p_.rows.cols + i];
  }
  __device__ void keep(int& parts, std::int64_t end, int source) {
    if (index() == 0) parts_[parts] = {end, source};
    ++parts;
  }

  /// The last words: each lane counts those before its own.
  __device__ void rank(Word* answer, int source, std::int64_t low, int count, std::int64_t need) {
    const Word mine = index() < count ? word(source, low + index()) : Form::last();
    segments_[index()] = mine;
    sync();
    if (index() < count) {
      int before = 0;
      for (int i = 0; i < count; ++i) before += segments_[i] < mine || (i < index() && segments_[i] == mine);
      if (before < need) answer[before] = mine;
    }
    sync();
  }

  /// Each warp draws the same 32 words and takes the one just beyond the rank that is wanted.
  __device__ Word sample(int source, std::int64_t low, std::int64_t count, std::int64_t need, int round) const {
    std::uint64_t random =
        (static_cast<std::uint64_t>(round) * 32 + static_cast<std::uint64_t>(lane_index()) + 1) * 0x9e3779b97f4a7c15ull;
    random = (random ^ random >> 29) * 0xbf58476d1ce4e5b9ull;
    random ^= random >> 32;
    const Word mine = word(source, low + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(count)));
    int before = 0;
    for (int i = 0; i < 32; ++i) {
      const Word other = from_lane(mine, i);
      before += other < mine || (i < lane_index() && other == mine);
    }
    const int wanted = static_cast<int>(need * 32 / count) + 1;
    const unsigned holder = __ballot_sync(all_lanes, before == (wanted < 31 ? wanted : 31));
    return from_lane(mine, __ffs(static_cast<int>(holder)) - 1);
  }

  /// Words before the pivot go to the left end of [left, right),
  /// those after it to the right; both bounds move past them.
  __device__ void partition(int source, int into, const Word& pivot, std::int64_t& left, std::int64_t& right) {
    Word* out = arrays_ + into * p_.rows.cols;
    Word* segment = segments_ + warp() * 32;
    const std::int64_t high = right;
    int turn = 0;
    for (std::int64_t base = left; base < high; base += std::int64_t{size()} * quick_segments) {
      // Where this warp's words go: how many are less or more than the pivot, here and in the warps before.
      Word words[quick_segments];
      unsigned less[quick_segments], more[quick_segments];
      std::uint64_t mine = 0;
#pragma unroll
      for (int n = 0; n < quick_segments; ++n) {
        const std::int64_t i = base + (warp() * quick_segments + n) * 32 + lane_index();
        words[n] = i < high ? word(source, i) : pivot;
      }
#pragma unroll
      for (int n = 0; n < quick_segments; ++n) {
        less[n] = __ballot_sync(all_lanes, words[n] < pivot);
        more[n] = __ballot_sync(all_lanes, pivot < words[n]);
        mine += static_cast<std::uint64_t>(__popc(less[n])) | static_cast<std::uint64_t>(__popc(more[n])) << 32;
      }
      std::uint64_t before = 0, total = mine;
      if constexpr (warps != 1) before = warps_before(mine, total, sums_ + turn * 32);
      turn ^= 1;
      std::int64_t left_at = left + static_cast<std::int64_t>(before & 0xffffffffu),
                   right_at = right - static_cast<std::int64_t>(before >> 32);
// Output, by segments in shared memory, so that writes are side by side.
#pragma unroll
      for (int n = 0; n < quick_segments; ++n) {
        const bool is_less = (less[n] >> lane_index() & 1) != 0, is_more = (more[n] >> lane_index() & 1) != 0;
        if (is_less) segment[votes_below(less[n])] = words[n];
        if (is_more) segment[31 - votes_below(more[n])] = words[n];
        __syncwarp();
        const int to_left = __popc(less[n]), to_right = __popc(more[n]);
        if (lane_index() < to_left) out[left_at + lane_index()] = segment[lane_index()];
        if (lane_index() >= 32 - to_right) out[right_at - 32 + lane_index()] = segment[lane_index()];
        __syncwarp();
        left_at += to_left;
        right_at -= to_right;
      }
      left += static_cast<std::int64_t>(total & 0xffffffffu);
      right -= static_cast<std::int64_t>(total >> 32);
    }
    sync();
  }

  const Quick<Form>& p_;
  Word* arrays_;
  Word* segments_;
  QuickPart* parts_;
  std::uint64_t* sums_;
  std::int64_t row_ = 0;
};

}  // namespace vicinal::cuda
