// PREPARE, its second kernels: rows are put in the order of their largest elements by a counting sort, so that those of
// a tile can share one step; then runs of them are sorted by length, so that those of a group have nearly one term.
#pragma once
#include "cuda/search/core/block_select.cuh"
#include "cuda/search/prepare/measure.cuh"

namespace vicinal::cuda {

inline constexpr int order_bins = 512, order_threads = 512;
/// Rows enter the order shuffled, so that those of one size are spread
/// over the tiles. A block sorts a chunk of them, a warp a part of it.
inline constexpr int order_warps = order_threads / 32;
struct Order {
  PreparedMatrix matrix;
  Visits shuffle;
  std::uint32_t* counts = nullptr;  // [order_bins][blocks]
  std::uint32_t* places = nullptr;  // the same, of the positions where they begin
  std::int64_t chunk = 0;           // rows a block
  int blocks = 0;
};

/// By size, to a sixteenth, around 1.
__device__ __forceinline__ int order_bin(float size) {
  const int bin = static_cast<int>(bits_of(size) >> 19) - ((127 - 24) << 4);
  return bin < 0 ? 0 : bin >= order_bins ? order_bins - 1 : bin;
}

/// The rows that a warp of a block has, and how many of each bin: found[bin * order_warps + warp].
struct OrderPart {
  std::int64_t begin, end;
};
__device__ __forceinline__ OrderPart order_part(const Order& args, std::uint16_t* found) {
  const std::int64_t each = args.chunk / order_warps,
                     begin = static_cast<std::int64_t>(blockIdx.x) * args.chunk + warp_index() * each;
  const OrderPart part{begin < args.matrix.count ? begin : args.matrix.count,
                       begin + each < args.matrix.count ? begin + each : args.matrix.count};
  for (int b = thread_index(); b < order_bins * order_warps; b += thread_count()) found[b] = 0;
  __syncthreads();
  for (std::int64_t from = part.begin; from < part.end; from += 32) {
    const std::int64_t i = from + lane_index();
    const int bin = i < part.end ? order_bin(args.matrix.sizes[args.shuffle.at(i)]) : -1;
    const unsigned alike = __match_any_sync(all_lanes, bin);
    if (bin >= 0 && votes_below(alike) == 0)
      found[bin * order_warps + warp_index()] += static_cast<std::uint16_t>(__popc(alike));
    __syncwarp();
  }
  __syncthreads();
  return part;
}

__global__ void __launch_bounds__(order_threads) count_sizes(Order args) {
  VICINAL_SHARED(std::uint16_t, found, order_bins * order_warps);
  order_part(args, found);
  for (int b = thread_index(); b < order_bins; b += thread_count()) {
    unsigned all = 0;
    for (int w = 0; w < order_warps; ++w) all += found[b * order_warps + w];
    args.counts[static_cast<std::int64_t>(b) * args.blocks + blockIdx.x] = all;
  }
}

/// Counts to the positions where they begin: a block has some of the bins, a warp each, and adds up all of them.
inline constexpr int place_threads = 1024, bins_a_block = place_threads / 32;
__global__ void __launch_bounds__(place_threads) place_bins(Order args) {
  VICINAL_SHARED(unsigned, begins, order_bins);
  VICINAL_SHARED(unsigned, scratch, 32);
#pragma unroll 4
  for (int bin = warp_index(); bin < order_bins; bin += place_threads / 32) {
    unsigned sum = 0;
    for (int b = lane_index(); b < args.blocks; b += 32)
      sum += args.counts[static_cast<std::int64_t>(bin) * args.blocks + b];
    sum = __reduce_add_sync(all_lanes, sum);
    if (lane_index() == 0) begins[bin] = sum;
  }
  __syncthreads();
  unsigned total = 0;
  const int own = static_cast<int>(blockIdx.x) * bins_a_block + warp_index();
  const unsigned before = block_sum_before(thread_index() < order_bins ? begins[thread_index()] : 0u, total, scratch);
  __syncthreads();
  if (thread_index() < order_bins) begins[thread_index()] = before;
  __syncthreads();
  unsigned at = begins[own];
#pragma unroll 4
  for (int from = 0; from < args.blocks; from += 32) {
    const int b = from + lane_index();
    const std::int64_t index = static_cast<std::int64_t>(own) * args.blocks + b;
    const unsigned below = warp_sum_before(b < args.blocks ? args.counts[index] : 0u, total);
    if (b < args.blocks) args.places[index] = at + below;
    at += total;
  }
}

/// Every row to its position, those of one bin in the order in which they came.
__global__ void __launch_bounds__(order_threads) place_rows(Order args) {
  VICINAL_SHARED(std::uint16_t, found, order_bins * order_warps);
  VICINAL_SHARED(std::uint32_t, begins, order_bins);
  const OrderPart part = order_part(args, found);
  for (int b = thread_index(); b < order_bins; b += thread_count()) {
    begins[b] = args.places[static_cast<std::int64_t>(b) * args.blocks + blockIdx.x];
    unsigned before = 0;
    for (int w = 0; w < order_warps; ++w) {
      const unsigned here = found[b * order_warps + w];
      found[b * order_warps + w] = static_cast<std::uint16_t>(before);
      before += here;
    }
  }
  __syncthreads();
  for (std::int64_t from = part.begin; from < part.end; from += 32) {
    const std::int64_t i = from + lane_index();
    const std::int64_t row = i < part.end ? args.shuffle.at(i) : 0;
    const int bin = i < part.end ? order_bin(args.matrix.sizes[row]) : -1;
    const unsigned alike = __match_any_sync(all_lanes, bin);
    unsigned at = 0;
    if (bin >= 0) at = found[bin * order_warps + warp_index()] + static_cast<unsigned>(votes_below(alike));
    __syncwarp();
    if (bin >= 0 && votes_below(alike) == 0)
      found[bin * order_warps + warp_index()] = static_cast<std::uint16_t>(at + static_cast<unsigned>(__popc(alike)));
    __syncwarp();
    if (bin >= 0) args.matrix.order[begins[bin] + at] = static_cast<std::uint32_t>(row);
  }
}

/// The order of rows whose sizes do not matter: shuffled.
__global__ void __launch_bounds__(prepare_threads) shuffle_rows(Order args) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (i < args.matrix.count) args.matrix.order[i] = static_cast<std::uint32_t>(args.shuffle.at(i));
}

