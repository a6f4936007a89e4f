// A block of threads selects here among items that it has at hand: it finds the k-th key, or a limit that about k are
// within, and compacts and sorts in shared memory.
#pragma once
#include "cuda/search/core/element.cuh"
#include "cuda/search/core/list_words.cuh"

namespace vicinal::cuda {

/// The least and the largest of `count` keys, at least one, to all threads. `scratch`: two words a warp.
template <class KeyAt>
__device__ __forceinline__ void block_ends(std::int64_t count, unsigned* scratch, std::uint32_t& low,
                                           std::uint32_t& high, const KeyAt& key_at) {
  low = 0xffffffffu, high = 0;
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const std::uint32_t key = key_at(i);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  low = __reduce_min_sync(all_lanes, low);
  high = __reduce_max_sync(all_lanes, high);
  if (lane_index() == 0) {
    scratch[2 * warp_index()] = low;
    scratch[2 * warp_index() + 1] = high;
  }
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) {
    low = scratch[2 * w] < low ? scratch[2 * w] : low;
    high = scratch[2 * w + 1] > high ? scratch[2 * w + 1] : high;
  }
  __syncthreads();
}

/// Which of the bins holds the want-th (from 1) of what they count, by the first warp: out[0] is the bin, out[1] its
/// position there, out[2] the bin's count.
template <int bins>
__device__ __forceinline__ void find_bin(const unsigned* counts, unsigned want, unsigned* out) {
  constexpr int each = bins / 32;
  if (warp_index() != 0) return;
  unsigned mine = 0, total = 0;
  // Lanes begin at different ones of theirs, so that they meet in no bank.
  for (int i = 0; i < each; ++i) mine += counts[lane_index() * each + (i + lane_index() * each / 32) % each];
  unsigned before = warp_sum_before(mine, total);
  if (!(before < want && want <= before + mine)) return;
  for (int i = 0; i < each; ++i) {
    const unsigned here = counts[lane_index() * each + i];
    if (before < want && want <= before + here) {
      out[0] = static_cast<unsigned>(lane_index() * each + i);
      out[1] = want - before;
      out[2] = here;
    }
    before += here;
  }
}

/// The want-th smallest (from 1) of `count` keys, at least that many: counts of eight bits at
/// a time. What all keys begin with is passed over, since counts of it would be one
/// counter's, at which all threads wait. `scratch`: 256 + 3 words of shared memory.
template <class KeyAt>
__device__ __forceinline__ std::uint32_t block_kth(std::int64_t count, std::uint32_t want, unsigned* scratch,
                                                   const KeyAt& key_at) {
  std::uint32_t low, prefix;
  block_ends(count, scratch, low, prefix, key_at);
  for (int open = 32 - __clz(static_cast<int>(low ^ prefix)); open > 0;) {  // bits that are not known yet
    const int shift = open > 8 ? open - 8 : 0;
    const std::uint32_t mask = (1u << (open - shift)) - 1;
    for (int i = thread_index(); i < 256; i += thread_count()) scratch[i] = 0;
    __syncthreads();
    for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
      const std::uint32_t key = key_at(i);
      if (open == 32 || (key ^ prefix) >> open == 0) atomicAdd(&scratch[key >> shift & mask], 1u);
    }
    __syncthreads();
    find_bin<256>(scratch, want, scratch + 256);
    __syncthreads();
    prefix = (prefix & ~(mask << shift)) | scratch[256] << shift;
    want = scratch[257];
    open = shift;
    __syncthreads();
  }
  return prefix;
}

