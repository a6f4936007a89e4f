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
__global__ void __launch_bounds__(run_threads) sort_runs(SortRuns args) {
  VICINAL_SHARED(std::uint64_t, words, run_rows);
  VICINAL_SHARED(int, first_bins, run_tiles);
  VICINAL_SHARED(int, last_bins, run_tiles);
  const PreparedMatrix& matrix = args.matrix;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * run_rows, left = matrix.count - begin;
  const int count = left < run_rows ? static_cast<int>(left) : run_rows, tiles = (count + tile_rows - 1) / tile_rows;
  std::uint32_t* const order = matrix.order + begin;
  for (int t = thread_index(); t < tiles && args.by_size; t += thread_count()) {
    const int end = (t + 1) * tile_rows < count ? (t + 1) * tile_rows : count;
    first_bins[t] = order_bin(matrix.sizes[order[t * tile_rows]]);
    last_bins[t] = order_bin(matrix.sizes[order[end - 1]]);
  }
  __syncthreads();
  // Words by part, length and row: 5, 27 and 32 bits.
  for (int i = thread_index(); i < run_rows; i += thread_count()) {
    std::uint64_t word = ~std::uint64_t{0};
    if (i < count) {
      const int tile = i / tile_rows, size = tiles_alike(args, first_bins, last_bins, tile, tiles);
      const std::uint32_t row = order[i];
      const bool masked = args.duplicates != nullptr && args.duplicates[row] != 0;
      const std::uint64_t length = masked ? 0x7ffffffu : bits_of(args.squares[row]) >> 4 & 0x7ffffffu;
      word = static_cast<std::uint64_t>(tile / size * size) << 59 | length << 32 | row;
    }
    words[i] = word;
  }
  __syncthreads();
  sort_words(words, run_rows);
  for (int i = thread_index(); i < count; i += thread_count()) {
    const int tile = i / tile_rows, size = tiles_alike(args, first_bins, last_bins, tile, tiles),
              first = tile / size * size,
              full = (first + size) * tile_rows <= count ? size
                                                         : count / tile_rows - first,  // without a last one that is not
        pair = (i - first * tile_rows) / rows_a_pair;
    const int to =
        pair < full * pairs_a_tile ? (first + pair % full) * tile_rows + row_of_pair(pair / full, i % rows_a_pair) : i;
    order[to] = static_cast<std::uint32_t>(words[i]);
  }
}

}  // namespace vicinal::cuda
