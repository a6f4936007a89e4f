// The largest scores of both sides of pairs of images, on tensor cores by mma.sync: a block takes 256 queries of one image past all tiles of 128 rows of
// the other. What costs is the arithmetic after the products, so no second best is kept: of each row the largest score in small groups of the other side, the
// largest of all groups and the next. The second best of all is that next one, or in the group of the best, where decide.cuh looks for it, of the few rows for
// which it can matter.
//
// 16 warps multiply 32 queries x 64 rows each; asynchronous copies bring rows some tiles ahead. Groups of a query: the 16 rows of a tile that one lane has the
// sums of. Groups of a row: the 32 queries of a warp.
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/match/job.hpp"
#include "cuda/ptx/copy.cuh"
#include "cuda/ptx/mma.cuh"

namespace vicinal::cuda {

/// Where each part of a block's shared memory begins, in bytes.
struct MatchMemory {
  std::int64_t queries, terms, columns, rows, all;
};
VICINAL_HOST_DEVICE inline constexpr MatchMemory match_memory(std::int64_t width) {
  MatchMemory m{};
  m.queries = std::int64_t{match_stages} * match_tile * match_slab;
  m.terms = m.queries + match_block * width;
  m.columns = m.terms + std::int64_t{match_stages} * match_tile * 4;
  m.rows = m.columns + std::int64_t{2} * (match_block / match_group) * match_tile * 4;
  m.all = m.rows + match_block * static_cast<std::int64_t>(sizeof(GroupBest));
  return m;
}

__device__ __forceinline__ int larger(int a, int b) { return a < b ? b : a; }
/// The largest of three, and of a + b and c: one instruction each from compute capability 9.0 on.
__device__ __forceinline__ int larger(int a, int b, int c) {
#if defined(__CUDACC__)
  return __vimax3_s32(a, b, c);
#else
  return larger(larger(a, b), c);
#endif
}
__device__ __forceinline__ int larger_sum(int a, int b, int c) {
#if defined(__CUDACC__)
  return __viaddmax_s32(a, b, c);
#else
  return larger(a + b, c);
#endif
}

/// Takes another part's largest scores; of equal ones the earlier group stays.
__device__ __forceinline__ void join(GroupBest& mine, const GroupBest& other) {
  const bool wins = other.best > mine.best || (other.best == mine.best && other.group < mine.group);
  const int loser = wins ? mine.best : other.best;
  mine.others = larger(larger(mine.others, other.others), loser);
  mine.best = wins ? other.best : mine.best;
  mine.group = wins ? other.group : mine.group;
}
__device__ __forceinline__ GroupBest of_lane_xor(const GroupBest& mine, int mask) {
  return {__shfl_xor_sync(all_lanes, mine.best, mask), __shfl_xor_sync(all_lanes, mine.others, mask),
          __shfl_xor_sync(all_lanes, mine.group, mask)};
}

/// The largest of each of 16 values among the lanes of one member: lane 4 * group + member ends with values 2 * group and + 1.
__device__ __forceinline__ void largest_of_groups(int (&v)[16]) {
#pragma unroll
  for (int half = 8; half >= 2; half /= 2) {
    const bool upper = (lane_index() & 2 * half) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const int kept = upper ? v[half + i] : v[i], sent = upper ? v[i] : v[half + i];
      v[i] = larger(kept, __shfl_xor_sync(all_lanes, sent, 2 * half));
    }
  }
}

/// A thread's part of a block's work. one_slab: rows of one slab, whose queries stay in registers.
template <bool one_slab, bool doubled>
struct MatchWarp {
  static constexpr int slab_bytes = match_tile * match_slab, slab_steps = match_slab / 32,
                       query_groups = match_block / match_group;
  static constexpr MatchMemory memory = match_memory(match_slab);  // but for `queries` on, which longer rows move

  const MatchArgs& args;
  unsigned char* base;
  std::int64_t moved;  // bytes by which longer rows move what is behind the queries
  int slabs, lane, group, member, warp_group, half;
  const MatchPair* pair = nullptr;
  std::int64_t block = 0;
  int all = 0;  // slabs of all tiles
  int sums[2][8][4];
  std::uint32_t a[2][one_slab ? slab_steps : 1][4];
  GroupBest best[2][2];

