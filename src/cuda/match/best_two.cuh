// The largest scores of both sides of pairs of images, on tensor cores by mma.sync: a block takes 128
// queries of one image past all tiles of 128 rows of the other. What costs is the arithmetic after the
// products, so no second best is kept: of each row the largest score in small groups of the other side,
// the largest of all groups and the next. The second best of all is that next one, or in the group of
// the best, where decide.cuh looks for it, of the few rows for which it can matter.
//
// 8 warps multiply 32 queries x 64 rows each, 32 x 32 at a time where rows are of one slab, so that the compiler mixes
// the products of one half with the maxima of the other. Asynchronous copies bring the tiles of the next run; a barrier
// a run lets warps drift apart, some at products and some at maxima. Groups of a query: the 16 rows of a tile that one
// lane has the sums of. Groups of a row: the 32 queries of a warp.
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
  m.rows = m.columns + std::int64_t{2 * match_run} * (match_block / match_group) * match_tile * 4;
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

/// The largest of each of `count` values among the lanes of one member: lane 4 * group + member ends with values count
/// / 8 * group and on. Recursion, since a loop over `half` is not unrolled, and `v` would be in local memory.
template <int count, int half = count / 2>
__device__ __forceinline__ void largest_of_groups(int (&v)[count]) {
  constexpr int mask = 32 * half / count;  // lanes
  const bool upper = (lane_index() & mask) != 0;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const int kept = upper ? v[half + i] : v[i], sent = upper ? v[i] : v[half + i];
    v[i] = larger(kept, __shfl_xor_sync(all_lanes, sent, mask));
  }
  if constexpr (mask > 4) largest_of_groups<count, half / 2>(v);
}

/// A thread's part of a block's work. one_slab: rows of one slab, whose queries stay in registers.
template <bool one_slab, bool doubled>
struct MatchWarp {
  static constexpr int slab_bytes = match_tile * match_slab, slab_steps = match_slab / 32,
                       query_groups = match_block / match_group;
  static constexpr int columns_at_once = one_slab ? 4 : 8;         // of 8 rows each, whose sums are in registers
  static constexpr MatchMemory memory = match_memory(match_slab);  // but for `queries` on, which longer rows move

  const MatchArgs& args;
  unsigned char* base;
  std::int64_t moved;  // bytes by which longer rows move what is behind the queries
  int slabs, lane, group, member, warp_group, half;
  const MatchPair* pair = nullptr;
  const unsigned char* rows = nullptr;  // of the tiles
  const std::int32_t* row_terms = nullptr;
  std::int64_t block = 0;
  int all = 0;  // slabs of all tiles
  int sums[2][columns_at_once][4];
  std::uint32_t a[2][one_slab ? slab_steps : 1][4];
  GroupBest best[2][2];  // without the query's term, which all of its scores have
  int mine[2][2];        // terms of the queries
  int most[2][2];        // largest scores of a tile, without the query's term

  __device__ __forceinline__ explicit MatchWarp(const MatchArgs& given)
      : args(given), base(dynamic_shared<unsigned char>()),
        moved(one_slab ? 0 : match_block * (given.width - match_slab)),
        slabs(one_slab ? 1 : static_cast<int>(given.width / match_slab)), lane(lane_index()), group(lane / 4),
        member(lane % 4), warp_group(warp_index() / 2), half(warp_index() % 2) {}

  __device__ __forceinline__ int* terms(int turn) const {
    return reinterpret_cast<int*>(base + memory.terms + moved) + turn % match_stages * match_tile;
  }
  __device__ __forceinline__ int* columns(int turn, int of_group) const {
    return reinterpret_cast<int*>(base + memory.columns + moved) +
           (turn % (2 * match_run) * query_groups + of_group) * match_tile;
  }
  __device__ __forceinline__ GroupBest* other_half() const {
    return reinterpret_cast<GroupBest*>(base + memory.rows + moved);
  }
  /// The query of a lane's sums c = 2 h and 2 h + 1 of m, in the block.
  __device__ __forceinline__ int query(int m, int h) const { return warp_group * match_group + m * 16 + h * 8 + group; }

