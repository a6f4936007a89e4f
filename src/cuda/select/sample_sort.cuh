// Sample sort: Frazer and McKellar 1970; Leischner, Osipov and Sanders 2010. Words of a sample divide a row
// into buckets of about as many words each, and every word is moved to its bucket; then a block sorts a
// bucket in shared memory, by counting as well: equal parts of the bucket's span have a word or two each, and
// a word's rank among those of its part is counted. So each word is read three times and written twice,
// however long the row. A bucket that is too large for shared memory, because the sample misrepresents the
// row, is ranked by comparing all of its words, which is slow and as right. Words must differ, as key-index
// pairs do; last() alone may stand in a list several times, at whose end it comes.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

inline constexpr int sample_sort_threads = 256, sample_sort_tile = 4096;  // words that a block has in work
inline constexpr int sample_sort_bins = 2048;                             // parts of a bucket
static_assert(sample_sort_samples <= sample_sort_tile && most_sample_sort_buckets <= 256);

/// Form: of integers with a position, so that words differ.
template <class Form>
struct SampleSort {
  using Word = typename Form::Word;
  Word* words;                                   // `count` a row; words that are Form::last() are in no bucket
  Word* moved;                                   // as many: the words by buckets
  Word* splitters = nullptr;                     // a row, buckets - 1: the largest word of each bucket but the last
  unsigned *sizes = nullptr, *filled = nullptr;  // of each bucket: its words, and those that are there so far
  std::int64_t rows, count;
  int buckets;  // a power of two
};

/// Where in a row a sample is taken: in each equal part of the row at a place that hangs on the row and the part.
__device__ __forceinline__ std::int64_t sample_place(std::int64_t row, std::int64_t sample, std::int64_t samples,
                                                     std::int64_t count) {
  const std::int64_t begin = sample * count / samples, end = (sample + 1) * count / samples;
  auto hash = static_cast<std::uint32_t>(row) * 0x9e3779b1u + static_cast<std::uint32_t>(sample) * 0x85ebca6bu;
  hash = (hash ^ hash >> 15) * 0xc2b2ae35u;
  return begin + static_cast<std::int64_t>(
                     static_cast<std::uint64_t>(hash ^ hash >> 16) * static_cast<std::uint64_t>(end - begin) >> 32);
}

/// Sorts up to sample_sort_tile words from `words` to `out`. In shared memory: `ordered` has room for a tile, `begins`
/// for sample_sort_bins + 1 counters, `ends` for three words a warp.
template <class Word>
__device__ __forceinline__ void sort_bucket(const Word* words, int count, Word* out, Word* ordered, unsigned* begins,
                                            Word* ends) {
  constexpr int each = sample_sort_tile / sample_sort_threads, bins_each = sample_sort_bins / sample_sort_threads;
  Word mine[each], low = static_cast<Word>(~Word{0}), high = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int from = i * sample_sort_threads + thread_index();
    if (from >= count) continue;
    mine[i] = words[from];
    low = mine[i] < low ? mine[i] : low;
    high = mine[i] > high ? mine[i] : high;
  }
  for (int h = 16; h > 0; h /= 2) {
    const Word other = from_lane(low, lane_index() ^ h), another = from_lane(high, lane_index() ^ h);
    low = other < low ? other : low;
    high = another > high ? another : high;
  }
  if (lane_index() == 0) {
    ends[2 * warp_index()] = low;
    ends[2 * warp_index() + 1] = high;
  }
  for (int i = thread_index(); i < sample_sort_bins; i += sample_sort_threads) begins[i] = 0;
  __syncthreads();
  for (int w = 0; w < sample_sort_threads / 32; ++w) {
    low = ends[2 * w] < low ? ends[2 * w] : low;
    high = ends[2 * w + 1] > high ? ends[2 * w + 1] : high;
  }

  // Equal parts of the span, by the first bits in which its ends differ.
  int shift = 0;
  while (shift < 64 && (high - low) >> shift >= sample_sort_bins) ++shift;
  const auto bin_of = [&](Word word) { return static_cast<int>((word - low) >> shift); };
  unsigned place[each];
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (i * sample_sort_threads + thread_index() < count) place[i] = atomicAdd(&begins[bin_of(mine[i])], 1u);
  __syncthreads();
  unsigned sizes[bins_each], sum = 0, total;
