// FILTER by wgmma for rows of one slab and more than half a block of queries, where all rows may answer: the main case of int8_wgmma.cuh, with a
// comparison for 16 rows (core/bound_groups.hpp) in place of one a row.
//
// A block has five warpgroups. Four are consumers: each keeps 64 queries in registers and multiplies them with the rows of a tile, and while
// one tests its sums, the others have the tensor cores. A thread has 16 sums of a query in each half of a tile, those of a group of rows. A
// group whose largest product reaches the query's threshold is a candidate, with that product and a bit for each row that does: the thread
// makes it of its registers alone. Of the fifth warpgroup a thread copies tiles into a ring of stages. Biases of rows play no part:
// scatter_candidates takes them from the terms.
#pragma once
#include "cuda/search/filter/filter.cuh"
#include "cuda/search/filter/wgmma_block.cuh"

namespace vicinal::cuda {

inline constexpr int group_consumers = wgmma_warps;  // warps

/// Where each part of a block's shared memory begins, in bytes.
struct GroupMemory {
  int stages;
  std::int64_t groups, coeffs, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr GroupMemory group_memory(int slab) {
  GroupMemory m{};
  m.stages = 6;
  m.groups = static_cast<std::int64_t>(m.stages) * tile_rows * slab;
  m.coeffs = m.groups + m.stages * groups_a_tile * static_cast<std::int64_t>(sizeof(GroupNorms));
  m.barriers = m.coeffs + block_queries * static_cast<std::int64_t>(sizeof(GroupCoeffs));
  m.all = m.barriers + 2 * m.stages * 8 + 1024;  // slabs begin at multiples of 1024
  return m;
}
static_assert(group_memory(128).all <= 227 << 10, "a block has 227 KB at compute capability 9.0");

#if defined(VICINAL_WARPGROUPS)
/// A block's shared memory with its barriers. Who waits at one meets its every phase.
template <int slab>
struct GroupBlock {
  static constexpr GroupMemory memory = group_memory(slab);
  static constexpr int stages = memory.stages, tile_bytes = tile_rows * slab,
                       group_bytes = groups_a_tile * sizeof(GroupNorms);
  unsigned at;
  const GroupNorms* groups;
  GroupCoeffs* coeffs;  // of queries
  Barrier full, empty;

