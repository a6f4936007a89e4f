// Truncated bitonic sort, TBiS: Sismanis, Pitsianis and Sun 2012, III. Lists of K words, the power of two from k on,
// are sorted in alternating directions; then the smaller of each pair of words of an ascending and a descending list
// are the K smallest of both, bitonic, and are sorted again, until one list is left. Every exchange is known
// beforehand: no word decides where others go. Where two lists fit into shared memory, a block reduces a whole tile to
// one list; longer lists pass through global memory.
#pragma once
#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

inline constexpr int bitonic_threads = 256;

/// Compares and exchanges the words of `buffer` at distance `stride`;
/// ascending(i) says the direction of the list that i is in.
template <class Word, class Ascending>
__device__ __forceinline__ void exchange_tile(Word* buffer, int count, int stride, const Ascending& ascending) {
  for (int pair = thread_index(); pair < count / 2; pair += thread_count()) {
    const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
    const Word a = buffer[i], b = buffer[j];
    if ((b < a) == ascending(i)) {
      buffer[i] = b;
      buffer[j] = a;
    }
  }
  __syncthreads();
}

template <class Form>
struct BitonicTiles {
  using Word = typename Form::Word;
  Source<Form> source;
  std::int64_t rows, tiles;
  int tile, list;
  bool sorted;  // the source is lists already, in alternating directions
  Word* out;    // a list a tile
  std::int64_t out_row;
  std::int64_t keep;  // words written of a list
};

/// Dynamic shared memory of a tile.
template <class Form>
__global__ void bitonic_tiles(BitonicTiles<Form> p) {
  using Word = typename Form::Word;
  Word* buffer = dynamic_shared<Word>();
  for (std::int64_t work = blockIdx.x; work < p.rows * p.tiles; work += gridDim.x) {
    const std::int64_t row = work / p.tiles, number = work % p.tiles, first = number * p.tile;
    for (int i = thread_index(); i < p.tile; i += thread_count())
      buffer[i] = first + i < p.source.count ? p.source.at(row, first + i) : Form::last();
    __syncthreads();

    for (int size = 2; size <= p.list && !p.sorted; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2)
        exchange_tile(buffer, p.tile, stride, [&](int i) { return (i & size) == 0; });

    // `step` words from a list to the next; the smaller words stay where the first list of a pair was.
    for (int step = p.list; step < p.tile; step *= 2) {
      const int words = p.tile / (2 * step) * p.list;
      for (int w = thread_index(); w < words; w += thread_count()) {
        const int i = w / p.list * 2 * step + w % p.list;
        const Word other = buffer[i + step];
        if (other < buffer[i]) buffer[i] = other;
      }
      __syncthreads();
      const bool last = 2 * step == p.tile, up = number % 2 == 0;
      for (int stride = p.list / 2; stride > 0; stride /= 2) {
        for (int pair = thread_index(); pair < words / 2; pair += thread_count()) {
          const int half = p.list / 2, which = pair / half, in_list = pair % half;
          const int i = which * 2 * step + 2 * in_list - (in_list & (stride - 1)), j = i + stride;
          const Word a = buffer[i], b = buffer[j];
          if ((b < a) == (last ? up : which % 2 == 0)) {
            buffer[i] = b;
            buffer[j] = a;
          }
        }
        __syncthreads();
      }
    }
    Word* out = p.out + row * p.out_row + number * p.list;
    for (int i = thread_index(); i < p.list && i < p.keep; i += thread_count()) out[i] = buffer[i];
    __syncthreads();
  }
}

template <class Form>
struct BitonicLong {
  using Word = typename Form::Word;
  Source<Form> source;  // of the first sort; of what is halved or copied
  Word* words;
  std::int64_t rows, count;  // words a row
  std::int64_t size, stride, list;
  int tile;
  std::int64_t keep;
};

