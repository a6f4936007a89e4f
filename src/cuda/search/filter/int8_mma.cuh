// FILTER on tensor cores by mma.sync, for every device from compute capability 8.0 on and for
// the emulator: products of int8, exact in 32 bits, are tested in the registers where they
// arise (core/bound.hpp). A block takes 256 queries through some tiles of 128 rows. A sum
// plus its row's bias is compared with its query's threshold and with nothing else.
//
// 16 warps multiply 32 queries x 64 rows each; asynchronous copies bring rows some tiles ahead. Queries of one slab
// stay in registers, longer ones come slab by slab with the rows. int8_wgmma.cuh finds the same by wgmma.
#pragma once
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

/// Where each part of a block's shared memory begins, in bytes.
struct FilterMemory {
  int stages, stage_bytes;
  std::int64_t tile_metadata, queries, coeffs, thresholds, biases, facts, scratch, all;
};
VICINAL_HOST_DEVICE inline constexpr FilterMemory filter_memory(int slab, bool slabs) {
  FilterMemory m{};
  m.stages = slabs ? 3 : 4;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.tile_metadata = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.queries = m.tile_metadata + m.stages * static_cast<std::int64_t>(sizeof(TileMetadata));
  m.coeffs = m.queries + (slabs ? 0 : block_queries * slab);
  m.thresholds = m.coeffs + block_queries * static_cast<std::int64_t>(sizeof(ThresholdCoeffsF32));
  m.biases = m.thresholds + 2 * block_queries * 4;
  m.facts = m.biases + 2 * 2 * tile_rows * 4;
  m.scratch = m.facts + 64;
  m.all = m.scratch + filter_warps * 32 * 18 * 4;
  return m;
}

/// 16 bytes of a line of a slab in shared memory.
template <int slab>
__device__ __forceinline__ unsigned char* line_chunk(unsigned char* tile, int line, int chunk) {
  return tile + line * slab + swizzled_chunk(slab, line, chunk) * 16;
}

__device__ __forceinline__ void copy_slab(unsigned char* to, const void* from, int bytes) {
  for (int i = thread_index() * 16; i < bytes; i += filter_threads * 16)
    copy_16(to + i, static_cast<const unsigned char*>(from) + i);
}

/// Asynchronous copies of a unit of work, a slab a step, some steps ahead of the products.
template <int slab, bool slabs_of_queries>
struct SlabCopies {
  static constexpr FilterMemory memory = filter_memory(slab, slabs_of_queries);
  const SearchArgs& args;
  unsigned char* base;
  const std::int8_t* queries;  // of the block
  std::int64_t tile;           // that is copied
  int slabs, all;              // of a tile, of the unit
  int slab_to_copy = 0;

  /// Asks for the slab of step s: rows, with the first of a tile its metadata, and queries of several slabs.
  __device__ __forceinline__ void ask(int s) {
    constexpr int tile_bytes = tile_rows * slab;
    if (s < all) {
      const std::int64_t width = args.rows.width;
      unsigned char* to = base + s % memory.stages * memory.stage_bytes;
      copy_slab(to, args.rows.bytes + tile * tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
      if (slab_to_copy == 0)
        copy_slab(base + memory.tile_metadata + s % memory.stages * sizeof(TileMetadata),
                  args.rows.tile_metadata + tile, sizeof(TileMetadata));
      if constexpr (slabs_of_queries) {
        copy_slab(to + tile_bytes, queries + slab_to_copy * tile_bytes, tile_bytes);
        copy_slab(to + 2 * tile_bytes, queries + tile_rows * width + slab_to_copy * tile_bytes, tile_bytes);
      }
      if (++slab_to_copy == slabs) {
        slab_to_copy = 0;
        tile = args.visits.after(tile);
      }
    }
    commit_copies();
  }
};

/// Biases of a tile's rows, for each half of the block's queries, and thresholds of the queries.
template <bool sampling>
__device__ __forceinline__ void bind_int8_tile(const SearchArgs& args, const TileMetadata& metadata, std::int64_t tile,
                                               const ThresholdCoeffsF32* coeffs, const double* inverses,
                                               int* thresholds, int* biases) {
  const int i = thread_index() % block_queries;
  const double inverse = inverses[i / tile_rows] * metadata.inverse;
  if (thread_index() < block_queries)
    biases[i] = bias_of<sampling>(args, metadata.terms[i % tile_rows], tile * tile_rows + i % tile_rows, inverse);
  else thresholds[i] = int8_threshold_of(coeffs[i], metadata.maxima, inverse);
}

/// Operands of the warp's m-th 16 queries, of 32 columns. from:
/// the first line of a slab of the warp's half of the queries.
template <int slab>
__device__ __forceinline__ void load_queries(std::uint32_t (&to)[4], unsigned char* from, int warp_queries, int m,
                                             int step) {
  const int lane = lane_index();
  load_matrices(to, line_chunk<slab>(from, warp_queries % tile_rows + m * 16 + (lane / 8 & 1) * 8 + lane % 8,
                                     2 * step + lane / 16));
}

/// Sums begin with the biases of their rows. biases: of the warp's rows.
__device__ __forceinline__ void begin_sums(int (&sums)[2][8][4], const int* biases, int member) {
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int bias = biases[n * 8 + 2 * member + c];
#pragma unroll
      for (int m = 0; m < 2; ++m) sums[m][n][c] = sums[m][n][2 + c] = bias;
    }
}