  __device__ __forceinline__ explicit GroupBlock(unsigned char* base)
      : at(shared_address(base)), groups(reinterpret_cast<const GroupNorms*>(base + memory.groups)),
        coeffs(reinterpret_cast<GroupCoeffs*>(base + memory.coeffs)), full{at + static_cast<unsigned>(memory.barriers)},
        empty(full[stages]) {}
  __device__ __forceinline__ void init_barriers() const {
    if (thread_index() == 0) {
      for (int i = 0; i < stages; ++i) init_barrier(full[i], 1), init_barrier(empty[i], group_consumers);
      fence_barriers();
    }
    __syncthreads();
  }
};

/// A thread's part of 64 queries, as an operand of its warpgroup. from: where the tile's slab is; half: of the tile.
template <int slab>
__device__ __forceinline__ void load_queries(const std::int8_t* from, int half,
                                             std::uint32_t (&operand)[slab / 32][4]) {
  const int line = half * 64 + warp_index() % 4 * 16 + lane_index() / 4;
#pragma unroll
  for (int k = 0; k < slab / 32; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = line + i % 2 * 8, chunk = 2 * k + i / 2;
      operand[k][i] = *reinterpret_cast<const std::uint32_t*>(
          from + row * slab + swizzled_chunk(slab, row, chunk) * 16 + lane_index() % 4 * 4);
    }
}
/// What the 16 queries of a warp exclude, to shared memory, where `coeffs` is of the first.
__device__ __forceinline__ void load_group_coeffs(const SearchArgs& args, std::int64_t query, GroupCoeffs* coeffs) {
  const std::int64_t tile = query / tile_rows, last = args.queries.tiles() - 1;
  const auto inverse = static_cast<float>(args.queries.tile_metadata[tile < last ? tile : last].inverse /
                                          int8_unit(args.model.sum, 1, 1));
  __syncwarp();
  if (lane_index() < 16) coeffs[lane_index()] = group_coeffs(coeffs_of(args, query + lane_index()), inverse);
  __syncwarp();
}

/// Where a consuming warp appends candidates, and how many it has appended.
struct GroupOutput {
  Candidate* segment;
  std::uint32_t used = 0;
};

/// The least whole number that reaches a threshold, for sums below 2^24 in size.
__device__ __forceinline__ int whole_threshold(float threshold) {
  return static_cast<int>(std::ceil(threshold > -0x1p30F ? threshold : -0x1p30F));
}
/// Which of 16 sums reach a threshold, by row_of_bit(). Sums are those of even and odd rows in turns, four words a pair.
__device__ __forceinline__ unsigned rows_that_reach(const int (&sums)[64], int first, int threshold) {
  unsigned even = 0, odd = 0;  // signs of differences: of sums that do not
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    even = __funnelshift_l(static_cast<unsigned>(sums[first + 4 * i] - threshold), even, 1);
    odd = __funnelshift_l(static_cast<unsigned>(sums[first + 4 * i + 1] - threshold), odd, 1);
  }
  return ~(odd << 8 | even) & 0xffffu;
}

/// What a warp tests of a tile at a time: of two queries, and of two groups of rows a lane, the largest sums and whether they reach thresholds.
struct TestedGroups {
  int most[2][2];  // [query][group]
  bool passed[2][2];
  __device__ __forceinline__ TestedGroups(const int (&sums)[64], const float (&thresholds)[2][2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        most[h][g] = sums[32 * g + 2 * h];
#pragma unroll
        for (int i = 0; i < 8; ++i)
          most[h][g] = __vimax3_s32(most[h][g], sums[32 * g + 4 * i + 2 * h], sums[32 * g + 4 * i + 2 * h + 1]);
        passed[h][g] = static_cast<float>(most[h][g]) >= thresholds[h][g];
      }
  }
  /// Whether one of the warp's does.
  __device__ __forceinline__ bool any() const {
    return __any_sync(all_lanes, passed[0][0] || passed[0][1] || passed[1][0] || passed[1][1]) != 0;
  }
};

/// Groups whose largest sum reaches the query's threshold become candidates. sums: of two queries, `query` and 8 beyond, and two groups, of which
/// the first begins at `position`.
__device__ __forceinline__ void test_groups(const Filter& f, const int (&sums)[64], const float (&thresholds)[2][2],
                                            std::uint32_t query, std::uint32_t position, GroupOutput& out) {
  const TestedGroups tested(sums, thresholds);
  if (!tested.any()) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const unsigned lanes = __ballot_sync(all_lanes, tested.passed[h][g]);
      if (lanes == 0) continue;
      const std::uint32_t next = out.used + static_cast<std::uint32_t>(__popc(lanes)), which = query + 8 * h;
      if (next > f.room) {
        if (tested.passed[h][g]) f.args.states[which].overflowed = true;
        continue;
      }
      if (tested.passed[h][g])
        out.segment[out.used + static_cast<std::uint32_t>(votes_below(lanes))] = {
            which, position + 64 * g, tested.most[h][g],
            rows_that_reach(sums, 32 * g + 2 * h, whole_threshold(thresholds[h][g]))};
      out.used = next;
    }
}

template <int slab>
__device__ __forceinline__ void multiply_groups(int (&sums)[64], const std::uint32_t (&queries)[slab / 32][4],
                                                unsigned rows) {
  fence_products();
  wgmma_64x128x32<false>(sums, queries[0], operand_at<slab>(rows));
#pragma unroll
  for (int k = 1; k < slab / 32; ++k) wgmma_64x128x32<true>(sums, queries[k], operand_at<slab>(rows) + 2 * k);
  commit_products();
}

/// A unit of work: a block of queries, and some tiles in a row from a visit on. Chunks have fewer than 2^31 tiles and units.
struct GroupUnit {
  unsigned block, tile, tiles;
  __device__ __forceinline__ GroupUnit(const Filter& f, unsigned unit) {
    const auto blocks = static_cast<unsigned>(f.blocks);
    const std::int64_t first = f.first + static_cast<std::int64_t>(unit / blocks) * f.part, last = first + f.part;
    block = unit % blocks;
    tiles = static_cast<unsigned>((last < f.last ? last : f.last) - first);
    tile = static_cast<unsigned>(f.args.visits.at(first));
  }
};
__device__ __forceinline__ unsigned tile_after(const Filter& f, unsigned tile) {
  const auto next = tile + static_cast<unsigned>(f.args.visits.step),
             count = static_cast<unsigned>(f.args.visits.count);
  return next < count ? next : next - count;
}

