// Truncated merge sort by merge path: Li and Amenta 2015, 3.2; Sismanis, Pitsianis and Sun 2012, II. Blocks sort chunks
// in shared memory; then pairs of lists are merged, of which only the k smallest words are made. A list longer than
// shared memory is no special case: each block merges one tile of the result, whose two ranges merge path finds. The
// same kernels sort the k words that another algorithm selected.
#pragma once
#include "cuda/select/sample_sort.cuh"

namespace vicinal::cuda {

inline constexpr int merge_items = 8;  // words that a thread sorts and merges

template <class Form>
struct SortChunks {
  using Word = typename Form::Word;
  Source<Form> source;
  std::int64_t rows, chunks;
  std::int64_t k;  // words kept of a chunk at most
  Word* out;
  std::int64_t out_row, out_list;  // words from a row, and from a chunk's list, to the next
};

/// The words [8 t, 8 t + 8) of two sorted lists, merged.
template <class Word>
__device__ __forceinline__ void merge_eight(const Word* a, int a_count, const Word* b, int b_count, int diagonal,
                                            Word (&words)[merge_items]) {
  int i = merge_path(a, a_count, b, b_count, diagonal);
  int j = diagonal - i;
#pragma unroll
  for (int n = 0; n < merge_items; ++n) {
    if (j >= b_count || (i < a_count && !(b[j] < a[i]))) words[n] = i < a_count ? a[i++] : words[n];
    else words[n] = b[j++];
  }
}

/// A block of chunk / 8 threads; dynamic shared memory of a chunk.
template <class Form>
__global__ void sort_chunks(SortChunks<Form> p) {
  using Word = typename Form::Word;
  Word* buffer = dynamic_shared<Word>();
  const int threads = thread_count(), t = thread_index(), chunk = threads * merge_items;
  for (std::int64_t work = blockIdx.x; work < p.rows * p.chunks; work += gridDim.x) {
    const std::int64_t row = work / p.chunks, number = work % p.chunks, first = number * chunk;
    const std::int64_t left = p.source.count - first;
    const int count = static_cast<int>(left < chunk ? left : chunk);
    for (int i = t; i < chunk; i += threads) buffer[i] = i < count ? p.source.at(row, first + i) : Form::last();
    __syncthreads();

    // Eight words in registers, by odd-even transposition.
    Word words[merge_items];
#pragma unroll
    for (int n = 0; n < merge_items; ++n) words[n] = buffer[t * merge_items + n];
#pragma unroll
    for (int round = 0; round < merge_items; ++round) {
#pragma unroll
      for (int n = round % 2; n + 1 < merge_items; n += 2) {
        const Word a = words[n], b = words[n + 1];
        const bool swap = b < a;
        words[n] = swap ? b : a;
        words[n + 1] = swap ? a : b;
      }
    }
#pragma unroll
    for (int n = 0; n < merge_items; ++n) buffer[t * merge_items + n] = words[n];
    __syncthreads();

    // Lists of 8, 16, ... words; every thread merges eight words of its pair of lists.
    for (int width = merge_items; width < chunk; width *= 2) {
      const int base = t * merge_items / (2 * width) * (2 * width);
      merge_eight(buffer + base, width, buffer + base + width, width, t * merge_items - base, words);
      __syncthreads();
#pragma unroll
      for (int n = 0; n < merge_items; ++n) buffer[t * merge_items + n] = words[n];
      __syncthreads();
    }
    Word* out = p.out + row * p.out_row + number * p.out_list;
    const int keep = static_cast<int>(count < p.k ? count : p.k);
    for (int i = t; i < keep; i += threads) out[i] = buffer[i];
    __syncthreads();
  }
}

template <class Form>
struct MergePairs {
  using Word = typename Form::Word;
  const Word* in;
  Word* out;
  std::int64_t rows, n, span, k;  // list i stands for words [i span, (i + 1) span) of n, and holds the first k of them
  std::int64_t in_row, in_list, out_row, out_list;
  std::int64_t pairs, tiles;
};

/// A tile of 8 words a thread of the merged list of a pair; dynamic shared memory of a tile.
template <class Form>
__global__ void merge_pairs(MergePairs<Form> p) {
  using Word = typename Form::Word;
  VICINAL_SHARED(std::int64_t, path, 2);
  Word* buffer = dynamic_shared<Word>();
  const int threads = thread_count(), t = thread_index(), tile = threads * merge_items;
  for (std::int64_t work = blockIdx.x; work < p.rows * p.pairs * p.tiles; work += gridDim.x) {
    const std::int64_t row = work / (p.pairs * p.tiles), pair = work / p.tiles % p.pairs, first = work % p.tiles * tile;
    const auto length = [&](std::int64_t list) {
      const std::int64_t left = p.n - list * p.span, covered = left < 0 ? 0 : left < p.span ? left : p.span;
      return covered < p.k ? covered : p.k;
    };
    const std::int64_t a_count = length(2 * pair), b_count = length(2 * pair + 1);
    const std::int64_t out_count = a_count + b_count < p.k ? a_count + b_count : p.k;
    if (first >= out_count) continue;
    const int count = static_cast<int>(out_count - first < tile ? out_count - first : tile);
    const Word* a = p.in + row * p.in_row + 2 * pair * p.in_list;
    const Word* b = a + p.in_list;
    if (t < 2) path[t] = merge_path(a, a_count, b, b_count, first + t * count);
    __syncthreads();

    // The two ranges side by side, then eight merged words a thread.
    const std::int64_t a_first = path[0], b_first = first - a_first;
    const int a_here = static_cast<int>(path[1] - a_first);
    for (int i = t; i < count; i += threads) buffer[i] = i < a_here ? a[a_first + i] : b[b_first + i - a_here];
    __syncthreads();
    Word words[merge_items] = {};
    const int diagonal = t * merge_items < count ? t * merge_items : count;
    merge_eight(buffer, a_here, buffer + a_here, count - a_here, diagonal, words);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < merge_items; ++n)
      if (diagonal + n < count) buffer[diagonal + n] = words[n];
    __syncthreads();
    Word* out = p.out + row * p.out_row + pair * p.out_list + first;
    for (int i = t; i < count; i += threads) out[i] = buffer[i];
    __syncthreads();
  }
}

