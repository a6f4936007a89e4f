// FILTER by wgmma, for compute capability 9.0: the kernel finds what int8_mma.cuh finds, by other instructions. The emulator does not run it;
// scatter_candidates, which it does run, takes its output.
//
// A block has five warpgroups. The first is the producer: its warp 0 asks for tiles of rows by bulk copies into a ring of stages, and its
// warps 1 to 3 take turns at binding a tile: they compute the biases of its rows and the thresholds of the block's queries. The other four
// are consumers: each multiplies 64 queries with the 128 rows of a tile and tests the sums, and while one tests, the others have the tensor
// cores. Where two of them would have no queries (`shares`), every other tile is theirs with the queries of the first two: then tiles come
// as fast as memory brings them.
//
// A lane has 16 sums of a query in each half of a tile. They become keys, whose low four bits say which of the 16 it is: the largest
// key of a lane then tells a sum and its row, and the next largest is one instruction a sum away.
#pragma once
#include "cuda/device/device.hpp"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/filter/wgmma_keys.cuh"

namespace vicinal::cuda {

inline constexpr int wgmma_threads = 640, wgmma_warps = 16;  // of a block; warps: those that multiply and test
inline constexpr int bound_tiles = 8;                        // tiles whose biases and thresholds are there at a time
static_assert(
    bound_tiles % 2 == 0,
    "warpgroups that share tiles each have slots of their own, for who waits at a barrier must meet its every phase");

/// Where each part of a block's shared memory begins, in bytes.
struct WgmmaMemory {
  int stages, stage_bytes;
  std::int64_t tile_metadata, queries, thresholds, biases, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr WgmmaMemory wgmma_memory(int slab, bool slabs) {
  WgmmaMemory m{};
  m.stages = slabs ? 4 : 6;
  m.stage_bytes = (tile_rows + (slabs ? block_queries : 0)) * slab;
  m.queries = static_cast<std::int64_t>(m.stages) * m.stage_bytes;
  m.tile_metadata = m.queries + (slabs ? 0 : block_queries * slab);
  m.thresholds = m.tile_metadata + bound_tiles * static_cast<std::int64_t>(sizeof(TileMetadata));
  m.biases = m.thresholds + bound_tiles * block_queries * 4;
  m.barriers = m.biases + bound_tiles * block_queries * 4;
  m.all = m.barriers + (2 * m.stages + 3 * bound_tiles + 2) * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}
static_assert(wgmma_memory(64, false).all <= 227 << 10 && wgmma_memory(128, false).all <= 227 << 10 &&
                  wgmma_memory(128, true).all <= 227 << 10,
              "a block has 227 KB at compute capability 9.0");

/// Where in a ring of buffers, and in which phase of its barrier.
template <int count>
struct Ring {
  unsigned position = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++position == count) position = 0, parity ^= 1;
  }
};