template <int slab>
__device__ __forceinline__ void consume_groups(const Filter& f, const GroupBlock<slab>& shared, unsigned units) {
  using Block = GroupBlock<slab>;
  const int group = warp_index() / 4, member = lane_index() % 4;
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * wgmma_warps + warp_index();
  GroupOutput out{f.candidates + segment * f.room};
  GroupCoeffs* const coeffs = shared.coeffs + warp_index() * 16;
  Ring<Block::stages> step;
#pragma unroll 1
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x) {
    const GroupUnit unit(f, u);
    std::uint32_t queries[slab / 32][4];
    const std::int64_t tile_of_queries = unit.block * 2 + static_cast<unsigned>(group / 2);
    load_queries<slab>(f.args.queries.bytes + tile_of_queries * Block::tile_bytes, group % 2, queries);
    const std::uint32_t query = unit.block * block_queries + static_cast<unsigned>(warp_index() * 16);
    load_group_coeffs(f.args, query, coeffs);
    unsigned tile = unit.tile;
#pragma unroll 1
    for (unsigned t = 0; t < unit.tiles; ++t, tile = tile_after(f, tile)) {
      int sums[64];
      const unsigned stage = step.position;
      wait_for(shared.full[stage], step.parity);
      multiply_groups<slab>(sums, queries, shared.at + stage * Block::tile_bytes);
      const GroupNorms* const norms = shared.groups + stage * groups_a_tile + member;
      float thresholds[2][2];
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const GroupNorms group = norms[4 * g];
        thresholds[0][g] = group_threshold(coeffs[lane_index() / 4], group);
        thresholds[1][g] = group_threshold(coeffs[lane_index() / 4 + 8], group);
      }
      wait_for_products<0>(sums);
      __syncwarp();
      if (lane_index() == 0) arrive(shared.empty[stage]);
      test_groups(f, sums, thresholds, query + static_cast<unsigned>(lane_index() / 4),
                  tile * tile_rows + static_cast<unsigned>(2 * member), out);
      step.next();
    }
  }
  if (lane_index() == 0) f.used[segment] = out.used;
}

/// The work of the thread that copies.
template <int slab>
__device__ __forceinline__ void copy_tiles(const Filter& f, const GroupBlock<slab>& shared, unsigned units) {
  using Block = GroupBlock<slab>;
  Ring<Block::stages> step;
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x) {
    const GroupUnit unit(f, u);
    unsigned tile = unit.tile;
    for (unsigned t = 0; t < unit.tiles; ++t, tile = tile_after(f, tile), step.next()) {
      const unsigned stage = step.position;
      wait_for(shared.empty[stage], step.parity ^ 1);
      arrive_expecting(shared.full[stage], Block::tile_bytes + Block::group_bytes);
      copy_bulk(shared.at + stage * Block::tile_bytes,
                f.args.rows.bytes + static_cast<std::int64_t>(tile) * Block::tile_bytes, Block::tile_bytes,
                shared.full[stage]);
      copy_bulk(shared.at + static_cast<unsigned>(Block::memory.groups) + stage * Block::group_bytes,
                f.args.rows.tile_metadata[tile].groups, Block::group_bytes, shared.full[stage]);
    }
  }
}
#endif

template <int slab>
__global__ void __launch_bounds__(wgmma_threads, 1) filter_int8_wgmma_groups(Filter f) {
#if defined(VICINAL_WARPGROUPS)
  unsigned char* base = dynamic_shared<unsigned char>();
  base += (1024 - (shared_address(base) & 1023)) & 1023;
  const GroupBlock<slab> shared(base);
  shared.init_barriers();
  const auto units = static_cast<unsigned>(f.blocks * f.parts);
  if (warp_index() < group_consumers) {
    request_registers<112>();
    consume_groups<slab>(f, shared, units);
  } else {
    release_registers<32>();
    if (thread_index() == 32 * group_consumers) copy_tiles<slab>(f, shared, units);
  }
#else
  static_cast<void>(f);
  __trap();  // is_there() keeps it from being launched
#endif
}

}  // namespace vicinal::cuda