/// What sorting takes of rows that are prepared, by row.
struct FactsByRow {
  PreparedMatrix matrix;
  float* squares = nullptr;
  std::uint8_t* masked = nullptr;
};
__global__ void facts_by_row(FactsByRow args) {
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * thread_count() + thread_index();
  if (position >= args.matrix.count) return;
  const float term = args.matrix.tile_metadata[position / tile_rows].terms[position % tile_rows];
  const std::uint32_t row = args.matrix.order[position];
  args.masked[row] = term == static_cast<float>(infinite) ? 1 : 0;
  args.squares[row] = term > 0 ? term : 0.0F;
}

/// Rows of one or two bins and in no order between these positions are sorted by length into pairs of groups, which are
/// dealt to the tiles like cards: a tile has some of all lengths, and stays a sample. A cluster of near rows is not
/// gathered, as sorting all rows would.
inline constexpr int run_rows = 4096, run_threads = 1024, run_tiles = run_rows / tile_rows;
struct SortRuns {
  PreparedMatrix matrix;
  const float* squares = nullptr;            // of rows
  const std::uint8_t* duplicates = nullptr;  // Prepare's: rows that are masked, and come last
  bool by_size = true;  // whether rows are in the order of their sizes, which decide their tile's step
};
/// How many tiles around this one of a run are sorted as one: the most,
/// in parts of 1, 2, 4 and so on, whose ends are at most one bin apart.
__device__ __forceinline__ int tiles_alike(const SortRuns& args, const int* first_bins, const int* last_bins, int tile,
                                           int tiles) {
  if (!args.by_size) return run_tiles;
  for (int size = run_tiles; size > 1; size /= 2) {
    const int begin = tile / size * size, end = begin + size < tiles ? begin + size : tiles;
    if (last_bins[end - 1] - first_bins[begin] <= 1) return size;
  }
  return 1;
}
/// A RunPart says which rows of a run of so many, that of row i among them, are sorted as one.
struct RunPart {
  int first, size, full;  // tiles: the first, how many, and those of them that are not short
  __device__ __forceinline__ RunPart(const SortRuns& args, const int* first_bins, const int* last_bins, int i,
                                     int count) {
    const int tile = i / tile_rows;
    size = tiles_alike(args, first_bins, last_bins, tile, (count + tile_rows - 1) / tile_rows);
    first = tile / size * size;
    full = (first + size) * tile_rows <= count ? size : count / tile_rows - first;
  }
  /// Where row i of the sorted run is dealt to.
  __device__ __forceinline__ int dealt(int i) const {
    const int pair = (i - first * tile_rows) / rows_a_pair;
    return pair < full * pairs_a_tile ? (first + pair % full) * tile_rows + row_of_pair(pair / full, i % rows_a_pair)
                                      : i;
  }
};
/// A RunOfRows is the run of a block, in shared memory: words by which it is sorted, and the bins at its tiles' ends.
struct RunOfRows {
  std::uint64_t* words;
  int *first_bins, *last_bins;
  int count;