/// Sorts tiles of the input in alternating directions; dynamic shared memory of a tile, as for the next.
template <class Form>
__global__ void bitonic_first(BitonicLong<Form> p) {
  using Word = typename Form::Word;
  Word* buffer = dynamic_shared<Word>();
  const std::int64_t tiles = p.count / p.tile;
  for (std::int64_t work = blockIdx.x; work < p.rows * tiles; work += gridDim.x) {
    const std::int64_t row = work / tiles, first = work % tiles * p.tile;
    for (int i = thread_index(); i < p.tile; i += thread_count())
      buffer[i] = first + i < p.source.count ? p.source.at(row, first + i) : Form::last();
    __syncthreads();
    for (int size = 2; size <= p.tile; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2)
        exchange_tile(buffer, p.tile, stride, [&](int i) { return ((first + i) & size) == 0; });
    for (int i = thread_index(); i < p.tile; i += thread_count()) p.words[row * p.count + first + i] = buffer[i];
    __syncthreads();
  }
}

/// The strides of a merge to `size` that stay within a tile.
template <class Form>
__global__ void bitonic_last(BitonicLong<Form> p) {
  using Word = typename Form::Word;
  Word* buffer = dynamic_shared<Word>();
  const std::int64_t tiles = p.count / p.tile;
  for (std::int64_t work = blockIdx.x; work < p.rows * tiles; work += gridDim.x) {
    const std::int64_t first = work % tiles * p.tile;
    Word* words = p.words + work / tiles * p.count + first;
    for (int i = thread_index(); i < p.tile; i += thread_count()) buffer[i] = words[i];
    __syncthreads();
    for (int stride = p.tile / 2; stride > 0; stride /= 2)
      exchange_tile(buffer, p.tile, stride, [&](int i) { return ((first + i) & p.size) == 0; });
    for (int i = thread_index(); i < p.tile; i += thread_count()) words[i] = buffer[i];
    __syncthreads();
  }
}

/// One stride of a merge to `size`.
template <class Form>
__global__ void bitonic_stride(BitonicLong<Form> p) {
  using Word = typename Form::Word;
  const std::int64_t step = std::int64_t{gridDim.x} * thread_count(), half = p.count / 2;
  for (std::int64_t work = std::int64_t{blockIdx.x} * thread_count() + thread_index(); work < p.rows * half;
       work += step) {
    const std::int64_t pair = work % half, i = 2 * pair - (pair & (p.stride - 1));
    Word* words = p.words + work / half * p.count;
    const Word a = words[i], b = words[i + p.stride];
    if ((b < a) == ((i & p.size) == 0)) {
      words[i] = b;
      words[i + p.stride] = a;
    }
  }
}

/// The smaller words of pairs of lists; a list without a partner stays as it is.
template <class Form>
__global__ void bitonic_halve(BitonicLong<Form> p) {
  using Word = typename Form::Word;
  const std::int64_t step = std::int64_t{gridDim.x} * thread_count();
  for (std::int64_t work = std::int64_t{blockIdx.x} * thread_count() + thread_index(); work < p.rows * p.count;
       work += step) {
    const std::int64_t row = work / p.count, i = work % p.count, from = i / p.list * 2 * p.list + i % p.list;
    Word word = p.source.at(row, from);
    if (from + p.list < p.source.count) {
      const Word other = p.source.at(row, from + p.list);
      if (other < word) word = other;
    }
    p.words[work] = word;
  }
}

template <class Form>
__global__ void bitonic_copy(BitonicLong<Form> p) {
  const std::int64_t step = std::int64_t{gridDim.x} * thread_count();
  for (std::int64_t work = std::int64_t{blockIdx.x} * thread_count() + thread_index(); work < p.rows * p.keep;
       work += step)
    p.words[work] = p.source.at(work / p.keep, work % p.keep);
}

