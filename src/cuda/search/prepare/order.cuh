// PREPARE, its second kernels: rows are put in the order of their largest elements by a counting sort, so that those of a tile can share
// one step.
#pragma once
#include "cuda/search/prepare/measure.cuh"

namespace vicinal::cuda {

inline constexpr int order_bins = 512, order_threads = 512;
/// Rows enter the order shuffled, so that those of one size are spread over the tiles. A block sorts a chunk of them, a warp a part of it.
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

}  // namespace vicinal::cuda