#pragma unroll
  for (int i = 0; i < bins_each; ++i) {
    sizes[i] = begins[thread_index() * bins_each + i];
    sum += sizes[i];
  }
  unsigned before = block_sum_before(sum, total, reinterpret_cast<unsigned*>(ends + 2 * (sample_sort_threads / 32)));
  __syncthreads();
#pragma unroll
  for (int i = 0; i < bins_each; ++i) {
    begins[thread_index() * bins_each + i] = before;
    before += sizes[i];
  }
  if (thread_index() == 0) begins[sample_sort_bins] = static_cast<unsigned>(count);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (i * sample_sort_threads + thread_index() < count) ordered[begins[bin_of(mine[i])] + place[i]] = mine[i];
  __syncthreads();

  // A word's rank among those of its bin.
  for (int i = thread_index(); i < count; i += sample_sort_threads) {
    const Word word = ordered[i];
    const int bin = bin_of(word), begin = static_cast<int>(begins[bin]), end = static_cast<int>(begins[bin + 1]);
    int rank = begin;
    for (int j = begin; j < end; ++j) rank += ordered[j] < word ? 1 : 0;
    out[rank] = word;
  }
  __syncthreads();
}

/// A block a row; dynamic shared memory of a tile. The sample is made in `moved`, and sorted behind it.
template <class Form>
__global__ void __launch_bounds__(sample_sort_threads) choose_splitters(SampleSort<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(unsigned, begins, sample_sort_bins + 1);
  VICINAL_SHARED(Word, ends, 3 * (sample_sort_threads / 32));
  VICINAL_SHARED(unsigned, there, 1);
  const int all = p.buckets * sample_sort_oversampling(p.buckets);
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    Word *const samples = p.moved + row * p.count, *const sorted = samples + all;
    if (thread_index() == 0) there[0] = 0;
    __syncthreads();
    for (int i = thread_index(); i < all; i += sample_sort_threads) {
      const Word word = p.words[row * p.count + sample_place(row, i, all, p.count)];
      if (word != Form::last()) samples[atomicAdd(&there[0], 1u)] = word;
    }
    __syncthreads();
    const unsigned count = there[0];
    sort_bucket(samples, static_cast<int>(count), sorted, dynamic_shared<Word>(), begins, ends);
    for (int i = thread_index(); i < p.buckets; i += sample_sort_threads) {
      const auto rank = (static_cast<unsigned>(i) + 1) * count / static_cast<unsigned>(p.buckets);
      if (i + 1 < p.buckets) p.splitters[row * (p.buckets - 1) + i] = rank > 0 ? sorted[rank - 1] : Word{0};
      p.sizes[row * p.buckets + i] = 0;
      p.filled[row * p.buckets + i] = 0;
    }
    __syncthreads();
  }
}

/// The bucket of a word: the first whose splitter is not less.
template <class Word>
__device__ __forceinline__ int bucket_of(const Word* splitters, int buckets, Word word) {
  int bucket = 0;
  for (int half = buckets / 2; half > 0; half /= 2)
    if (splitters[bucket + half - 1] < word) bucket += half;
  return bucket;
}

/// A row's splitters to shared memory, for all threads.
template <class Form>
__device__ __forceinline__ void load_splitters(const SampleSort<Form>& p, std::int64_t row,
                                               typename Form::Word* splitters) {
  for (int i = thread_index(); i + 1 < p.buckets; i += thread_count())
    splitters[i] = p.splitters[row * (p.buckets - 1) + i];
}