/// The multiplication of a slab: sums of 32 queries x 64 rows of a warp, as mma.sync lays them out. a: operands of
/// queries of one slab; those of several follow the rows.
template <int slab, bool slabs_of_queries, int kept>
__device__ __forceinline__ void multiply_int8_slab(int (&sums)[2][8][4], std::uint32_t (&a)[2][kept][4],
                                                   unsigned char* rows, const WarpTile& at) {
  const int lane = lane_index(), half = at.warp_queries / tile_rows;
#pragma unroll
  for (int step = 0; step < slab / 32; ++step) {
    if constexpr (slabs_of_queries) {
#pragma unroll
      for (int m = 0; m < 2; ++m)
        load_queries<slab>(a[m][0], rows + (1 + half) * tile_rows * slab, at.warp_queries, m, step);
    }
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      std::uint32_t b[4];
      load_matrices(b,
                    line_chunk<slab>(rows, at.warp_rows + (n + lane / 16) * 8 + lane % 8, 2 * step + (lane / 8 & 1)));
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_16x8x32(sums[m][n], a[m][slabs_of_queries ? 0 : step], b[0], b[1]);
        mma_16x8x32(sums[m][n + 1], a[m][slabs_of_queries ? 0 : step], b[2], b[3]);
      }
    }
  }
}

/// Tests the largest sum of each query of a warp against its threshold and appends those that pass to the warp's
/// segment; as a sample, stores the largest of each group of rows instead. thresholds: of the lane's first query and
/// others; turn: of the tile in its unit of work.
template <bool sampling>
__device__ __forceinline__ void test_int8_sums(const Filter& f, int* scratch, int (&sums)[2][8][4],
                                               const int* thresholds, const WarpTile& at, std::int64_t tile, int turn,
                                               std::int64_t segment, std::uint32_t& used) {
  const SearchArgs& args = f.args;
  const std::int64_t query = at.block * block_queries + at.warp_queries + at.group;
  int nearest[2][2];
  bool any = false;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int most = sums[m][0][2 * h];
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) most = most < sums[m][n][2 * h + c] ? sums[m][n][2 * h + c] : most;
      nearest[m][h] = most;
      if constexpr (!sampling) any = any || most >= thresholds[m * 16 + h * 8];
    }

  // Output: the largest sum of each group of rows, or what passed.
  if constexpr (sampling) {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (const std::int64_t which = query + m * 16 + h * 8; which < args.queries.count)
          f.nearest[which * f.groups + (at.first + turn - f.first) * groups_a_tile + 2 * at.member +
                    at.warp_rows / 64] = nearest[m][h];
  } else if (__any_sync(all_lanes, any)) {
    const std::int64_t left = args.rows.count - tile * tile_rows - at.warp_rows;  // rows beyond are none
    const int rows_left = static_cast<int>(left < tile_rows ? left : tile_rows);
    const auto position = static_cast<std::uint32_t>(tile * tile_rows + at.warp_rows);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int threshold = thresholds[m * 16 + h * 8];
        append_candidates<8>(f, scratch, nearest[m][h] >= threshold, threshold,
                             static_cast<std::uint32_t>(at.block * block_queries + at.warp_queries + m * 16 + h * 8),
                             position, rows_left, f.candidates + segment * f.room, used, [&](int i) {
                               return SumPair{sums[m][i][2 * h], sums[m][i][2 * h + 1]};
                             });
      }
  }
}

