// SelectKernel is what the host knows of an algorithm: what it takes, the memory that it works in, and what launches
// it. All of it is plain arithmetic, the same under the emulator. `launch(blocks, threads, shared, kernel, args)`
// queues a kernel that takes one struct: CudaLaunch in cuda/device/launch.cuh, an emulated one in tests/kernels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/divide.hpp"
#include "cuda/select/input.cuh"
#include "cuda/select/select.hpp"

// Where a .cu file includes an algorithm, its launches on a
// device are compiled there; a host compiler needs no such line.
#if defined(__CUDACC__)
#define VICINAL_SELECT_INSTANCE(name) template const SelectKernel<CudaLaunch>& name##_select<CudaLaunch>()
#else
#define VICINAL_SELECT_INSTANCE(name) static_assert(true)
#endif

namespace vicinal::cuda {

struct CudaLaunch;

/// Rows that an algorithm selects from in one go.
struct SelectBatch {
  Rows rows;
  FormName form = FormName::packed;
  std::int64_t k = 0;
  void* list = nullptr;       // rows x k words
  std::int64_t list_row = 0;  // words from a row's list to the next, where that is not k
  void* workspace = nullptr;  // as Workspace says
  std::int64_t workers = 1;   // rows in work at a time, of algorithms that keep memory for each
  int multiprocessors = 1;
};

/// Memory that an algorithm works in: so much for each row of a batch,
/// and so much for each row in work, of at most `most_workers`.
struct Workspace {
  std::int64_t row = 0, worker = 0, most_workers = 0;
};

/// Blocks for `work` pieces: kernels take them in turns, so that no grid is beyond CUDA's limits.
inline std::int64_t blocks_for(std::int64_t work, int multiprocessors) {
  return std::max<std::int64_t>(1, std::min<std::int64_t>(work, std::int64_t{multiprocessors} * 64));
}
inline std::int64_t power_of_two(std::int64_t least) {
  std::int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

// A tile of 32 KiB of words is what one block sorts in shared memory.
inline std::int64_t most_tile(FormName form) { return (32 << 10) / std::max<std::int64_t>(word_size(form), 8); }

// merge: words a chunk, and words of each of the two arrays between which lists pass.
inline std::int64_t merge_chunk(FormName form, std::int64_t n, std::int64_t k) {
  // A chunk of k would leave nothing to drop.
  const std::int64_t good = std::max<std::int64_t>(1024, power_of_two(2 * k));
  return std::max<std::int64_t>(256, std::min({power_of_two(n), good, most_tile(form)}));
}
inline std::int64_t merge_words(FormName form, std::int64_t n, std::int64_t k) {
  const std::int64_t chunk = merge_chunk(form, n, k), chunks = divide_up(n, chunk);
  return chunks == 1 ? 0 : k <= chunk ? chunks * k : n + k;
}
inline Workspace merge_workspace(FormName form, std::int64_t n, std::int64_t k) {
  return {2 * merge_words(form, n, k) * word_size(form), 0, 0};
}

// Long lists of packed words are sorted by a sample (sample_sort.cuh); others are merged.
inline constexpr int most_sample_sort_buckets = 128, sample_sort_samples = 4096;
/// Buckets have about 1,200 to 2,400 words each, and hardly one has the 4,096 that shared memory holds: the most
/// buckets have fewer, since each has fewer samples.
inline int sample_sort_buckets(std::int64_t n) {
  const std::int64_t buckets = power_of_two(divide_up(n, 2400));
  return static_cast<int>(buckets < most_sample_sort_buckets ? buckets : power_of_two(divide_up(n, 1800)));
}
VICINAL_BOTH int sample_sort_oversampling(int buckets) {
  return buckets < most_sample_sort_buckets ? 64 : sample_sort_samples / buckets;
}
inline bool sorted_by_sample(FormName form, std::int64_t n) {
  return form == FormName::packed && n > most_tile(form) && sample_sort_buckets(n) <= most_sample_sort_buckets;
}
inline Workspace sample_sort_workspace(std::int64_t n) { return {8 * n + 16 * sample_sort_buckets(n), 0, 0}; }
/// What run_sort works in; merge_workspace(form, n, n) is enough for either way.
inline Workspace sort_workspace(FormName form, std::int64_t n) {
  return sorted_by_sample(form, n) ? sample_sort_workspace(n) : merge_workspace(form, n, n);
}

// bitonic: lists of K words, a power of two. Tiles reduce to one list each, as long as two lists fit into a tile.
struct BitonicPlan {
  std::int64_t list, tile;  // words
  bool in_tiles;
};
inline BitonicPlan bitonic_plan(FormName form, std::int64_t cols, std::int64_t k) {
  const std::int64_t list = power_of_two(k), most = most_tile(form);
  const std::int64_t tile = std::max<std::int64_t>(64, std::min(most, power_of_two(std::max(cols, list))));
  return {list, tile, 2 * list <= tile || (list <= tile && power_of_two(cols) <= tile)};
}
/// Words of the first and of the second array.
inline std::int64_t bitonic_words(FormName form, std::int64_t cols, std::int64_t k, bool second) {
  const BitonicPlan plan = bitonic_plan(form, cols, k);
  std::int64_t lists = divide_up(cols, plan.in_tiles ? plan.tile : plan.list);
  if (plan.in_tiles && lists == 1) return 0;
  if (second) lists = plan.in_tiles ? divide_up(lists * plan.list, plan.tile) : divide_up(lists, 2);
  return lists * plan.list;
}
inline Workspace bitonic_workspace(FormName form, std::int64_t cols, std::int64_t k) {
  return {(bitonic_words(form, cols, k, false) + bitonic_words(form, cols, k, true)) * word_size(form), 0, 0};
}

// quick: two arrays of a row's length for each row in work.
inline constexpr int quick_warp_threads = 128, quick_block_threads = 256;
inline Workspace quick_workspace(FormName form, std::int64_t cols, bool warp, int multiprocessors) {
  return {0, 2 * cols * word_size(form), std::int64_t{multiprocessors} * (warp ? 32 : 4)};
}

// radix: two arrays of candidates for each row in work; a bucket that does not fit is read from the input again.
inline constexpr int radix_threads = 256;
inline std::int64_t radix_capacity(std::int64_t cols) { return std::min(cols, std::max<std::int64_t>(4096, cols / 8)); }
inline Workspace radix_workspace(FormName form, std::int64_t cols, int multiprocessors) {
  return {0, 2 * radix_capacity(cols) * word_size(form), std::int64_t{multiprocessors} * 4};
}

// scan: a row's state, its histogram, and two counts for each of its tiles.
inline constexpr std::int64_t scan_tile = 8192;
inline Workspace scan_workspace(std::int64_t cols) { return {32 + 256 * 8 + divide_up(cols, scan_tile) * 16, 0, 0}; }

// sieve: what is speculated from a sample. The threshold of a row is
// a word that `rank` to `most_rank` of the samples are not beyond.
struct SpeculativeThreshold {
  int samples = 0;  // a block; 0: no sample, every word is within the threshold
  int run = 1;      // side by side, since memory is read 32 bytes at a time
  int rank = 0, most_rank = 0;
};
inline constexpr std::int64_t sieve_block_samples = 2048;  // of sieve_block
/// The k smallest of `cols` are not beyond the speculative threshold, but for one
/// row in 10^9: of the k, those in the sample are about Poisson distributed with
/// the mean k samples / cols, and Chernoff's bound says how many there may be.
inline SpeculativeThreshold speculate(std::int64_t cols, std::int64_t k, std::int64_t samples, int blocks, int run) {
  SpeculativeThreshold speculative;
  samples = std::min(samples, cols / 8 / blocks);
  samples -= samples % run;
  if (samples < 4 * run) return speculative;
  const double mean = static_cast<double>(k) * static_cast<double>(samples * blocks) / static_cast<double>(cols);
  // It is more than one run, since rows may be sorted.
  auto rank = static_cast<std::int64_t>(std::max(mean, static_cast<double>(run + 1)));
  while (static_cast<double>(rank) * std::log(static_cast<double>(rank) / mean) - static_cast<double>(rank) + mean < 21)
    ++rank;
  // A threshold is found in fewer steps where it may be a little higher; of many samples a little is less.
  const std::int64_t most = rank + std::max<std::int64_t>(1, rank / (rank < 256 ? 4 : 16));
  if (most > samples * blocks / 2) return speculative;
  speculative.samples = static_cast<int>(samples);
  speculative.run = run;
  speculative.rank = static_cast<int>(rank);
  speculative.most_rank = static_cast<int>(most);
  return speculative;
}
/// Where a run of samples begins: in each stratum of the row at a place that hangs on row and run.
VICINAL_BOTH std::int64_t sieve_sample_column(std::int64_t row, std::int64_t run, std::int64_t stratum, int length) {
  auto x = static_cast<std::uint64_t>(row) * 0x9e3779b97f4a7c15ull +
           static_cast<std::uint64_t>(run) * 0xd1342543de82ef95ull + 1;
  x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 29;
  const std::int64_t places = stratum / length;
  return run * stratum +
         static_cast<std::int64_t>((x & 0xffffffffu) * static_cast<std::uint64_t>(places) >> 32) * length;
}
/// Words that shared memory keeps between rounds.
inline std::int64_t sieve_room(std::int64_t k) { return std::max<std::int64_t>(1024, 2 * k); }
inline std::int64_t sieve_most_k(FormName form) { return form == FormName::wide ? 2048 : 4096; }

/// sieve_rows: a row fits into the registers of a warp or a block
/// of eight, and its answer into so many words of shared memory.
inline constexpr std::int64_t sieve_rows_cols = 8192;
inline constexpr int sieve_rows_warps = 4;  // a block, of rows of a warp each
template <int warps>
inline constexpr int sieve_rows_words = warps == 1 ? 256 : 2048;
/// From k to so many words are sorted: a power of two, and some room for a threshold.
inline std::int64_t sieve_rows_sorted(std::int64_t k) { return std::max<std::int64_t>(32, power_of_two(k + k / 8)); }
inline std::int64_t sieve_rows_most_k(std::int64_t cols) {
  const std::int64_t words = cols <= 1024 ? sieve_rows_words<1> : sieve_rows_words<8>;
  return words - words / 9;
}

/// sieve_grid: the number of blocks that sample, and the words that may be found.
struct SieveGridPlan {
  SpeculativeThreshold speculative;
  int samplers = 1, kept = 0;
  std::int64_t most_found = 0;
  bool in_block = false;  // a block sorts the answer
};
inline SieveGridPlan sieve_grid_plan(std::int64_t cols, std::int64_t k, int size, FormName form) {
  SieveGridPlan plan;
  plan.in_block = k <= sieve_most_k(form);
  // Long rows have more samples, so that what is found stays some
  // times k; the smallest of all samplers fit into one block.
  constexpr std::int64_t per_block = 4096, most_kept = 8192, long_k = 16384;
  int samplers =
      static_cast<int>(std::min<std::int64_t>(64, std::max(cols / 256 / per_block, power_of_two(k / long_k))));
  for (;; samplers /= 2) {
    plan.speculative = speculate(cols, k, per_block, samplers, 32 / size);
    if (plan.speculative.samples == 0) {
      plan.most_found = cols;
      return plan;
    }
    plan.kept = samplers == 1 ? 0 : std::min(plan.speculative.most_rank, plan.speculative.samples);
    if (samplers * plan.kept <= most_kept) break;
  }
  plan.samplers = samplers;
  const double rank = plan.speculative.most_rank,
               share = static_cast<double>(plan.speculative.samples) * samplers / static_cast<double>(cols);
  plan.most_found = std::min(cols, std::max(k, static_cast<std::int64_t>((rank + 7 * std::sqrt(rank)) / share) + 1024));
  return plan;
}
inline Workspace sieve_grid_workspace(std::int64_t cols, std::int64_t k, int size, FormName form) {
  const SieveGridPlan plan = sieve_grid_plan(cols, k, size, form);
  const std::int64_t word = word_size(form);
  Workspace workspace{word * (1 + plan.samplers * plan.kept) + 8 + 4 + 16, 0, 0};
  if (!plan.in_block) workspace.row += sort_workspace(form, plan.most_found).row;
  return workspace;
}

// sieve_parts: parts of a row, and what a part finds: at least `kept` words and at most `slots`, from at most `buffer`.
inline constexpr std::int64_t sieve_parts_least_cols = 1 << 16, sieve_parts_most_cols = 1 << 22,
                              sieve_parts_most_k = 128;
inline constexpr int sieve_most_parts = 256, sieve_part_kept = 16, sieve_part_lanes = 4, sieve_part_slots = 32;
inline constexpr int sieve_parts_compared = 384;  // words that are ranked by comparing all with all
inline constexpr int sieve_part_buffer =
    static_cast<int>(sieve_part_kept * sieve_part_lanes * (sieve_parts_most_cols / sieve_most_parts / 256 + 1));
inline int sieve_parts(std::int64_t cols) {
  return static_cast<int>(std::min<std::int64_t>(sieve_most_parts, power_of_two(cols / 1024)));
}
/// Which eight values of a row a part gets as its group-th: one of each `parts` in a row.
VICINAL_BOTH std::int64_t sieve_part_place(std::int64_t row, int part, int group, int parts) {
  const unsigned turn = (static_cast<unsigned>(group) + static_cast<unsigned>(row)) * 0x9e3779b1u >> 16;
  return std::int64_t{group} * parts +
         static_cast<std::int64_t>((static_cast<unsigned>(part) + turn) & static_cast<unsigned>(parts - 1));
}
inline Workspace sieve_parts_workspace(std::int64_t cols) {
  return {sieve_parts(cols) * (sieve_part_slots + 1) * 8, 0, 0};
}

/// What the call wants of the words: values, ids, payload of a batch.
struct Emission {
  void* values = nullptr;
  std::int64_t* ids = nullptr;
  void* payload_out = nullptr;
  Payload payload;
};

/// What the memory of an algorithm hangs on.
struct SelectShape {
  FormName form = FormName::packed;
  std::int64_t cols = 0, k = 0;
  int size = 4;  // bytes of a value
  int multiprocessors = 1;
};

/// An algorithm as the sequence sees it. NAME.cuh defines NAME_select<Launch>(), which returns its row, and ends with
/// VICINAL_SELECT_INSTANCE(NAME); table.hpp finds it by its line in algorithm.def.
template <class Launch>
struct SelectKernel {
  const char* name;
  /// Why it cannot take the task; null where it can. No function: it takes every task.
  const char* (*refusal)(const SelectArgs& task, FormName form) = nullptr;
  /// No function: it needs no memory beside its list.
  Workspace (*workspace)(const SelectShape& shape) = nullptr;
  /// Words of a row's list. No function: k, or none where the algorithm writes the results.
  std::int64_t (*list_words)(const SelectShape& shape) = nullptr;
  bool sorted = false;        // leaves its words in order
  bool values_alone = false;  // may select values without their positions
  // One of the two: leaves the words of the best k of each row in batch.list, or writes the results itself.
  void (*select)(Launch& launch, const SelectBatch& batch) = nullptr;
  void (*select_and_emit)(Launch& launch, const SelectBatch& batch, const Emission& emission) = nullptr;
};

template <class Launch>
void run_merge(Launch& launch, const SelectBatch& batch);
/// Sorts the k words of each row of batch.list, in place; needs sort_workspace(form, k).
template <class Launch>
void run_sort(Launch& launch, const SelectBatch& batch);
/// Writes what the words stand for; words alone must be sorted where the values are floating-point.
template <class Launch>
void run_emit(Launch& launch, const SelectBatch& batch, const Emission& emission);

}  // namespace vicinal::cuda
