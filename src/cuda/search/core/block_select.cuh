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

/// The want-th smallest (from 1) of `count` numbers in shared memory, at least that
/// many, some of which may be +inf: by counts of equal parts of their span, and
/// ranks among those of one part. in_bin: most_in_bin numbers of shared memory.
inline constexpr int most_in_bin = 128;
__device__ __forceinline__ float block_kth_number(const float* numbers, std::int64_t count, std::uint32_t want,
                                                  unsigned* bins, unsigned* scratch, float* in_bin) {
  const SpanBins span = block_bins(bins, scratch, [&](const auto& take) {
    for (std::int64_t i = thread_index(); i < count; i += thread_count()) take(numbers[i]);
  });
  unsigned bin = likely_bins - 1, rank = 0, there = most_in_bin + 1;
  if (span.usable) {
    find_bin<likely_bins>(bins, want, scratch + 64);
    if (thread_index() == 0) scratch[67] = 0;
    __syncthreads();
    bin = scratch[64], rank = scratch[65], there = scratch[66];
  }
  if (bin + 1 >= likely_bins || there > most_in_bin) {
    __syncthreads();
    const std::uint32_t kth = block_kth(count, want, scratch, [&](std::int64_t i) {
      return ListWords<Packed>::ordered(static_cast<double>(numbers[i]));
    });
    return static_cast<float>(ListWords<Packed>::key(static_cast<std::uint64_t>(kth) << 32));
  }
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    if (span.bin_of(numbers[i]) == static_cast<int>(bin)) in_bin[atomicAdd(&scratch[67], 1u)] = numbers[i];
  __syncthreads();
  for (unsigned i = static_cast<unsigned>(thread_index()); i < there; i += static_cast<unsigned>(thread_count())) {
    unsigned below = 0;
    for (unsigned j = 0; j < there; ++j) below += in_bin[j] < in_bin[i] || (in_bin[j] == in_bin[i] && j < i) ? 1u : 0u;
    if (below + 1 == rank) scratch[68] = bits_of(in_bin[i]);
  }
  __syncthreads();
  return __uint_as_float(scratch[68]);
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