template <int slab, bool slabs_of_queries, bool sampling, bool shares>
__global__ void __launch_bounds__(wgmma_threads, 1) filter_int8_wgmma(Filter f) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // Sizes.
  constexpr int slab_steps = slab / 32, tile_bytes = tile_rows * slab;
  constexpr WgmmaMemory memory = wgmma_memory(slab, slabs_of_queries);
  constexpr int stages = memory.stages, consumers = wgmma_warps, binding_warps = 3;
  constexpr bool shifted = !slabs_of_queries;
  static_assert(!shares || (!slabs_of_queries && stages % 2 == 0));
  // A wait for a barrier's parity is right for a thread that is at most one phase behind. The copying warp and the consumers meet every
  // phase of theirs; a binding warp meets those of every third tile. At tile t it waits until tile t - bound_tiles was tested, and would take
  // the phase before for that one only if tile t - 2 * bound_tiles were untested. But it saw that tile t - binding_warps - bound_tiles was
  // tested when it bound t - binding_warps, and with `shares` tile t - 2 * binding_warps - bound_tiles, which is of the same pair of
  // warpgroups as t; they test their tiles in order, so t - 2 * bound_tiles was tested as well: the assertion says that neither is an earlier
  // tile. Its wait for metadata_full[t % bound_tiles] is then within one phase, too, since the metadata of t - bound_tiles were read
  // before that tile was tested.
  static_assert((shares ? 2 : 1) * binding_warps <= bound_tiles,
                "a binding warp could take a barrier's phase for the one before");

  // Shared memory, and the barriers at its end.
  const SearchArgs& args = f.args;
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  auto* const all_thresholds = reinterpret_cast<int*>(base + memory.thresholds);
  auto* const all_biases = reinterpret_cast<int*>(base + memory.biases);
  const unsigned at = shared_address(base);
  const Barrier full{at + static_cast<unsigned>(memory.barriers)},
      empty = full[stages], bounds_full = empty[stages], bounds_empty = bounds_full[bound_tiles],
      metadata_full = bounds_empty[bound_tiles], queries_full = metadata_full[bound_tiles],
      queries_empty = queries_full[1];
  const std::int64_t width = args.rows.width;
  const int slabs = slabs_of_queries ? static_cast<int>(width / slab) : 1;
  if (thread_index() == 0) {
    constexpr int testers = shares ? consumers / 2 : consumers;  // of a tile
    for (int i = 0; i < stages; ++i) init_barrier(full[i], 1), init_barrier(empty[i], testers);
    for (int i = 0; i < bound_tiles; ++i)
      init_barrier(bounds_full[i], 1), init_barrier(bounds_empty[i], testers), init_barrier(metadata_full[i], 1);
    init_barrier(queries_full, 1);
    init_barrier(queries_empty, consumers);
    fence_barriers();
  }
  __syncthreads();

  // A unit of work is a block of queries and some tiles in a row.
  const auto part_of = [&](std::int64_t unit, std::int64_t& block, std::int64_t& first, int& tiles) {
    block = unit % f.blocks;
    first = f.first + unit / f.blocks * f.part;
    tiles = static_cast<int>((first + f.part < f.last ? first + f.part : f.last) - first);
  };
  const std::int64_t units = f.blocks * f.parts;

  // Producer. All 640 threads were started with 96 registers: consumers request what it releases.
  if (warp_index() < 4) {
    release_registers<sampling ? 64 : 72>();
    Ring<stages> step;
    unsigned turn = 0, round = 0;
    for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
      std::int64_t block, first;
      int tiles;
      part_of(unit, block, first, tiles);
      std::int64_t tile = args.visits.at(first);
      // Warp 0, one lane: the block's queries, then the metadata and the slabs of each tile.
      if (warp_index() == 0) {
        if (lane_index() == 0) {
          const std::int8_t* queries = args.queries.bytes + block * block_queries * width;
          if constexpr (!slabs_of_queries) {
            wait_for(queries_empty, (round & 1) ^ 1);
            arrive_expecting(queries_full, 2 * tile_bytes);
            copy_bulk(at + memory.queries, queries, 2 * tile_bytes, queries_full);
          }
          for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
            const unsigned slot = turn % bound_tiles;
            wait_for(bounds_empty[slot], (turn / bound_tiles & 1) ^ 1);
            arrive_expecting(metadata_full[slot], sizeof(TileMetadata));
            copy_bulk(at + memory.tile_metadata + slot * sizeof(TileMetadata), args.rows.tile_metadata + tile,
                      sizeof(TileMetadata), metadata_full[slot]);
            for (int s = 0; s < slabs; ++s, step.next()) {
              const unsigned stage = step.position;
              wait_for(empty[stage], step.parity ^ 1);
              arrive_expecting(full[stage], memory.stage_bytes);
              const unsigned to = at + stage * memory.stage_bytes;
              copy_bulk(to, args.rows.bytes + tile * tile_rows * width + s * tile_bytes, tile_bytes, full[stage]);
              if constexpr (slabs_of_queries) {
                copy_bulk(to + tile_bytes, queries + s * tile_bytes, tile_bytes, full[stage]);
                copy_bulk(to + 2 * tile_bytes, queries + tile_rows * width + s * tile_bytes, tile_bytes, full[stage]);
              }
            }
          }
        }
        __syncwarp();
        continue;
      }
      // Warps 1 to 3 bind a tile each in turn. A lane has four rows, and eight queries of one half, whose coefficients it keeps.
      const int row = 4 * lane_index(), first_query = lane_index() / 16 * tile_rows + lane_index() % 16 * 4;
      const double low_inverse = query_inverse(args, block, 0), high_inverse = query_inverse(args, block, 1);
      const float quick_low = static_cast<float>(low_inverse), quick_high = static_cast<float>(high_inverse);
      ThresholdCoeffsF32 coeffs[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) coeffs[i] = coeffs_of(args, block * block_queries + first_query + i / 4 * 64 + i % 4);
      for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
        if (turn % binding_warps != static_cast<unsigned>(warp_index()) - 1) continue;
        const unsigned slot = turn % bound_tiles;
        const TileMetadata& metadata =
            *reinterpret_cast<const TileMetadata*>(base + memory.tile_metadata + slot * sizeof(TileMetadata));
        wait_for(bounds_empty[slot],
                 (turn / bound_tiles & 1) ^ 1);  // another warp's: its metadata was there, and the next one is meant
        wait_for(metadata_full[slot], turn / bound_tiles & 1);
        const float4 four = *reinterpret_cast<const float4*>(metadata.terms + row);
        float terms[4] = {four.x, four.y, four.z, four.w};
        if (!args.choice.all) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const std::int64_t position = tile * tile_rows + row + i;
            if (position < args.rows.count && !may_answer(args.choice, args.first_row + args.rows.order[position]))
              terms[i] = static_cast<float>(infinite);
          }
        }
        // Biases of four rows, for each half of the queries.