/// Equal parts of a span of numbers. Rows that are always candidates have
/// no place in it: the last bin is theirs, and that of what is not finite.
inline constexpr int likely_bins = 512;
struct SpanBins {
  float low, width, per;
  bool usable;  // it has ends
  __device__ __forceinline__ int bin_of(float t) const {
    const float at = (t - low) * per;
    return at >= 0 && at < static_cast<float>(likely_bins - 1) ? static_cast<int>(at) : at < 0 ? 0 : likely_bins - 1;
  }
};
/// Counts of the parts of what there is, where its ends are
/// finite. each(take): take(t) for those of this thread, twice.
template <class Each>
__device__ __forceinline__ SpanBins block_bins(unsigned* bins, unsigned* scratch, const Each& each) {
  float low = static_cast<float>(infinite), high = -low;
  each([&](float t) {
    low = t < low ? t : low;
    high = t > high && t - t == 0 ? t : high;  // of what is finite
  });
  for (int h = 16; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(all_lanes, low, h), another = __shfl_xor_sync(all_lanes, high, h);
    low = other < low ? other : low;
    high = another > high ? another : high;
  }
  auto* ends = reinterpret_cast<float*>(scratch);
  if (lane_index() == 0) {
    ends[2 * warp_index()] = low;
    ends[2 * warp_index() + 1] = high;
  }
  for (int i = thread_index(); i < likely_bins; i += thread_count()) bins[i] = 0;
  __syncthreads();
  for (int w = 0; w < thread_count() / 32; ++w) {
    low = ends[2 * w] < low ? ends[2 * w] : low;
    high = ends[2 * w + 1] > high ? ends[2 * w + 1] : high;
  }
  const float width = (high - low) / static_cast<float>(likely_bins - 1);
  SpanBins span{low, width, width > 0 ? 1 / width : 0, low - low == 0 && width < static_cast<float>(infinite)};
  if (span.usable) each([&](float t) { atomicAdd(&bins[span.bin_of(t)], 1u); });
  __syncthreads();  // of all who read the ends, before the caller writes there
  return span;
}
/// A t that at least `want` of some are not beyond, and not many more.
template <class Each>
__device__ __forceinline__ float likely_limit(std::uint32_t want, unsigned* bins, unsigned* scratch, const Each& each) {
  const SpanBins span = block_bins(bins, scratch, each);
  if (!span.usable) return static_cast<float>(infinite);
  find_bin<likely_bins>(bins, want, scratch + 64);
  __syncthreads();
  const unsigned bin = scratch[64];
  __syncthreads();
  return bin + 1 >= likely_bins ? static_cast<float>(infinite) : span.low + static_cast<float>(bin + 1) * span.width;
}

/// They make keys of 32 bits in the order of floats, and back; NaN has no place here.
__device__ __forceinline__ std::uint32_t ordered_t(float t) {
  return ordered_float<std::uint32_t>(bits_of(t), 0x7f800000u, false);
}
__device__ __forceinline__ float t_of_ordered(std::uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key ^ 0x80000000u : ~key);
}

/// BlockTotals joins a number of each thread, so that all threads know the result: a barrier each time, and none in a
/// block of one warp. scratch: `words` of shared memory, of this alone.
class BlockTotals {
 public:
  static constexpr int words = 2 * 32;
  __device__ explicit BlockTotals(unsigned* scratch) : scratch_(scratch) {}
  __device__ __forceinline__ unsigned sum(unsigned value) {
    return joined(value, 0u, [](unsigned mine) { return __reduce_add_sync(all_lanes, mine); });
  }
  __device__ __forceinline__ unsigned least(unsigned value) {
    return joined(value, 0xffffffffu, [](unsigned mine) { return __reduce_min_sync(all_lanes, mine); });
  }
  __device__ __forceinline__ unsigned most(unsigned value) {
    return joined(value, 0u, [](unsigned mine) { return __reduce_max_sync(all_lanes, mine); });
  }

 private:
  /// none: what changes no result. Who writes a half has passed the barrier of the other one, and all have read this
  /// half before that.
  template <class OfWarp>
  __device__ __forceinline__ unsigned joined(unsigned value, unsigned none, const OfWarp& of_warp) {
    const int warps = thread_count() / 32;
    value = of_warp(value);
    if (warps == 1) return value;
    unsigned* const half = scratch_ + (second_ ? words / 2 : 0);
    second_ = !second_;
    if (lane_index() == 0) half[warp_index()] = value;
    __syncthreads();
    return of_warp(lane_index() < warps ? half[lane_index()] : none);
  }
  unsigned* scratch_;
  bool second_ = false;
};