  __device__ __forceinline__ static void copy_slab(unsigned char* to, const unsigned char* from) {
    static_assert(slab_bytes % (match_threads * 16) == 0);
    const int first = thread_index() * 16;
#pragma unroll
    for (int i = 0; i < slab_bytes; i += match_threads * 16) copy_16(to + i + first, from + i + first);
  }
  /// Asks for the slab of step s, of the next run, with the first of a tile its terms.
  __device__ __forceinline__ void copy_step(int s) const {
    if (s < all) {
      copy_slab(base + s % match_stages * slab_bytes, rows + static_cast<std::int64_t>(s) * slab_bytes);
      const int turn = one_slab ? s : s / slabs;
      if ((one_slab || s % slabs == 0) && thread_index() < match_tile / 4)
        copy_16(terms(turn) + thread_index() * 4,
                row_terms + static_cast<std::int64_t>(turn) * match_tile + thread_index() * 4);
    }
  }
  __device__ __forceinline__ void load_queries(int slab, int step, std::uint32_t (&to)[4], int m) const {
    const int of_block = warp_group * match_group + m * 16 + (lane / 8 & 1) * 8 + lane % 8,
              line = of_block % match_tile;
    load_matrices(to, base + memory.queries +
                          static_cast<std::int64_t>(of_block / match_tile * slabs + slab) * slab_bytes +
                          line * match_slab + match_swizzle(line, 2 * step + lane / 16) * 16);
  }

  /// Prologue: the block's queries, the first copies.
  __device__ __forceinline__ int begin(const MatchUnit& unit) {
    pair = &args.pairs[unit.pair];
    block = unit.block;
    rows = reinterpret_cast<const unsigned char*>(pair->b.bytes);
    row_terms = pair->b.terms;
    const int tiles = static_cast<int>(pair->b.padded_rows / match_tile);
    all = tiles * slabs;
    __syncthreads();  // of the unit before everything is used
    const auto* queries = reinterpret_cast<const unsigned char*>(pair->a.bytes) + block * match_block * args.width;
    for (int i = 0; i < match_block / match_tile * slabs; ++i)
      copy_slab(base + memory.queries + i * slab_bytes, queries + i * slab_bytes);
    for (int s = 0; s < match_run; ++s) copy_step(s);
    commit_copies();
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        best[m][h] = {least_score, least_score, 0};
        mine[m][h] = pair->a.terms[block * match_block + query(m, h)];
      }
    if constexpr (one_slab) {
      wait_for_copies<0>();
      __syncthreads();
#pragma unroll
      for (int step = 0; step < slab_steps; ++step)
#pragma unroll
        for (int m = 0; m < 2; ++m) load_queries(0, step, a[m][step], m);
    }
    return tiles;
  }

  __device__ __forceinline__ void begin_sums() {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < columns_at_once; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
  }

  /// Adds the products of step s, of columns from `first` on.
  __device__ __forceinline__ void multiply(int s, int slab, int first) {
    const unsigned char* from = base + s % match_stages * slab_bytes;
#pragma unroll
    for (int step = 0; step < slab_steps; ++step) {
      if constexpr (!one_slab) {
#pragma unroll
        for (int m = 0; m < 2; ++m) load_queries(slab, step, a[m][0], m);
      }
#pragma unroll
      for (int n = 0; n < columns_at_once; n += 2) {
        std::uint32_t b[4];
        const int line = half * 64 + (first + n + lane / 16) * 8 + lane % 8;
        load_matrices(b, from + line * match_slab + match_swizzle(line, 2 * step + (lane / 8 & 1)) * 16);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          mma_16x8x32(sums[m][n], a[m][one_slab ? step : 0], b[0], b[1]);
          mma_16x8x32(sums[m][n + 1], a[m][one_slab ? step : 0], b[2], b[3]);
        }
      }
    }
  }

  /// Epilogue of columns from `first` on: sums become scores; the largest
  /// of each query here, the largest of each row among this warp's queries.
  __device__ __forceinline__ void keep_scores(int turn, int first) {
    const int* of_tile = terms(turn) + half * 64 + first * 8 + 2 * member;
    int of_columns[2 * columns_at_once];
#pragma unroll
    for (int n = 0; n < columns_at_once; ++n) {
      const int term[2] = {of_tile[n * 8], of_tile[n * 8 + 1]};
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int score[2];
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int sum = sums[m][n][2 * h + c];
            score[c] = (doubled ? 2 * sum : sum) + term[c];
            int& largest = of_columns[2 * n + c];
            largest = m == 0 && h == 0 ? score[c] + mine[m][h] : larger_sum(score[c], mine[m][h], largest);
          }
          most[m][h] = first == 0 && n == 0 ? larger(score[0], score[1]) : larger(score[0], score[1], most[m][h]);
        }
    }

    // Rows: a group a warp. A lane ends with one or two rows.
    largest_of_groups(of_columns);
    int* scores = columns(turn, warp_group) + half * 64 + first * 8;
    if constexpr (columns_at_once == 8) {
      scores[group * 8 + 2 * member] = of_columns[0];
      scores[group * 8 + 2 * member + 1] = of_columns[1];
    } else {
      scores[group / 2 * 8 + 2 * member + group % 2] = of_columns[0];
    }
  }

  /// Takes a tile's largest scores of the queries, a group of each.
  __device__ __forceinline__ void keep_most(int turn) {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        GroupBest& known = best[m][h];
        const int score = most[m][h];
        const bool wins = score > known.best;
        known.others = larger(known.others, wins ? known.best : score);
        known.best = wins ? score : known.best;
        known.group = wins ? turn : known.group;
      }
  }

  /// Output: the largest scores of a tile's rows in this block, from those of its warps.
  __device__ __forceinline__ void keep_columns(int turn) const {
    if (thread_index() >= match_tile) return;
    const int* scores = columns(turn, 0) + thread_index();
    GroupBest of_block{scores[0], least_score, 0};
#pragma unroll
    for (int g = 1; g < query_groups; ++g) {
      const int score = scores[g * match_tile];
      const bool wins = score > of_block.best;
      of_block.others = larger(of_block.others, wins ? of_block.best : score);
      of_block.best = wins ? score : of_block.best;
      of_block.group = wins ? g : of_block.group;
    }
    pair->columns[block * pair->b.padded_rows + static_cast<std::int64_t>(turn) * match_tile + thread_index()] =
        of_block;
  }

  /// Output: the queries, whose groups are numbered by tile, half of the tile and member.
  __device__ __forceinline__ void keep_queries() {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        GroupBest& known = best[m][h];
        known.group = known.group * 8 + half * 4 + member;
        join(known, of_lane_xor(known, 1));
        join(known, of_lane_xor(known, 2));
        if (half == 1 && member == 0) other_half()[query(m, h)] = known;
      }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (half == 0 && member == 0) {
          join(best[m][h], other_half()[query(m, h)]);
          best[m][h].best += mine[m][h];
          best[m][h].others += mine[m][h];  // a score: an image has several groups
          pair->rows[block * match_block + query(m, h)] = best[m][h];
        }
  }
};