/// slab: bytes of a line. slabs_of_queries: rows of several slabs.
template <int slab, bool slabs_of_queries, bool sampling>
__global__ void __launch_bounds__(filter_threads, 1) filter_int8_mma(Filter f) {
  // Sizes and shared memory.
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr FilterMemory memory = filter_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages;
  const SearchArgs& args = f.args;
  auto* const base = dynamic_shared<unsigned char>();
  const auto* const tile_metadata = reinterpret_cast<const TileMetadata*>(base + memory.tile_metadata);
  auto* const coeffs = reinterpret_cast<ThresholdCoeffsF32*>(base + memory.coeffs);
  auto* const all_thresholds = reinterpret_cast<int*>(base + memory.thresholds);
  auto* const all_biases = reinterpret_cast<int*>(base + memory.biases);
  auto* const inverses = reinterpret_cast<double*>(base + memory.facts);

  // This warp's queries and rows, and its segment of the output.
  const std::int64_t width = args.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int warp_queries = warp_index() / 2 * 32, warp_rows = warp_index() % 2 * 64, half = warp_queries / tile_rows;
  int* const scratch = reinterpret_cast<int*>(base + memory.scratch) + warp_index() * 32 * append_pitch<8>;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * filter_warps + warp_index();
  std::uint32_t used = 0;

  for (std::int64_t unit = blockIdx.x; unit < f.blocks * f.parts; unit += gridDim.x) {
    const std::int64_t block = unit % f.blocks, first = f.first + unit / f.blocks * f.part;
    const std::int64_t last = first + f.part < f.last ? first + f.part : f.last;
    const std::int8_t* queries = args.queries.bytes + block * block_queries * width;
    const int tiles = static_cast<int>(last - first), all = tiles * slabs;
    std::int64_t this_tile = args.visits.at(first);
    SlabCopies<slab, slabs_of_queries> copies{args, base, queries, this_tile, slabs, all};
    const WarpTile at{block, first, warp_queries, warp_rows, group, member};
    // Before the tile's turn; its first slab is that of step s.
    const auto bind_tile = [&](int turn, std::int64_t tile, int s) {
      bind_int8_tile<sampling>(args, tile_metadata[s % stages], tile, coeffs, inverses,
                               all_thresholds + (turn & 1) * block_queries, all_biases + (turn & 1) * block_queries);
    };

    // Prologue: what stays for the unit, the first copies, the first tile's bounds.
    __syncthreads();  // of the unit before everything is used
    if constexpr (!slabs_of_queries) copy_slab(base + memory.queries, queries, 2 * tile_bytes);
    if (thread_index() < block_queries)
      coeffs[thread_index()] = coeffs_of(args, block * block_queries + thread_index());
    else if (thread_index() < block_queries + 2)
      inverses[thread_index() - block_queries] = query_inverse(args, block, thread_index() - block_queries);
    for (int s = 0; s < stages - 1; ++s) copies.ask(s);
    std::uint32_t a[2][slabs_of_queries ? 1 : slab_steps][4];
    wait_for_copies<stages - 2>();
    __syncthreads();
    if constexpr (!slabs_of_queries) {
#pragma unroll
      for (int step = 0; step < slab_steps; ++step)
#pragma unroll
        for (int m = 0; m < 2; ++m)
          load_queries<slab>(a[m][step], base + memory.queries + half * tile_bytes, warp_queries, m, step);
    }
    bind_tile(0, this_tile, 0);

    // Main loop: a slab a step.
    int sums[2][8][4];
    int this_slab = 0, turn = 0;
    for (int s = 0; s < all; ++s) {
      wait_for_copies<stages - 3>();  // of the next step, too, with which the next tile may begin
      __syncthreads();
      copies.ask(s + stages - 1);
      if (this_slab == slabs - 1 && turn + 1 < tiles) bind_tile(turn + 1, args.visits.after(this_tile), s + 1);
      if (this_slab == 0)
        begin_sums(sums, all_biases + (turn & 1) * block_queries + half * tile_rows + warp_rows, member);
      multiply_int8_slab<slab, slabs_of_queries>(sums, a, base + s % stages * memory.stage_bytes, at);
      if (++this_slab < slabs) continue;
      this_slab = 0;

      // Epilogue.
      test_int8_sums<sampling>(f, scratch, sums, all_thresholds + (turn & 1) * block_queries + warp_queries + group, at,
                               this_tile, turn, segment, used);
      this_tile = args.visits.after(this_tile);
      ++turn;
    }
  }
  if (!sampling && lane == 0) f.used[segment] = used;
}

/// The row of this kernel in table.hpp.
struct Int8Mma : OnEveryDevice {
  static constexpr FilterKernel facts{
      .name = "int8_mma",
      .accepts = [](Precision precision, Sum sum) { return precision == Precision::int8 && has_products(sum); },
      .threads = filter_threads,
      .writing_warps = filter_warps,
      .shared_bytes =
          [](Precision /*precision*/, std::int64_t dims) {
            const std::int64_t width = packed_width(dims);
            return filter_memory(width == 64 ? 64 : 128, width > 128).all;
          }};

  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    const std::int64_t width = f.args.rows.width;
    const auto kernel = width == 64    ? filter_int8_mma<64, false, sampling>
                        : width == 128 ? filter_int8_mma<128, false, sampling>
                                       : filter_int8_mma<128, true, sampling>;
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims), kernel, f);
  }
};

}  // namespace vicinal::cuda