#pragma unroll(sampling ? 1 : 2)
        for (int half = 0; half < (shares ? 1 : 2); ++half) {
          double inverse;
          if constexpr (sampling) inverse = (half == 0 ? low_inverse : high_inverse) * metadata.inverse;
          else inverse = (half == 0 ? quick_low : quick_high) * metadata.quick_inverse;  // a float
          *reinterpret_cast<int4*>(all_biases + slot * block_queries + half * tile_rows + row) = {
              tile_bias<shifted, sampling>(terms[0], row, inverse),
              tile_bias<shifted, sampling>(terms[1], row + 1, inverse),
              tile_bias<shifted, sampling>(terms[2], row + 2, inverse),
              tile_bias<shifted, sampling>(terms[3], row + 3, inverse)};
        }
        // Thresholds of eight queries.
        if constexpr (!sampling) {
          const float e = metadata.e, n = metadata.n,
                      inverse = (lane_index() < 16 ? quick_low : quick_high) * metadata.quick_inverse;
#pragma unroll
          for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<int4*>(all_thresholds + slot * block_queries + first_query + j / 4 * 64) = {
                tile_threshold<shifted>(coeffs[j], e, n, inverse),
                tile_threshold<shifted>(coeffs[j + 1], e, n, inverse),
                tile_threshold<shifted>(coeffs[j + 2], e, n, inverse),
                tile_threshold<shifted>(coeffs[j + 3], e, n, inverse)};
        }
        __syncwarp();
        if (lane_index() == 0) arrive(bounds_full[slot]);
      }
    }
    return;
  }

  // Consumers: a warpgroup's queries, and the segment of candidates of this warp.
  request_registers<sampling ? 104 : 96>();
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int which_group = warp_index() / 4 - 1, pair = which_group >> 1,
            group_queries = (which_group & (shares ? 1 : 3)) * 64, half = group_queries / tile_rows;
  const int warp_queries = group_queries + warp_index() % 4 * 16;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * consumers + warp_index() - 4;
  std::uint32_t used = 0;
  Ring<stages> step;
  unsigned turn = 0, round = 0;
  int sums[64];
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
    std::int64_t block, first;
    int tiles;
    part_of(unit, block, first, tiles);
    std::int64_t tile = args.visits.at(first);
    if constexpr (!slabs_of_queries) wait_for(queries_full, round & 1);
    for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
      if constexpr (shares) {
        if (turn % 2 != static_cast<unsigned>(pair)) {
          step.next();
          continue;
        }
      }
      // Main loop: a slab of the tile at a time.
      for (int s = 0; s < slabs; ++s, step.next()) {
        const unsigned stage = step.position;
        wait_for(full[stage], step.parity);
        const unsigned rows = at + stage * memory.stage_bytes;
        const unsigned queries =
            (slabs_of_queries ? rows + tile_bytes : at + static_cast<unsigned>(memory.queries)) + group_queries * slab;
        fence_products();
#pragma unroll
        for (int k = 0; k < slab_steps; ++k)
          wgmma_64x128x32(sums, operand_at<slab>(queries) + 2 * k, operand_at<slab>(rows) + 2 * k, s + k > 0);
        commit_products();
        wait_for_products(sums);
        if (lane == 0) arrive(empty[stage]);
      }

      // Epilogue: the tile is bound.
      const unsigned slot = turn % bound_tiles;
      wait_for(bounds_full[slot], turn / bound_tiles & 1);
      const int* biases = all_biases + slot * block_queries + half * tile_rows + 2 * member;
      const std::int64_t query = block * block_queries + warp_queries + group;
      if constexpr (sampling) {
        // The largest sum of each group of 16 rows.
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int nearest[2];
#pragma unroll
          for (int g = 0; g < 2; ++g) {
            int most = -0x7fffffff - 1;
#pragma unroll
            for (int i = 8 * g; i < 8 * g + 8; ++i) {
              const int2 bias = *reinterpret_cast<const int2*>(biases + 8 * i);
              most = __viaddmax_s32(sums[4 * i + 2 * h], bias.x, most);
              most = __viaddmax_s32(sums[4 * i + 2 * h + 1], bias.y, most);
            }
            nearest[g] = most;
          }
          if (query + h * 8 < args.queries.count)
            *reinterpret_cast<int2*>(f.nearest + (query + h * 8) * f.groups + (first + t - f.first) * groups_a_tile +
                                     2 * member) = {nearest[0], nearest[1]};
        }
      } else {
        // Sums become keys; the largest of each 16 is tested.
        int thresholds[2], most[2][2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          thresholds[h] = all_thresholds[slot * block_queries + warp_queries + group + h * 8];
          most[h][0] = most[h][1] = -0x7fffffff - 1;
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int2 bias = *reinterpret_cast<const int2*>(biases + 8 * i);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            int &first_key = sums[4 * i + 2 * h], &second_key = sums[4 * i + 2 * h + 1];
            if constexpr (shifted) {
              first_key = first_key * 16 + bias.x;
              second_key = second_key * 16 + bias.y;
            } else {
              first_key = (first_key + bias.x & ~15) | 2 * (i % 8);
              second_key = (second_key + bias.y & ~15) | 2 * (i % 8) + 1;
            }
            most[h][i / 8] = __vimax3_s32(most[h][i / 8], first_key, second_key);
          }
        }
        // Output: hits are rare.
        const bool any = max(most[0][0], most[0][1]) >= thresholds[0] || max(most[1][0], most[1][1]) >= thresholds[1];
        if (__any_sync(all_lanes, any)) {
#pragma unroll
          for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int g = 0; g < 2; ++g)
              append_candidates_of_keys<shifted>(
                  f, sums + 32 * g + 2 * h, most[h][g], thresholds[h],
                  static_cast<std::uint32_t>(block * block_queries + warp_queries + h * 8),
                  static_cast<std::uint32_t>(tile * tile_rows + 64 * g + 2 * member), f.candidates + segment * f.room,
                  used);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(bounds_empty[slot]);
    }
    if constexpr (!slabs_of_queries)
      if (lane == 0) arrive(queries_empty);
  }
  if (!sampling && lane == 0) f.used[segment] = used;