template <bool one_slab, bool doubled>
__global__ void __launch_bounds__(match_threads, match_blocks) match_best_two(MatchArgs args) {
  MatchWarp<one_slab, doubled> warp(args);
  for (std::int64_t unit = blockIdx.x; unit < args.unit_count; unit += gridDim.x) {
    const int tiles = warp.begin(args.units[unit]);
    int slab = 0, turn = 0;
    for (int s = 0; s < warp.all; s += match_run) {
      wait_for_copies<0>();
      __syncthreads();
#pragma unroll
      for (int i = 0; i < match_run; ++i) warp.copy_step(s + match_run + i);
      commit_copies();
      // Tiles whose last slab was in the run before.
      const int from = s >= match_run ? (s - match_run) / warp.slabs : 0;
      for (int done = from; done < turn; ++done) warp.keep_columns(done);
      if constexpr (one_slab) {
#pragma unroll
        for (int i = 0; i < match_run; ++i) {
#pragma unroll
          for (int first = 0; first < 8; first += warp.columns_at_once) {
            warp.begin_sums();
            warp.multiply(s + i, 0, first);
            warp.keep_scores(s + i, first);
          }
          warp.keep_most(turn++);
        }
      } else {
        for (int i = 0; i < match_run; ++i) {
          if (slab == 0) warp.begin_sums();
          warp.multiply(s + i, slab, 0);
          if (++slab < warp.slabs) continue;
          slab = 0;
          warp.keep_scores(turn, 0);
          warp.keep_most(turn++);
        }
      }
    }
    __syncthreads();
    for (int done = (warp.all - 1) / match_run * match_run / warp.slabs; done < tiles; ++done) warp.keep_columns(done);
    warp.keep_queries();
  }
}

}  // namespace vicinal::cuda