/// Where each bucket of a row begins: sums of their sizes to `begins`, by all threads; scratch: a word a warp.
template <class Form>
__device__ __forceinline__ void load_begins(const SampleSort<Form>& p, std::int64_t row, unsigned* begins,
                                            unsigned* scratch) {
  unsigned before = 0;
  for (int base = 0; base < p.buckets; base += thread_count()) {
    const int bucket = base + thread_index();
    unsigned total;
    const unsigned here = block_sum_before(bucket < p.buckets ? p.sizes[row * p.buckets + bucket] : 0u, total, scratch);
    if (bucket < p.buckets) begins[bucket] = before + here;
    before += total;
    __syncthreads();
  }
}

/// How many words each bucket has. Work is a tile of a row.
template <class Form>
__global__ void __launch_bounds__(sample_sort_threads) count_buckets(SampleSort<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(Word, splitters, most_sample_sort_buckets);
  VICINAL_SHARED(unsigned, counts, most_sample_sort_buckets);
  const std::int64_t tiles = (p.count + sample_sort_tile - 1) / sample_sort_tile;
  for (std::int64_t work = blockIdx.x; work < p.rows * tiles; work += gridDim.x) {
    const std::int64_t row = work / tiles, first = work % tiles * sample_sort_tile, left = p.count - first;
    load_splitters(p, row, splitters);
    for (int i = thread_index(); i < p.buckets; i += thread_count()) counts[i] = 0;
    __syncthreads();
    const Word* words = p.words + row * p.count + first;
#pragma unroll 4
    for (int i = thread_index(); i < sample_sort_tile; i += sample_sort_threads)
      if (i < left && words[i] != Form::last()) atomicAdd(&counts[bucket_of(splitters, p.buckets, words[i])], 1u);
    __syncthreads();
    for (int i = thread_index(); i < p.buckets; i += thread_count())
      if (counts[i] != 0) atomicAdd(&p.sizes[row * p.buckets + i], counts[i]);
    __syncthreads();
  }
}

/// Words to their buckets, in any order there: a tile is put in the order of buckets in shared memory first, so that
/// runs of words are written. Dynamic shared memory of a tile.
template <class Form>
__global__ void __launch_bounds__(sample_sort_threads) move_to_buckets(SampleSort<Form> p) {
  using Word = typename Form::Word;
  constexpr int each = sample_sort_tile / sample_sort_threads;
  VICINAL_SHARED(Word, splitters, most_sample_sort_buckets);
  VICINAL_SHARED(unsigned, counts,
                 most_sample_sort_buckets);  // of a bucket in the tile; then where they begin in the tile
  VICINAL_SHARED(unsigned, places, most_sample_sort_buckets);  // in the row, of a bucket's first word of the tile
  VICINAL_SHARED(unsigned, scratch, sample_sort_threads / 32);
  VICINAL_SHARED(std::uint8_t, buckets, sample_sort_tile);  // of the ordered words
  auto* const ordered = dynamic_shared<Word>();
  const std::int64_t tiles = (p.count + sample_sort_tile - 1) / sample_sort_tile;
  for (std::int64_t work = blockIdx.x; work < p.rows * tiles; work += gridDim.x) {
    const std::int64_t row = work / tiles, first = work % tiles * sample_sort_tile, left = p.count - first;
    load_splitters(p, row, splitters);
    for (int i = thread_index(); i < p.buckets; i += thread_count()) counts[i] = 0;
    load_begins(p, row, places, scratch);
    __syncthreads();

    // Each word's bucket, and its place among the tile's words there.
    const Word* words = p.words + row * p.count + first;
    Word mine[each];
    unsigned at[each];  // bucket and place
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int from = i * sample_sort_threads + thread_index();
      mine[i] = from < left ? words[from] : Form::last();
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (mine[i] == Form::last()) continue;
      const int bucket = bucket_of(splitters, p.buckets, mine[i]);
      at[i] = static_cast<unsigned>(bucket) << 16 | atomicAdd(&counts[bucket], 1u);
    }
    __syncthreads();
    // Where each bucket begins, in the tile and in the row.
    unsigned before = 0;
    for (int base = 0; base < p.buckets; base += sample_sort_threads) {
      const int bucket = base + thread_index();
      const unsigned size = bucket < p.buckets ? counts[bucket] : 0;
      unsigned total;
      const unsigned here = block_sum_before(size, total, scratch);
      if (bucket < p.buckets) {
        if (size != 0) places[bucket] += atomicAdd(&p.filled[row * p.buckets + bucket], size);
        counts[bucket] = before + here;
      }
      before += total;
      __syncthreads();
    }
    // In the order of buckets, then to memory.
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (mine[i] == Form::last()) continue;
      const unsigned bucket = at[i] >> 16, to = counts[bucket] + (at[i] & 0xffffu);
      ordered[to] = mine[i];
      buckets[to] = static_cast<std::uint8_t>(bucket);
    }
    __syncthreads();
    for (int i = thread_index(); i < static_cast<int>(before); i += sample_sort_threads) {
      const int bucket = buckets[i];
      p.moved[row * p.count + places[bucket] + static_cast<unsigned>(i) - counts[bucket]] = ordered[i];
    }
    __syncthreads();
  }
}

