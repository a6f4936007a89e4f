// FILTER by wgmma for rows of one slab and more than half a block of queries, where all rows may answer: the main case of int8_wgmma.cuh, with a
// comparison for 16 rows (core/bound_groups.hpp) in place of one a row.
//
// A block has five warpgroups. Four are consumers: each keeps 64 queries in registers and multiplies them with the rows of a tile, and while
// one tests its sums, the others have the tensor cores. A thread has 16 sums of a query in each half of a tile, those of a group of rows. A
// group whose largest product reaches the query's threshold is laid down as a record in shared memory; nothing more is done by those whom
// tensor cores wait for. Of the fifth warpgroup a warp copies tiles into a ring of stages, and the others look through records, two at
// a time, a lane a sum, and append what passes. Biases of rows play no part: scatter_candidates takes them from the terms.
#pragma once
#include "cuda/search/filter/wgmma_block.cuh"

namespace vicinal::cuda {

inline constexpr int group_consumers = wgmma_warps, group_expanders = 3;  // warps
#ifndef HANDS_OVER_FROM
#define HANDS_OVER_FROM 8
#endif
/// Records of a warp: it hands them over in batches of at least so many, and fills one while the other is looked through.
inline constexpr int record_words = group_rows + 4, handed_over_from = HANDS_OVER_FROM,
                     batch_records = handed_over_from + 31, batch_words = batch_records * record_words + 4,
                     last_batch = 1 << 8;

/// Where each part of a block's shared memory begins, in bytes.
struct GroupMemory {
  int stages;
  std::int64_t groups, coeffs, records, barriers, all;
};
VICINAL_HOST_DEVICE inline constexpr GroupMemory group_memory(int slab) {
  GroupMemory m{};
  m.stages = 6;
  m.groups = static_cast<std::int64_t>(m.stages) * tile_rows * slab;
  m.coeffs = m.groups + m.stages * groups_a_tile * static_cast<std::int64_t>(sizeof(GroupNorms));
  m.records = m.coeffs + block_queries * static_cast<std::int64_t>(sizeof(GroupCoeffs));
  m.barriers = m.records + group_consumers * 2 * batch_words * 4;
  m.all = m.barriers + (2 * m.stages + 4 * group_consumers) * 8 + 1024;  // slabs begin at multiples of 1024
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
  int* records;         // two batches of each consumer
  Barrier full, empty, records_full, records_empty;

  __device__ __forceinline__ explicit GroupBlock(unsigned char* base)
      : at(shared_address(base)), groups(reinterpret_cast<const GroupNorms*>(base + memory.groups)),
        coeffs(reinterpret_cast<GroupCoeffs*>(base + memory.coeffs)),
        records(reinterpret_cast<int*>(base + memory.records)), full{at + static_cast<unsigned>(memory.barriers)},
        empty(full[stages]), records_full(empty[stages]), records_empty(records_full[2 * group_consumers]) {}
  __device__ __forceinline__ void init_barriers() const {
    if (thread_index() == 0) {
      for (int i = 0; i < stages; ++i) init_barrier(full[i], 1), init_barrier(empty[i], group_consumers);
      for (int i = 0; i < 2 * group_consumers; ++i) init_barrier(records_full[i], 1), init_barrier(records_empty[i], 1);
      fence_barriers();
    }
    __syncthreads();
  }
};

/// A thread's part of 64 queries, as an operand of its warpgroup. tile: of queries; half: of the tile.
template <int slab>
__device__ __forceinline__ void load_queries(const SearchArgs& args, unsigned tile, int half,
                                             std::uint32_t (&operand)[slab / 32][4]) {
  const int line = half * 64 + warp_index() % 4 * 16 + lane_index() / 4;
  const std::int8_t* const from = args.queries.bytes + static_cast<std::int64_t>(tile) * tile_rows * slab;
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

/// A consumer's batch of records that it fills: how many there are, and which batch it is, from 0 on.
template <int slab>
struct GroupRecords {
  int filled = 0;
  unsigned batch = 0;

  __device__ __forceinline__ unsigned which() const { return 2 * static_cast<unsigned>(warp_index()) + batch % 2; }
  /// flags: 0, or last_batch.
  __device__ __forceinline__ void hand_over(const GroupBlock<slab>& shared, int flags) {
    if (lane_index() == 0) shared.records[(which() + 1) * batch_words - 4] = filled | flags;
    __syncwarp();
    if (lane_index() == 0) arrive(shared.records_full[which()]);
    filled = 0;
    if (flags != 0) return;
    ++batch;
    wait_for(shared.records_empty[which()], batch / 2 & 1 ^ 1);
  }
};

/// Groups whose largest sum reaches the query's threshold become records. sums: of two queries, `query` and 8 beyond, and two groups, of which
/// the first begins at `position`.
template <int slab>
__device__ __forceinline__ void test_groups(const int (&sums)[64], const float (&thresholds)[2][2], std::uint32_t query,
                                            std::uint32_t position, const GroupBlock<slab>& shared,
                                            GroupRecords<slab>& records) {
  bool passed[2][2];
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      int most = sums[32 * g + 2 * h];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        most = __vimax3_s32(most, sums[32 * g + 4 * i + 2 * h], sums[32 * g + 4 * i + 2 * h + 1]);
      passed[h][g] = !(static_cast<float>(most) < thresholds[h][g]);
    }
  if (!__any_sync(all_lanes, passed[0][0] || passed[0][1] || passed[1][0] || passed[1][1])) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const unsigned lanes = __ballot_sync(all_lanes, passed[h][g]);
      if (lanes == 0) continue;
      if (passed[h][g]) {
        int* const record =
            shared.records + records.which() * batch_words + (records.filled + votes_below(lanes)) * record_words;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          reinterpret_cast<int2*>(record)[i] = {sums[32 * g + 4 * i + 2 * h], sums[32 * g + 4 * i + 2 * h + 1]};
        reinterpret_cast<int4*>(record)[4] = {__float_as_int(thresholds[h][g]), static_cast<int>(query) + 8 * h,
                                              static_cast<int>(position) + 64 * g, 0};
      }
      records.filled += __popc(lanes);
      if (records.filled >= handed_over_from) records.hand_over(shared, 0);
    }
}