#else
  static_cast<void>(f);
  __trap();  // is_there() keeps it from being launched: memory that no kernel wrote would be taken for results
#endif
}

/// Whether the code that the driver chose here is that of sm_90a; a build may have some for sm_90, too.
__global__ void tell_wgmma(int* there) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  *there = 1;
#else
  *there = 0;
#endif
}

/// The row of this kernel in table.hpp.
struct Int8Wgmma {
  static constexpr FilterKernel facts{.name = "int8_wgmma",
                                      .instruction_set = "wgmma",
                                      .architecture = "90a",
                                      .accepts = [](Precision precision) { return precision == Precision::int8; },
                                      .tested = true,
                                      .threads = wgmma_threads,
                                      .writing_warps = wgmma_warps,
                                      .shared_bytes =
                                          [](Precision /*precision*/, std::int64_t dims) {
                                            const std::int64_t width = packed_width(dims);
                                            return wgmma_memory(width == 64 ? 64 : 128, width > 128).all;
                                          },
                                      .largest_threshold = wgmma_threshold,
                                      .lost_bits = [](bool one_slab) { return one_slab ? 0 : 15; }};

  template <class Device>
  static bool is_there(Device& device) {
    DeviceBuffer<int, Device> there(device);
    int told = 0;
    device.launch()(1, 1, 0, tell_wgmma, there.reserve(1));
    device.out(&told, there.data(), sizeof told);
    device.wait();
    return told == 1;
  }
  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    const std::int64_t width = f.args.rows.width;
    const bool shares = f.args.queries.count <= tile_rows;
    const auto kernel =
        width > 128 ? filter_int8_wgmma<128, true, sampling, false>
        : width == 64
            ? (shares ? filter_int8_wgmma<64, false, sampling, true> : filter_int8_wgmma<64, false, sampling, false>)
            : (shares ? filter_int8_wgmma<128, false, sampling, true> : filter_int8_wgmma<128, false, sampling, false>);
    device.launch()(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims), kernel, f);
  }
};

}  // namespace vicinal::cuda
