// FILTER by wgmma, for compute capability 9.0: the kernel finds what int8_mma.cuh finds, by other instructions. Where
// they can, int8_wgmma_groups.cuh and, for rows of several slabs, int8_wgmma_slabs.cuh take its place.
//
// A block has five warpgroups. The first is the producer: its warp 0 asks for tiles of rows by bulk copies into a ring
// of stages, and its warps 1 to 3 take turns at binding a tile: they compute the biases of its rows and the thresholds
// of the block's queries. The other four are consumers: each multiplies 64 queries with the 128 rows of a tile and
// tests the sums, and while one tests, the others have the tensor cores. Where two of them would have no queries
// (`shares`), every other tile is theirs with the queries of the first two: then tiles come as fast as memory brings.
// A lane has 16 sums of a query in each half of a tile. They become keys, whose low four bits say which of the 16 it
// is: the largest key of a lane then tells a sum and its row, and the next largest is one instruction a sum away.
#pragma once
#include "cuda/device/device.hpp"
#include "cuda/search/filter/int8_wgmma_slabs.cuh"
#include "cuda/search/filter/wgmma_block.cuh"
#include "cuda/search/filter/wgmma_keys.cuh"

namespace vicinal::cuda {

#if defined(VICINAL_WARPGROUPS)
inline constexpr int binding_warps = 3;  // of the producer

/// The coefficients of a lane's eight queries, from `query` on in two groups of four.
__device__ __forceinline__ void load_coeffs(const SearchArgs& args, std::int64_t query,
                                            ThresholdCoeffsF32 (&coeffs)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) coeffs[i] = coeffs_of(args, query + i / 4 * 64 + i % 4);
}
/// Rows that may not answer are masked: four terms from a position on.
__device__ __forceinline__ void mask_terms(const SearchArgs& args, std::int64_t position, float (&terms)[4]) {
  if (args.choice.all) return;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (position + i < args.rows.count && !may_answer(args.choice, args.first_row + args.rows.order[position + i]))
      terms[i] = static_cast<float>(infinite);
}
/// Biases of four rows of a tile, of which `row` is the first.
template <bool shifted, bool sampling, class Inverse>
__device__ __forceinline__ void bind_rows(const float (&terms)[4], int row, Inverse inverse, int* biases) {
  *reinterpret_cast<int4*>(biases + row) = {tile_bias<shifted, sampling>(terms[0], row, inverse),
                                            tile_bias<shifted, sampling>(terms[1], row + 1, inverse),
                                            tile_bias<shifted, sampling>(terms[2], row + 2, inverse),
                                            tile_bias<shifted, sampling>(terms[3], row + 3, inverse)};
}
/// Thresholds of the lane's eight queries. quick_inverse: 1 / step of the queries.
template <bool shifted>
__device__ __forceinline__ void bind_queries(const TileMetadata& metadata, const ThresholdCoeffsF32 (&coeffs)[8],
                                             float quick_inverse, int* thresholds) {
  const float e = metadata.e, n = metadata.n, inverse = quick_inverse * metadata.quick_inverse;
#pragma unroll
  for (int j = 0; j < 8; j += 4)
    *reinterpret_cast<int4*>(thresholds + j / 4 * 64) = {
        tile_threshold<shifted>(coeffs[j], e, n, inverse), tile_threshold<shifted>(coeffs[j + 1], e, n, inverse),
        tile_threshold<shifted>(coeffs[j + 2], e, n, inverse), tile_threshold<shifted>(coeffs[j + 3], e, n, inverse)};
}

/// The products of a tile with a warpgroup's queries, a slab at a time.
template <int slab, bool slabs_of_queries>
__device__ __forceinline__ void multiply_tile(const WgmmaBlock<slab, slabs_of_queries>& shared, int group_queries,
                                              Ring<WgmmaBlock<slab, slabs_of_queries>::stages>& step, int (&sums)[64]) {
  using Block = WgmmaBlock<slab, slabs_of_queries>;
  for (int s = 0; s < shared.slabs; ++s, step.next()) {
    const unsigned stage = step.position;
    wait_for(shared.full[stage], step.parity);
    const unsigned rows = shared.at + stage * Block::memory.stage_bytes;
    const unsigned queries =
        (slabs_of_queries ? rows + Block::tile_bytes : shared.at + static_cast<unsigned>(Block::memory.queries)) +
        group_queries * slab;
    fence_products();
#pragma unroll
    for (int k = 0; k < slab / 32; ++k)
      wgmma_64x128x32(sums, operand_at<slab>(queries) + 2 * k, operand_at<slab>(rows) + 2 * k, s + k > 0);
    commit_products();
    wait_for_products<0>(sums);
    if (lane_index() == 0) arrive(shared.empty[stage]);
  }
}