/// Work is a bucket of a row. Dynamic shared memory of a tile.
template <class Form>
__global__ void __launch_bounds__(sample_sort_threads) sort_buckets(SampleSort<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(unsigned, begins, sample_sort_bins + 1);
  VICINAL_SHARED(unsigned, of_row, most_sample_sort_buckets);
  VICINAL_SHARED(Word, ends, 3 * (sample_sort_threads / 32));
  VICINAL_SHARED(unsigned, scratch, sample_sort_threads / 32);
  auto* const ordered = dynamic_shared<Word>();
  for (std::int64_t work = blockIdx.x; work < p.rows * p.buckets; work += gridDim.x) {
    const std::int64_t row = work / p.buckets, bucket = work % p.buckets;
    load_begins(p, row, of_row, scratch);
    __syncthreads();
    const std::int64_t size = p.sizes[work], begin = of_row[bucket];
    if (bucket == p.buckets - 1)
      for (std::int64_t i = begin + size + thread_index(); i < p.count; i += sample_sort_threads)
        p.words[row * p.count + i] = Form::last();
    const Word* words = p.moved + row * p.count + begin;
    Word* out = p.words + row * p.count + begin;
    if (size <= sample_sort_tile) {
      sort_bucket(words, static_cast<int>(size), out, ordered, begins, ends);
      continue;
    }
    for (std::int64_t i = thread_index(); i < size; i += sample_sort_threads) {
      const Word word = words[i];
      std::int64_t rank = 0;
      for (std::int64_t j = 0; j < size; ++j) rank += words[j] < word ? 1 : 0;
      out[rank] = word;
    }
    __syncthreads();
  }
}

/// Sorts the words of each row of batch.list, in place; needs sample_sort_workspace(batch.k).
template <class Form, class Launch>
void sample_sort(Launch& launch, const SelectBatch& batch) {
  const std::int64_t rows = batch.rows.rows, count = batch.k, tile_bytes = std::int64_t{sample_sort_tile} * 8,
                     tiles = divide_up(count, sample_sort_tile);
  using Word = typename Form::Word;
  SampleSort<Form> p{.words = static_cast<Word*>(batch.list),
                     .moved = static_cast<Word*>(batch.workspace),
                     .rows = rows,
                     .count = count,
                     .buckets = sample_sort_buckets(count)};
  p.splitters = p.moved + rows * count;
  p.sizes = reinterpret_cast<unsigned*>(p.splitters + rows * (p.buckets - 1));
  p.filled = p.sizes + rows * p.buckets;
  launch(blocks_for(rows, batch.multiprocessors), sample_sort_threads, tile_bytes, choose_splitters<Form>, p);
  launch(blocks_for(rows * tiles, batch.multiprocessors), sample_sort_threads, 0, count_buckets<Form>, p);
  launch(blocks_for(rows * tiles, batch.multiprocessors), sample_sort_threads, tile_bytes, move_to_buckets<Form>, p);
  launch(blocks_for(rows * p.buckets, batch.multiprocessors), sample_sort_threads, tile_bytes, sort_buckets<Form>, p);
}

}  // namespace vicinal::cuda