  /// order: of the run's rows, as they are before.
  __device__ __forceinline__ void load_bins(const SortRuns& args, const std::uint32_t* order) const {
    const int tiles = (count + tile_rows - 1) / tile_rows;
    for (int t = thread_index(); t < tiles && args.by_size; t += thread_count()) {
      const int end = (t + 1) * tile_rows < count ? (t + 1) * tile_rows : count;
      first_bins[t] = order_bin(args.matrix.sizes[order[t * tile_rows]]);
      last_bins[t] = order_bin(args.matrix.sizes[order[end - 1]]);
    }
    __syncthreads();
  }
  __device__ __forceinline__ RunPart part_of(const SortRuns& args, int i) const {
    return {args, first_bins, last_bins, i, count};
  }
  /// Sorted by part, length and row: 5, 27 and 32 bits. row(i): that is i-th before.
  template <class Row>
  __device__ __forceinline__ void sort_by_length(const SortRuns& args, const Row& row_at) const {
    for (int i = thread_index(); i < run_rows; i += thread_count()) {
      std::uint64_t word = ~std::uint64_t{0};
      if (i < count) {
        const std::uint32_t row = row_at(i);
        const bool masked = args.duplicates != nullptr && args.duplicates[row] != 0;
        const std::uint64_t length = masked ? 0x7ffffffu : bits_of(args.squares[row]) >> 4 & 0x7ffffffu;
        word = static_cast<std::uint64_t>(part_of(args, i).first) << 59 | length << 32 | row;
      }
      words[i] = word;
    }
    __syncthreads();
    sort_words(words, run_rows);
  }
  __device__ __forceinline__ void deal(const SortRuns& args, std::uint32_t* order) const {
    for (int i = thread_index(); i < count; i += thread_count())
      order[part_of(args, i).dealt(i)] = static_cast<std::uint32_t>(words[i]);
  }
};
__device__ __forceinline__ int rows_of_run(const SortRuns& args, std::int64_t run) {
  const std::int64_t left = args.matrix.count - run * run_rows;
  return left < run_rows ? static_cast<int>(left) : run_rows;
}
__global__ void __launch_bounds__(run_threads) sort_runs(SortRuns args) {
  VICINAL_SHARED(std::uint64_t, words, run_rows);
  VICINAL_SHARED(int, first_bins, run_tiles);
  VICINAL_SHARED(int, last_bins, run_tiles);
  const RunOfRows run{words, first_bins, last_bins, rows_of_run(args, blockIdx.x)};
  std::uint32_t* const order = args.matrix.order + static_cast<std::int64_t>(blockIdx.x) * run_rows;
  run.load_bins(args, order);
  run.sort_by_length(args, [order](int i) { return order[i]; });
  run.deal(args, order);
}