/// The sample: the largest sum of each group of 16 rows. query: the lane's first of two, 8 apart; visit: of the tile.
__device__ __forceinline__ void store_nearest(const Filter& f, const int (&sums)[64], const int* biases,
                                              std::int64_t query, std::int64_t visit) {
  const int member = lane_index() % 4;
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
    if (query + h * 8 < f.args.queries.count)
      *reinterpret_cast<int2*>(f.nearest + (query + h * 8) * f.groups + (visit - f.first) * groups_a_tile +
                               2 * member) = {nearest[0], nearest[1]};
  }
}

/// Sums become keys; the largest of each 16 is tested, and what passes appended. warp_query: the warp's first query.
template <bool shifted>
__device__ __forceinline__ void test_and_append(const Filter& f, int (&sums)[64], const int* warp_thresholds,
                                                const int* biases, std::int64_t warp_query, std::int64_t tile,
                                                Candidate* segment, std::uint32_t& used) {
  const int group = lane_index() / 4, member = lane_index() % 4;
  int thresholds[2], most[2][2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    thresholds[h] = warp_thresholds[group + h * 8];
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
        first_key = ((first_key + bias.x) & ~15) | (2 * (i % 8));
        second_key = ((second_key + bias.y) & ~15) | (2 * (i % 8) + 1);
      }
      most[h][i / 8] = __vimax3_s32(most[h][i / 8], first_key, second_key);
    }
  }
  // Output: hits are rare.
  const bool any =
      std::max(most[0][0], most[0][1]) >= thresholds[0] || std::max(most[1][0], most[1][1]) >= thresholds[1];
  if (!__any_sync(all_lanes, any)) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < 2; ++g)
      append_candidates_of_keys<shifted>(
          f, sums + 32 * g + 2 * h, most[h][g], thresholds[h], static_cast<std::uint32_t>(warp_query + h * 8),
          static_cast<std::uint32_t>(tile * tile_rows + 64 * g + 2 * member), segment, used);
}
/// A unit of work: a block of queries, and some tiles in a row from a visit on.
__device__ __forceinline__ void part_of(const Filter& f, std::int64_t unit, std::int64_t& block, std::int64_t& first,
                                        int& tiles) {
  block = unit % f.blocks;
  first = f.first + unit / f.blocks * f.part;
  tiles = static_cast<int>((first + f.part < f.last ? first + f.part : f.last) - first);
}
/// A consumer's work: the products of its warpgroup's queries with each tile, and their test. units: of the grid.
template <int slab, bool slabs_of_queries, bool sampling, bool shares>
__device__ __forceinline__ void consume(const Filter& f, const WgmmaBlock<slab, slabs_of_queries>& shared,
                                        std::int64_t units) {
  using Block = WgmmaBlock<slab, slabs_of_queries>;
  // This warpgroup's queries, and this warp's segment of candidates.
  const SearchArgs& args = f.args;
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  const int which_group = warp_index() / 4 - 1, pair = which_group >> 1,
            group_queries = (which_group & (shares ? 1 : 3)) * 64, half = group_queries / tile_rows;
  const int warp_queries = group_queries + warp_index() % 4 * 16;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * wgmma_warps + warp_index() - 4;
  std::uint32_t used = 0;
  Ring<Block::stages> step;
  unsigned turn = 0, round = 0;
  int sums[64];
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
    std::int64_t block, first;
    int tiles;
    part_of(f, unit, block, first, tiles);
    std::int64_t tile = args.visits.at(first);
    if constexpr (!slabs_of_queries) wait_for(shared.queries_full, round & 1);
    for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
      if constexpr (shares) {
        if (turn % 2 != static_cast<unsigned>(pair)) {
          step.next();
          continue;
        }
      }
      // Main loop, and the epilogue when the tile is bound.
      multiply_tile(shared, group_queries, step, sums);
      const unsigned slot = turn % bound_tiles;
      wait_for(shared.bounds_full[slot], turn / bound_tiles & 1);
      const int* biases = shared.biases + slot * block_queries + half * tile_rows + 2 * member;
      const std::int64_t query = block * block_queries + warp_queries + group;
      if constexpr (sampling) store_nearest(f, sums, biases, query, first + t);
      else
        test_and_append<Block::shifted>(f, sums, shared.thresholds + slot * block_queries + warp_queries, biases,
                                        block * block_queries + warp_queries, tile, f.candidates + segment * f.room,
                                        used);
      __syncwarp();
      if (lane == 0) arrive(shared.bounds_empty[slot]);
    }
    if constexpr (!slabs_of_queries)
      if (lane == 0) arrive(shared.queries_empty);
  }
  if (!sampling && lane == 0) f.used[segment] = used;
}
/// Asks for the slabs of a tile, with those of the block's queries where they are several. queries: the block's first.
template <int slab, bool slabs_of_queries>
__device__ __forceinline__ void copy_slabs(const SearchArgs& args, const WgmmaBlock<slab, slabs_of_queries>& shared,
                                           const std::int8_t* queries, std::int64_t width, std::int64_t tile,
                                           Ring<WgmmaBlock<slab, slabs_of_queries>::stages>& step) {
  using Block = WgmmaBlock<slab, slabs_of_queries>;
  constexpr WgmmaMemory memory = Block::memory;
  constexpr int tile_bytes = Block::tile_bytes;
  for (int s = 0; s < shared.slabs; ++s, step.next()) {
    const unsigned stage = step.position;
    wait_for(shared.empty[stage], step.parity ^ 1);
    arrive_expecting(shared.full[stage], memory.stage_bytes);
    const unsigned to = shared.at + stage * memory.stage_bytes;
    copy_bulk(to, args.rows.bytes + tile * tile_rows * width + s * tile_bytes, tile_bytes, shared.full[stage]);
    if constexpr (slabs_of_queries) {
      copy_bulk(to + tile_bytes, queries + s * tile_bytes, tile_bytes, shared.full[stage]);
      copy_bulk(to + 2 * tile_bytes, queries + tile_rows * width + s * tile_bytes, tile_bytes, shared.full[stage]);
    }
  }
}
#endif