  __device__ __forceinline__ explicit MatchWarp(const MatchArgs& given)
      : args(given), base(dynamic_shared<unsigned char>()), moved(match_block * (given.width - match_slab)),
        slabs(one_slab ? 1 : static_cast<int>(given.width / match_slab)), lane(lane_index()), group(lane / 4),
        member(lane % 4), warp_group(warp_index() / 2), half(warp_index() % 2) {}

  __device__ __forceinline__ int* terms(int turn) const {
    return reinterpret_cast<int*>(base + memory.terms + moved) + turn % match_stages * match_tile;
  }
  __device__ __forceinline__ int* columns(int turn, int of_group) const {
    return reinterpret_cast<int*>(base + memory.columns + moved) + ((turn & 1) * query_groups + of_group) * match_tile;
  }
  __device__ __forceinline__ GroupBest* of_rows() const {
    return reinterpret_cast<GroupBest*>(base + memory.rows + moved);
  }
  /// The query of a lane's sums c = 2 h and 2 h + 1 of m, in the block.
  __device__ __forceinline__ int query(int m, int h) const { return warp_group * match_group + m * 16 + h * 8 + group; }

  __device__ __forceinline__ void copy_bytes(unsigned char* to, const void* from, std::int64_t bytes) const {
    for (std::int64_t i = thread_index() * 16; i < bytes; i += match_threads * 16)
      copy_16(to + i, static_cast<const unsigned char*>(from) + i);
  }
  /// Asks for the slab of step s, some steps ahead, with the first of a tile its terms.
  __device__ __forceinline__ void copy_step(int s) const {
    if (s < all) {
      copy_bytes(base + s % match_stages * slab_bytes, pair->b.bytes + static_cast<std::int64_t>(s) * slab_bytes,
                 slab_bytes);
      if (s % slabs == 0)
        copy_bytes(reinterpret_cast<unsigned char*>(terms(s / slabs)),
                   pair->b.terms + static_cast<std::int64_t>(s / slabs) * match_tile, match_tile * 4);
    }
    commit_copies();
  }
  __device__ __forceinline__ void load_queries(int slab, int step, std::uint32_t (&to)[4], int m) const {
    const int of_block = warp_group * match_group + m * 16 + (lane / 8 & 1) * 8 + lane % 8,
              line = of_block % match_tile;
    load_matrices(to, base + memory.queries +
                          static_cast<std::int64_t>(of_block / match_tile * slabs + slab) * slab_bytes +
                          line * match_slab + match_place(line, 2 * step + lane / 16) * 16);
  }