/// The order of rows whose tiles serve both sides, from that in which they were prepared. Rows of nearly one length are
/// sorted by what they exclude as queries, so that those of a pair of groups exclude alike; of real rows that differs
/// more than lengths do. Runs side by side are taken together where their sizes allow it: each gets the rows of its share
/// of their lengths.
struct SortBothSides {
  SortRuns runs;                        // whose matrix has the new order
  const std::uint32_t* from = nullptr;  // the order before
  const float* bases = nullptr;         // ThresholdCoeffs::base by row; -inf where nothing passes
};
inline constexpr int most_runs_together = 16;
/// How many runs around this one are taken together.
__device__ __forceinline__ int runs_together(const SortBothSides& args, std::int64_t run) {
  const PreparedMatrix& matrix = args.runs.matrix;
  for (int size = most_runs_together; size > 1; size /= 2) {
    const std::int64_t begin = run / size * size * run_rows, end = begin + static_cast<std::int64_t>(size) * run_rows;
    if (end > matrix.count) continue;
    if (!args.runs.by_size ||
        order_bin(matrix.sizes[args.from[end - 1]]) - order_bin(matrix.sizes[args.from[begin]]) <= 1)
      return size;
  }
  return 1;
}
/// Pairs of groups of nearly one length, of so many tiles that are sorted as one: as many as there are such strips in
/// all runs that are taken together, nearly.
__device__ __forceinline__ int strip_pairs(int tiles, int together) {
  int pairs = 2;
  while ((pairs + 1) * (pairs + 1) <= tiles * pairs_a_tile * together) ++pairs;
  return pairs;
}
/// A number that grows with x, in 20 bits.
__device__ __forceinline__ std::uint64_t ordered_code(float x) {
  const std::uint32_t bits = bits_of(x);
  return (bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u)) >> 12;
}
__global__ void __launch_bounds__(run_threads) sort_both_sides(SortBothSides args) {
  VICINAL_SHARED(std::uint64_t, words, run_rows);
  VICINAL_SHARED(int, first_bins, run_tiles);
  VICINAL_SHARED(int, last_bins, run_tiles);
  const std::int64_t number = blockIdx.x;
  const int together = runs_together(args, number);
  const std::uint32_t* const from = args.from + number / together * together * run_rows;
  SortRuns runs = args.runs;
  runs.by_size = runs.by_size && together == 1;  // else all tiles are alike
  const RunOfRows run{words, first_bins, last_bins, rows_of_run(runs, number)};
  run.load_bins(runs, args.from + number * run_rows);
  // Of each of the runs its share of their lengths; shares side by side are far apart, so that some of them are a sample.
  const int each = run_rows / together, share = static_cast<int>(number % together * 7 % together);
  const RunPart whole(runs, first_bins, last_bins, 0, run.count);
  run.sort_by_length(runs, [&](int i) {
    return together == 1 ? from[i] : from[i / each * run_rows + whole.dealt(share * each + i % each)];
  });
  // By part, strip, base and row: 5, 7, 20 and 32 bits.
  for (int i = thread_index(); i < run.count; i += thread_count()) {
    const RunPart part = run.part_of(runs, i);
    const auto row = static_cast<std::uint32_t>(words[i]);
    const int strip = (i - part.first * tile_rows) / (strip_pairs(part.size, together) * rows_a_pair);
    words[i] = static_cast<std::uint64_t>(part.first) << 59 | static_cast<std::uint64_t>(strip) << 52 |
               ordered_code(args.bases[row]) << 32 | row;
  }
  __syncthreads();
  sort_words(words, run_rows);
  run.deal(runs, runs.matrix.order + number * run_rows);
}

}  // namespace vicinal::cuda