template <int slab, bool slabs_of_queries, bool sampling, bool shares>
__global__ void __launch_bounds__(wgmma_threads, 1) filter_int8_wgmma(Filter f) {
#if defined(VICINAL_WARPGROUPS)
  // Sizes.
  using Block = WgmmaBlock<slab, slabs_of_queries>;
  constexpr int tile_bytes = Block::tile_bytes, stages = Block::stages;
  constexpr WgmmaMemory memory = Block::memory;
  static_assert(!shares || (!slabs_of_queries && stages % 2 == 0));
  // A wait for a barrier's parity is right for a thread that is at most one phase behind. The copying warp and the
  // consumers meet every phase of theirs; a binding warp meets those of every third tile. At tile t it waits until tile
  // t - bound_tiles was tested, and would take the phase before for that one only if tile t - 2 * bound_tiles were
  // untested. But it saw that tile t - binding_warps - bound_tiles was tested when it bound t - binding_warps, and with
  // `shares` tile t - 2 * binding_warps - bound_tiles, of the pair of warpgroups of t; they test tiles in order, so
  // t - 2 * bound_tiles was tested as well: the assertion says that neither is an earlier tile. Its wait for
  // metadata_full[t % bound_tiles] is within one phase, too: metadata of t - bound_tiles were read before its test.
  static_assert((shares ? 2 : 1) * binding_warps <= bound_tiles,
                "a binding warp could take a barrier's phase for the one before");

  // Shared memory, and the barriers at its end.
  const SearchArgs& args = f.args;
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  const Block shared(base, args);
  const std::int64_t width = args.rows.width;
  shared.init_barriers(shares ? wgmma_warps / 2 : wgmma_warps);
  wait_for_earlier();
  const std::int64_t units = f.blocks * f.parts;

  // Producer. All 640 threads were started with 96 registers: consumers request what it releases.
  if (warp_index() < 4) {
    release_registers<sampling ? 64 : 72>();
    Ring<stages> step;
    unsigned turn = 0, round = 0;
    for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x, ++round) {
      std::int64_t block, first;
      int tiles;
      part_of(f, unit, block, first, tiles);
      std::int64_t tile = args.visits.at(first);
      // Warp 0, one lane: the block's queries, then the metadata and the slabs of each tile.
      if (warp_index() == 0) {
        if (lane_index() == 0) {
          const std::int8_t* queries = args.queries.bytes + block * block_queries * width;
          if constexpr (!slabs_of_queries) {
            wait_for(shared.queries_empty, (round & 1) ^ 1);
            arrive_expecting(shared.queries_full, 2 * tile_bytes);
            copy_bulk(shared.at + memory.queries, queries, 2 * tile_bytes, shared.queries_full);
          }
          for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
            const unsigned slot = turn % bound_tiles;
            wait_for(shared.bounds_empty[slot], (turn / bound_tiles & 1) ^ 1);
            arrive_expecting(shared.metadata_full[slot], sizeof(TileMetadata));
            copy_bulk(shared.at + memory.tile_metadata + slot * sizeof(TileMetadata), args.rows.tile_metadata + tile,
                      sizeof(TileMetadata), shared.metadata_full[slot]);
            copy_slabs<slab, slabs_of_queries>(args, shared, queries, width, tile, step);
          }
        }
        __syncwarp();
        continue;
      }
      // Warps 1 to 3 bind a tile each in turn. A lane has four rows, and the coefficients of eight queries of one half.
      const int row = 4 * lane_index(), first_query = lane_index() / 16 * tile_rows + lane_index() % 16 * 4;
      const double low_inverse = query_inverse(args, block, 0), high_inverse = query_inverse(args, block, 1);
      const float quick_low = static_cast<float>(low_inverse), quick_high = static_cast<float>(high_inverse);
      ThresholdCoeffsF32 coeffs[8];
      load_coeffs(args, block * block_queries + first_query, coeffs);
      for (int t = 0; t < tiles; ++t, ++turn, tile = args.visits.after(tile)) {
        if (turn % binding_warps != static_cast<unsigned>(warp_index()) - 1) continue;
        const unsigned slot = turn % bound_tiles;
        const TileMetadata& metadata =
            *reinterpret_cast<const TileMetadata*>(base + memory.tile_metadata + slot * sizeof(TileMetadata));
        wait_for(shared.bounds_empty[slot],
                 (turn / bound_tiles & 1) ^ 1);  // another warp's: its metadata was there, and the next one is meant
        wait_for(shared.metadata_full[slot], turn / bound_tiles & 1);
        const float4 four = *reinterpret_cast<const float4*>(metadata.terms + row);
        float terms[4] = {four.x, four.y, four.z, four.w};
        mask_terms(args, tile * tile_rows + row, terms);
        // Biases of four rows, for each half of the queries.
#pragma unroll(sampling ? 1 : 2)
        for (int half = 0; half < (shares ? 1 : 2); ++half) {
          double inverse;
          if constexpr (sampling) inverse = (half == 0 ? low_inverse : high_inverse) * metadata.inverse;
          else inverse = (half == 0 ? quick_low : quick_high) * metadata.quick_inverse;  // a float
          bind_rows<Block::shifted, sampling>(terms, row, inverse,
                                              shared.biases + slot * block_queries + half * tile_rows);
        }
        if constexpr (!sampling)
          bind_queries<Block::shifted>(metadata, coeffs, lane_index() < 16 ? quick_low : quick_high,
                                       shared.thresholds + slot * block_queries + first_query);
        __syncwarp();
        if (lane_index() == 0) arrive(shared.bounds_full[slot]);
      }
    }
    return;
  }

  // Consumers.
  request_registers<sampling ? 104 : 96>();
  consume<slab, slabs_of_queries, sampling, shares>(f, shared, units);