/// It returns the want-th smallest (from 1) of the keys that the threads of a block hold, by bisection: all look at
/// theirs again and again, which takes less time than counting them in bins where they lie in registers. +inf where
/// fewer are less. each(take): it calls take(key) for those of this thread.
template <class Each>
__device__ __forceinline__ std::uint32_t block_kth_held(unsigned want, BlockTotals& totals, const Each& each) {
  const std::uint32_t beyond = ordered_t(static_cast<float>(infinite));
  std::uint32_t least = beyond, most = 0;
  unsigned finite = 0;
  each([&](std::uint32_t key) {
    least = key < least ? key : least;
    most = key < beyond && key > most ? key : most;
    finite += key < beyond ? 1u : 0u;
  });
  if (totals.sum(finite) < want) return beyond;
  // Fewer than are wanted are below `low`, and enough are not beyond `high`: each thread has one that is not beyond the
  // largest of their least.
  std::uint32_t low = totals.least(least), high = totals.most(most);
  if (want <= static_cast<unsigned>(thread_count())) {
    const std::uint32_t enough = totals.most(least);
    high = enough < high ? enough : high;
  }
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    unsigned within = 0;
    each([&](std::uint32_t key) { within += key <= middle ? 1u : 0u; });
    within = totals.sum(within);
    if (within < want) {
      low = middle + 1;
      continue;
    }
    high = middle;
    if (within == want) break;
  }
  if (low == high) return high;
  std::uint32_t last = 0;  // of those that are wanted
  each([&](std::uint32_t key) { last = key <= high && key > last ? key : last; });
  return totals.most(last);
}

/// Items for which stays() holds move to the front; returns how many. All threads see the same.
template <class Item, class Stays>
__device__ __forceinline__ std::uint32_t compact(Item* items, std::uint32_t count, unsigned* scratch,
                                                 const Stays& stays) {
  constexpr int each = 4;
  const auto threads = static_cast<std::uint32_t>(thread_count());
  std::uint32_t kept = 0;
  for (std::uint32_t from = 0; from < count; from += each * threads) {
    Item mine[each];
    unsigned stay = 0;
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j) {
      const std::uint32_t i = from + j * threads + static_cast<std::uint32_t>(thread_index());
      if (i < count) mine[j] = items[i];
    }
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j) {
      const std::uint32_t i = from + j * threads + static_cast<std::uint32_t>(thread_index());
      if (i < count && stays(mine[j])) stay |= 1u << j;
    }
    unsigned total;
    std::uint32_t at = kept + block_sum_before(static_cast<unsigned>(__popc(stay)), total, scratch);
    __syncthreads();
#pragma unroll
    for (std::uint32_t j = 0; j < each; ++j)
      if ((stay >> j & 1) != 0) items[at++] = mine[j];
    kept += total;
    __syncthreads();
  }
  return kept;
}

/// Sorts a power of two of words in shared memory, 64 at least. Steps of up to 32 stay within the 64 words of a warp.
template <class Word>
__device__ __forceinline__ void sort_words(Word* words, int count) {
  for (int size = 2; size <= count; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      if (step >= 32) __syncthreads();
      else __syncwarp();
      for (int i = thread_index(); i < count / 2; i += thread_count()) {
        const int low = 2 * i - (i & (step - 1)), high = low + step;
        const Word a = words[low], b = words[high];
        if ((b < a) == ((low & size) == 0)) {
          words[low] = b;
          words[high] = a;
        }
      }
    }
  }
  __syncthreads();
}
/// The same for any number, with `last` behind them.
template <class Form>
__device__ __forceinline__ void sort_list(typename Form::Word* words, int count) {
  int sorted = 64;
  while (sorted < count) sorted *= 2;
  for (int i = count + thread_index(); i < sorted; i += thread_count()) words[i] = Form::last();
  __syncthreads();
  sort_words(words, sorted);
}

}  // namespace vicinal::cuda