  /// Prologue: the block's queries, the first copies.
  __device__ __forceinline__ int begin(const MatchUnit& unit) {
    pair = &args.pairs[unit.pair];
    block = unit.block;
    const int tiles = static_cast<int>((pair->b.rows + match_tile - 1) / match_tile);
    all = tiles * slabs;
    __syncthreads();  // of the unit before everything is used
    copy_bytes(base + memory.queries, pair->a.bytes + block * match_block * args.width, match_block * args.width);
    for (int s = 0; s < match_stages - 1; ++s) copy_step(s);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) best[m][h] = {least_score, least_score, 0};
    if constexpr (one_slab) {
      wait_for_copies<match_stages - 2>();
      __syncthreads();
#pragma unroll
      for (int step = 0; step < slab_steps; ++step)
#pragma unroll
        for (int m = 0; m < 2; ++m) load_queries(0, step, a[m][step], m);
    }
    return tiles;
  }

  /// Adds the products of step s.
  __device__ __forceinline__ void multiply(int s, int slab) {
    const unsigned char* rows = base + s % match_stages * slab_bytes;
#pragma unroll
    for (int step = 0; step < slab_steps; ++step) {
      if constexpr (!one_slab) {
#pragma unroll
        for (int m = 0; m < 2; ++m) load_queries(slab, step, a[m][0], m);
      }
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        std::uint32_t b[4];
        const int line = half * 64 + (n + lane / 16) * 8 + lane % 8;
        load_matrices(b, rows + line * match_slab + match_place(line, 2 * step + (lane / 8 & 1)) * 16);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          mma_16x8x32(sums[m][n], a[m][one_slab ? step : 0], b[0], b[1]);
          mma_16x8x32(sums[m][n + 1], a[m][one_slab ? step : 0], b[2], b[3]);
        }
      }
    }
  }

  /// Epilogue: sums become scores; the largest of each query here, the largest of each row among this warp's queries.
  __device__ __forceinline__ void keep_scores(int turn) {
    const int* of_tile = terms(turn) + half * 64 + 2 * member;
    const std::int32_t* of_queries = pair->a.terms + block * match_block;
    int of_columns[16], most[2][2] = {{least_score, least_score}, {least_score, least_score}}, mine[2][2];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) mine[m][h] = of_queries[query(m, h)];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int term[2] = {of_tile[n * 8], of_tile[n * 8 + 1]};
      int largest[2] = {least_score, least_score};
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          // Without the query's term, which all of its scores have.
          int score[2];
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int sum = sums[m][n][2 * h + c];
            score[c] = (doubled ? 2 * sum : sum) + term[c];
            largest[c] = larger_sum(score[c], mine[m][h], largest[c]);
          }
          most[m][h] = larger(score[0], score[1], most[m][h]);
        }
      of_columns[2 * n] = largest[0];
      of_columns[2 * n + 1] = largest[1];
    }

    // Rows: a group a warp. Queries: a group a tile.
    largest_of_groups(of_columns);
    int* scores = columns(turn, warp_group) + half * 64 + group * 8 + 2 * member;
    scores[0] = of_columns[0];
    scores[1] = of_columns[1];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int score = most[m][h] + mine[m][h];
        const bool wins = score > best[m][h].best;
        best[m][h].others = larger(best[m][h].others, wins ? best[m][h].best : score);
        best[m][h].best = wins ? score : best[m][h].best;
        best[m][h].group = wins ? turn : best[m][h].group;
      }
  }

  /// Output: the largest scores of a tile's rows in this block, from those of its warps.
  __device__ __forceinline__ void keep_columns(int turn) const {
    if (thread_index() >= match_tile) return;
    const int* scores = columns(turn, 0) + thread_index();
    GroupBest of_block{scores[0], least_score, 0};
#pragma unroll
    for (int g = 1; g < query_groups; ++g) join(of_block, {scores[g * match_tile], least_score, g});
    pair->columns[block * pair->b.places + static_cast<std::int64_t>(turn) * match_tile + thread_index()] = of_block;
  }

  /// Output: the queries, whose groups are numbered by tile, half of the tile and member.
  __device__ __forceinline__ void keep_queries() {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        GroupBest& mine = best[m][h];
        mine.group = mine.group * 8 + half * 4 + member;
        join(mine, of_lane_xor(mine, 1));
        join(mine, of_lane_xor(mine, 2));
        if (half == 1 && member == 0) of_rows()[query(m, h)] = mine;
      }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (half == 0 && member == 0) {
          join(best[m][h], of_rows()[query(m, h)]);
          pair->rows[block * match_block + query(m, h)] = best[m][h];
        }
  }
};

template <bool one_slab, bool doubled>
__global__ void __launch_bounds__(match_threads, 1) match_best_two(MatchArgs args) {
  MatchWarp<one_slab, doubled> warp(args);
  for (std::int64_t unit = blockIdx.x; unit < args.unit_count; unit += gridDim.x) {
    const int tiles = warp.begin(args.units[unit]);
    int slab = 0, turn = 0;
    for (int s = 0; s < warp.all; ++s) {
      wait_for_copies<match_stages - 2>();
      __syncthreads();
      warp.copy_step(s + match_stages - 1);
      if (slab == 0) {
        if (turn > 0) warp.keep_columns(turn - 1);
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) warp.sums[m][n][i] = 0;
      }
      warp.multiply(s, slab);
      if (++slab < warp.slabs) continue;
      slab = 0;
      warp.keep_scores(turn++);
    }
    __syncthreads();
    warp.keep_columns(tiles - 1);
    warp.keep_queries();
  }
}

}  // namespace vicinal::cuda