#else
  static_cast<void>(f);
  __trap();  // is_present() keeps it from being launched: memory that no kernel wrote would be taken for results
#endif
}

/// Whether the code that the driver chose here is that of sm_90a; a build may have some for sm_90, too.
__global__ void tell_wgmma(int* present) {
#if defined(VICINAL_WARPGROUPS)
  *present = 1;
#else
  *present = 0;
#endif
}

/// It tells whether groups of rows are tested: all rows, or all but the query's own, may answer. Not so where two
/// thirds of a second block of longer rows would be padding: 256 of 10^6 x 768 took .87 ms in place of .81.
inline bool wgmma_by_groups(const SearchArgs& args) {
  const std::int64_t width = args.rows.width, count = args.queries.count;
  const bool padded = width > 128 && count > slab_queries && count <= 4 * slab_queries / 3;
  return args.slots != nullptr && tests_groups(count, width) && (args.choice.all || args.choice.only_self) && !padded;
}
inline bool wgmma_by_groups_of_slabs(const SearchArgs& args) { return args.rows.width > 128 && wgmma_by_groups(args); }

/// The row of this kernel in table.hpp.
struct Int8Wgmma {
  static constexpr FilterKernel facts{
      .name = "int8_wgmma",
      .instruction_set = "wgmma",
      .architecture = "90a",
      .accepts = [](Precision precision, Sum sum) { return precision == Precision::int8 && has_products(sum); },
      .tested = true,
      .threads = wgmma_threads,
      .writing_warps = wgmma_warps,
      .shared_bytes =
          [](Precision /*precision*/, std::int64_t dims) {
            const std::int64_t width = packed_width(dims);
            const std::int64_t all = wgmma_memory(width == 64 ? 64 : 128, width > 128).all;
            if (width <= 128) return std::max(all, group_memory(width == 64 ? 64 : 128).all);
            return width <= most_grouped_width ? std::max(all, slab_memory(slabs_of(width), true).all) : all;
          },
      .largest_threshold = wgmma_threshold,
      .lost_bits = [](bool one_slab) { return one_slab ? 0 : 15; },
      .groups = true,
      .form =
          [](const SearchArgs& args) { return wgmma_by_groups(args) ? CandidateForm::groups : CandidateForm::sums; },
      .block_of =
          [](const SearchArgs& args, bool sampling) {
            return !sampling && wgmma_by_groups_of_slabs(args) ? FilterBlock{slab_queries, slab_consumers}
                                                               : FilterBlock{block_queries, wgmma_warps};
          }};