/// What passes in the records of a batch becomes candidates, by a warp.
__device__ __forceinline__ void expand_records(const Filter& f, const int* records, int count, Candidate* segment,
                                               std::uint32_t& used) {
  const int e = lane_index() % 16;
  const auto row = static_cast<std::uint32_t>(e / 2 * 8 + e % 2);
#pragma unroll 2
  for (int from = 0; from < count; from += 2) {
    const int which = from + lane_index() / 16;
    const int* const record = records + which * record_words;
    const int sum = record[e];
    const int4 head = *reinterpret_cast<const int4*>(record + group_rows);
    const bool passed = which < count && !(static_cast<float>(sum) < __int_as_float(head.x));
    const unsigned all = __ballot_sync(all_lanes, passed);
    const std::uint32_t next = used + static_cast<std::uint32_t>(__popc(all));
    if (next > f.room) {
      if (passed) f.args.states[head.y].overflowed = true;
      continue;
    }
    if (passed)
      segment[used + static_cast<std::uint32_t>(votes_below(all))] = {static_cast<std::uint32_t>(head.y),
                                                                      static_cast<std::uint32_t>(head.z) + row, sum, 1};
    used = next;
  }
}
/// The work of one of group_expanders warps: every so many-th consumer's records, in the order in which they are there. A lane knows of the consumer
/// of its number how many batches it has seen, and how much of its segment is used.
template <int slab>
__device__ __forceinline__ void expand_batches(const Filter& f, const GroupBlock<slab>& shared, int expander) {
  const auto lane = static_cast<unsigned>(lane_index());
  const bool mine = lane < group_consumers && lane % group_expanders == static_cast<unsigned>(expander);
  unsigned batches = 0, used = 0;
  bool open = mine;
  while (__any_sync(all_lanes, open)) {
    unsigned there =
        __ballot_sync(all_lanes, open && is_over(shared.records_full[2 * lane + batches % 2], batches / 2 & 1));
    if (there == 0) nap();
    for (; there != 0; there &= there - 1) {
      const int consumer = __ffs(static_cast<int>(there)) - 1;
      const unsigned seen = __shfl_sync(all_lanes, batches, consumer),
                     which = 2 * static_cast<unsigned>(consumer) + seen % 2;
      wait_for(shared.records_full[which], seen / 2 & 1);  // it is over: now for every lane
      const int* const batch = shared.records + which * batch_words;
      const int count = batch[batch_words - 4];
      std::uint32_t here = __shfl_sync(all_lanes, used, consumer);
      expand_records(f, batch, count & (last_batch - 1),
                     f.candidates + (static_cast<std::int64_t>(blockIdx.x) * wgmma_warps + consumer) * f.room, here);
      __syncwarp();
      if (lane == 0) arrive(shared.records_empty[which]);
      if (lane == static_cast<unsigned>(consumer)) {
        ++batches;
        used = here;
        open = count < last_batch;
      }
    }
  }
  if (mine) f.used[static_cast<std::int64_t>(blockIdx.x) * wgmma_warps + lane] = used;
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
  GroupRecords<slab> records;
  GroupCoeffs* const coeffs = shared.coeffs + warp_index() * 16;
  Ring<Block::stages> step;
#pragma unroll 1
  for (unsigned u = blockIdx.x; u < units; u += gridDim.x) {
    const GroupUnit unit(f, u);
    std::uint32_t queries[slab / 32][4];
    load_queries<slab>(f.args, unit.block * 2 + static_cast<unsigned>(group / 2), group % 2, queries);
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
      test_groups<slab>(sums, thresholds, query + static_cast<unsigned>(lane_index() / 4),
                        tile * tile_rows + static_cast<unsigned>(2 * member), shared, records);
      step.next();
    }
  }
  records.hand_over(shared, last_batch);
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
    if (warp_index() > group_consumers) expand_batches<slab>(f, shared, warp_index() - group_consumers - 1);
    else if (lane_index() == 0) copy_tiles<slab>(f, shared, units);
  }
#else
  static_cast<void>(f);
  __trap();  // is_there() keeps it from being launched
#endif
}

}  // namespace vicinal::cuda