template <class Form, class Launch>
void bitonic_in_tiles(Launch& launch, const SelectBatch& batch, const BitonicPlan& plan) {
  using Word = typename Form::Word;
  const std::int64_t rows = batch.rows.rows;
  Word* arrays[2] = {
      static_cast<Word*>(batch.workspace),
      static_cast<Word*>(batch.workspace) + rows * bitonic_words(batch.form, batch.rows.cols, batch.k, false)};
  Source<Form> source = {batch.rows, nullptr, batch.rows.cols, 0};
  for (int turn = 0;; turn ^= 1) {
    const std::int64_t tiles = divide_up(source.count, plan.tile);
    Word* out = tiles == 1 ? static_cast<Word*>(batch.list) : arrays[turn];
    const std::int64_t out_row = tiles == 1 ? batch.k : tiles * plan.list;
    const bool sorted = source.words != nullptr;
    launch(blocks_for(rows * tiles, batch.multiprocessors),
           static_cast<int>(std::min<std::int64_t>(bitonic_threads, plan.tile / 2)),
           plan.tile * static_cast<std::int64_t>(sizeof(Word)), bitonic_tiles<Form>,
           {source, rows, tiles, static_cast<int>(plan.tile), static_cast<int>(plan.list), sorted, out, out_row,
            tiles == 1 ? batch.k : plan.list});
    if (tiles == 1) return;
    source = {batch.rows, out, out_row, out_row};
  }
}

template <class Form, class Launch>
void bitonic_through_memory(Launch& launch, const SelectBatch& batch, const BitonicPlan& plan) {
  using Word = typename Form::Word;
  const std::int64_t rows = batch.rows.rows, tile = std::min(plan.tile, plan.list);
  const std::int64_t shared = tile * static_cast<std::int64_t>(sizeof(Word));
  Word* arrays[2] = {
      static_cast<Word*>(batch.workspace),
      static_cast<Word*>(batch.workspace) + rows * bitonic_words(batch.form, batch.rows.cols, batch.k, false)};
  std::int64_t lists = divide_up(batch.rows.cols, plan.list);
  BitonicLong<Form> p = {{batch.rows, nullptr, batch.rows.cols, 0},
                         arrays[0],
                         rows,
                         lists * plan.list,
                         0,
                         0,
                         plan.list,
                         static_cast<int>(tile),
                         batch.k};
  const auto by_tiles = [&] { return blocks_for(rows * p.count / tile, batch.multiprocessors); };
  const auto by_words = [&] { return blocks_for(divide_up(rows * p.count, bitonic_threads), batch.multiprocessors); };
  const auto merge_to = [&](std::int64_t size) {
    p.size = size;
    for (p.stride = size / 2; p.stride >= tile; p.stride /= 2)
      launch(by_words(), bitonic_threads, 0, bitonic_stride<Form>, p);
    launch(by_tiles(), bitonic_threads, shared, bitonic_last<Form>, p);
  };
  launch(by_tiles(), bitonic_threads, shared, bitonic_first<Form>, p);
  for (std::int64_t size = 2 * tile; size <= plan.list; size *= 2) merge_to(size);
  for (int turn = 1; lists > 1; turn ^= 1) {
    p.source = {batch.rows, p.words, p.count, p.count};
    lists = divide_up(lists, 2);
    p.words = arrays[turn];
    p.count = lists * plan.list;
    launch(by_words(), bitonic_threads, 0, bitonic_halve<Form>, p);
    merge_to(plan.list);
  }
  p.source = {batch.rows, p.words, p.count, p.count};
  p.words = static_cast<Word*>(batch.list);
  launch(by_words(), bitonic_threads, 0, bitonic_copy<Form>, p);
}

template <class Launch>
void run_bitonic(Launch& launch, const SelectBatch& batch) {
  const BitonicPlan plan = bitonic_plan(batch.form, batch.rows.cols, batch.k);
  with_entries(batch.form, [&]<class Form>() {
    if (plan.in_tiles) bitonic_in_tiles<Form>(launch, batch, plan);
    else bitonic_through_memory<Form>(launch, batch, plan);
  });
}

template <class Launch>
const SelectKernel<Launch>& bitonic_select() {
  static constexpr SelectKernel<Launch> row = {
      .name = "bitonic",
      .workspace = [](const SelectShape& s) { return bitonic_workspace(s.form, s.cols, s.k); },
      .sorted = true,
      .select = run_bitonic<Launch>};
  return row;
}
VICINAL_SELECT_INSTANCE(bitonic);

}  // namespace vicinal::cuda