  template <class Device>
  static bool is_present(Device& device) {
    DeviceBuffer<int, Device> present(device);
    int told = 0;
    device.launch()(1, 1, 0, tell_wgmma, present.reserve(1));
    device.out(&told, present.data(), sizeof told);
    device.wait();
    return told == 1;
  }
  template <bool sampling, class Device>
  static void launch(Device& device, Precision precision, const Filter& f, std::int64_t grid) {
    const std::int64_t width = f.args.rows.width;
    if (!sampling && wgmma_by_groups_of_slabs(f.args))
      return device.launch().next(grid, slab_threads, slab_memory(slabs_of(width), f.serves_both()).all,
                                  held_slabs(slabs_of(width)) == 1 ? slabs_kernel<1>(f) : slabs_kernel<3>(f), f);
    const bool shares = f.args.queries.count <= tile_rows;
    if (!sampling && wgmma_by_groups(f.args))
      return device.launch().next(grid, facts.threads, group_memory(width == 64 ? 64 : 128).all,
                                  width == 64 ? groups_kernel<64>(f, shares) : groups_kernel<128>(f, shares), f);
    const auto kernel =
        width > 128 ? filter_int8_wgmma<128, true, sampling, false>
        : width == 64
            ? (shares ? filter_int8_wgmma<64, false, sampling, true> : filter_int8_wgmma<64, false, sampling, false>)
            : (shares ? filter_int8_wgmma<128, false, sampling, true> : filter_int8_wgmma<128, false, sampling, false>);
    device.launch().next(grid, facts.threads, facts.shared_bytes(precision, f.args.rows.dims), kernel, f);
  }
};

}  // namespace vicinal::cuda