/// Sorts the first k of `source` of each row into batch.list.
template <class Form, class Launch>
void merge_sort(Launch& launch, const SelectBatch& batch, const Source<Form>& source) {
  using Word = typename Form::Word;
  const std::int64_t n = source.count, k = batch.k, rows = batch.rows.rows;
  const std::int64_t chunk = merge_chunk(batch.form, n, k);
  const std::int64_t array = rows * merge_words(batch.form, n, k);
  Word* arrays[2] = {static_cast<Word*>(batch.workspace), static_cast<Word*>(batch.workspace) + array};
  Word* list = static_cast<Word*>(batch.list);
  const auto row_words = [&](std::int64_t lists) { return lists == 1 ? k : merge_words(batch.form, n, k); };

  std::int64_t lists = divide_up(n, chunk), span = chunk, keep = std::min(k, span);
  Word* in = lists == 1 ? list : arrays[0];
  launch(blocks_for(rows * lists, batch.multiprocessors), static_cast<int>(chunk / merge_items),
         chunk * static_cast<std::int64_t>(sizeof(Word)), sort_chunks<Form>,
         {source, rows, lists, k, in, row_words(lists), keep});
  for (int turn = 1; lists > 1; turn ^= 1) {
    const std::int64_t pairs = divide_up(lists, 2), out_keep = std::min(k, 2 * span);
    Word* out = pairs == 1 ? list : arrays[turn];
    const std::int64_t tile = std::max<std::int64_t>(256, std::min<std::int64_t>(2048, power_of_two(out_keep)));
    const std::int64_t tiles = divide_up(out_keep, tile);
    launch(blocks_for(rows * pairs * tiles, batch.multiprocessors), static_cast<int>(tile / merge_items),
           tile * static_cast<std::int64_t>(sizeof(Word)), merge_pairs<Form>,
           {in, out, rows, n, span, k, row_words(lists), keep, row_words(pairs), out_keep, pairs, tiles});
    in = out;
    lists = pairs;
    span *= 2;
    keep = out_keep;
  }
}

template <class Launch>
void run_merge(Launch& launch, const SelectBatch& batch) {
  with_entries(batch.form, [&]<class Form>() {
    merge_sort<Form>(launch, batch, {batch.rows, nullptr, batch.rows.cols, 0});
  });
}

template <class Launch>
void run_sort(Launch& launch, const SelectBatch& batch) {
  if (sorted_by_sample(batch.form, batch.k)) return sample_sort<Packed>(launch, batch);
  with_form(batch.form, [&]<class Form>() {
    merge_sort<Form>(launch, batch,
                     {batch.rows, static_cast<const typename Form::Word*>(batch.list), batch.k, batch.k});
  });
}

template <class Launch>
const SelectKernel<Launch>& merge_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "merge",
      .workspace = [](const SelectShape& s) { return merge_workspace(s.form, s.cols, s.k); },
      .sorted = true,
      .select = run_merge<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(merge);

}  // namespace vicinal::cuda
