// The matches of pairs from their groups' largest scores: a warp a query. Most queries fail with the largest score of
// another group in place of their second best, which is at least as near; for the others the scores of the best's group
// are computed again, and those of the row's group to see who is its nearest.
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/match/best_two.cuh"
#include "cuda/match/job.hpp"
#include "cuda/ptx/differences.cuh"

namespace vicinal::cuda {

inline constexpr int match_decide_threads = match_block;

struct __align__(16) FourWords {
  unsigned word[4];
};

/// The score of row q of an image and row r of another.
__device__ __forceinline__ int match_score(const MatchArgs& args, const MatchImage& a, std::int64_t q,
                                           const MatchImage& b, std::int64_t r) {
  unsigned products = 0;
  for (int slab = 0; slab < static_cast<int>(args.width / 16); slab += 8) {
#pragma unroll
    for (int chunk = 0; chunk < 8; ++chunk) {
      const auto x = *reinterpret_cast<const FourWords*>(a.bytes + match_chunk(args.width, q, slab + chunk));
      const auto y = *reinterpret_cast<const FourWords*>(b.bytes + match_chunk(args.width, r, slab + chunk));
      for (int k = 0; k < 4; ++k) products = add_byte_products<true>(x.word[k], y.word[k], products);
    }
  }
  const auto sum = static_cast<int>(products);
  return (args.kind == ScoreKind::product ? sum : 2 * sum) + a.terms[q] + b.terms[r];
}

struct Nearest {
  std::int32_t id, best, second;
};

/// The nearest of the rows that lanes have, each at most one, r < 0 for
/// none; `others` is the largest score elsewhere. Of the whole warp.
__device__ __forceinline__ Nearest nearest_of_lanes(const MatchArgs& args, const MatchImage& of, std::int64_t q,
                                                    const MatchImage& in, std::int64_t r, int others) {
  const int score = r >= 0 ? match_score(args, of, q, in, r) : least_score;
  const int best = __reduce_max_sync(all_lanes, score);
  const auto id =
      static_cast<int>(__reduce_min_sync(all_lanes, score == best && r >= 0 ? static_cast<unsigned>(r) : 0x7fffffffu));
  const int second = __reduce_max_sync(all_lanes, static_cast<int>(r) == id ? least_score : score);
  return {id, best, larger(second, others)};
}

/// The nearest row of `in` to row q, of which groups are known: in the best one, or, where another has as large a
/// score, the first of all. row_of: the row that a lane has of a group, -1 for none.
template <class RowOf>
__device__ __forceinline__ Nearest nearest_row(const MatchArgs& args, const MatchImage& of, std::int64_t q,
                                               const MatchImage& in, const GroupBest& known, const RowOf& row_of) {
  if (known.others < known.best) return nearest_of_lanes(args, of, q, in, row_of(known.group), known.others);
  for (std::int64_t first = 0;; first += 32) {
    const std::int64_t r = first + lane_index();
    const Nearest found = nearest_of_lanes(args, of, q, in, r < in.rows ? r : -1, known.others);
    if (found.best == known.best || first + 32 >= in.rows) return found;
  }
}

/// False only where no second best at least as near as `others`
/// passes. Wider than the rule by more than any rounding of it.
__device__ __forceinline__ bool may_pass(const MatchArgs& args, const GroupBest& known, std::int64_t rows) {
  const MatchRule& rule = args.rule;
  const double best = rule.distance(key_of(args.kind, known.best));
  if (!(best <= rule.max_distance)) return false;
  if (!rule.has_ratio || rows < 2) return !rule.has_ratio || rule.accept_lone;
  return best <= rule.ratio * rule.distance(key_of(args.kind, known.others)) * (1 + 0x1p-40);
}

__device__ __forceinline__ bool passes(const MatchArgs& args, const Nearest& found, std::int64_t rows) {
  return args.rule.passes({found.id, key_of(args.kind, found.best), key_of(args.kind, found.second)}, rows);
}

/// The match of query i, which may pass; j < 0: none.
__device__ __forceinline__ MatchedRow match_of(const MatchArgs& args, const MatchPair& pair, std::int64_t i) {
  const MatchedRow none{static_cast<std::int32_t>(i), -1, 0, 0, 0};
  const GroupBest known = pair.rows[i];
  // A group of a query is the 16 rows of one member in half a tile (match_best_two).
  const Nearest forth = nearest_row(args, pair.a, i, pair.b, known, [&](int group) -> std::int64_t {
    const int lane = lane_index();
    const std::int64_t r = std::int64_t{group / 4} * 64 + lane / 2 * 8 + group % 4 * 2 + lane % 2;
    return lane < 16 && r < pair.b.rows ? r : -1;
  });
  if (!passes(args, forth, pair.b.rows)) return none;
  MatchedRow found{static_cast<std::int32_t>(i), forth.id, forth.best, forth.second, least_score};
  if (args.mutual == Mutual::one_way) return found;

  // The row's groups in every block of queries.
  const std::int64_t blocks = (pair.a.rows + match_block - 1) / match_block;
  GroupBest back{least_score, least_score, 0x7fffffff};
  for (std::int64_t block = lane_index(); block < blocks; block += 32) {
    GroupBest other = pair.columns[block * pair.b.padded_rows + forth.id];
    other.group += static_cast<std::int32_t>(block) * (match_block / match_group);
    join(back, other);
  }
  for (int mask = 16; mask > 0; mask /= 2) join(back, of_lane_xor(back, mask));
  if (back.best != forth.best) return none;
  if (args.mutual == Mutual::tested && !may_pass(args, back, pair.a.rows)) return none;
  const Nearest nearest = nearest_row(args, pair.b, forth.id, pair.a, back, [&](int group) -> std::int64_t {
    const std::int64_t r = std::int64_t{group} * match_group + lane_index();
    return r < pair.a.rows ? r : -1;
  });
  if (nearest.id != i || (args.mutual == Mutual::tested && !passes(args, nearest, pair.a.rows))) return none;
  found.second_b = nearest.second;
  return found;
}

/// Blocks take units.
__global__ void __launch_bounds__(match_decide_threads, 6) match_decide(MatchArgs args) {
  for (std::int64_t unit = blockIdx.x; unit < args.unit_count; unit += gridDim.x) {
    const MatchUnit mine = args.units[unit];
    const MatchPair& pair = args.pairs[mine.pair];
    std::uint32_t count = 0;
    for (int first = warp_index() * 32; first < match_block; first += match_decide_threads) {
      // A lane a query for the first test, the warp for each of those that may pass.
      const std::int64_t base = std::int64_t{mine.block} * match_block + first, i = base + lane_index();
      const bool present = i < pair.a.rows, may = present && may_pass(args, pair.rows[i], pair.b.rows);
      if (present && !may) pair.matched[i] = {static_cast<std::int32_t>(i), -1, 0, 0, 0};
      for (unsigned left = __ballot_sync(all_lanes, may); left != 0; left &= left - 1) {
        const std::int64_t query = base + __ffs(static_cast<int>(left)) - 1;
        const MatchedRow found = match_of(args, pair, query);
        if (lane_index() == 0) pair.matched[query] = found;
        count += found.j >= 0 ? 1 : 0;
      }
    }
    if (lane_index() == 0 && count > 0) atomicAdd(&args.counts[mine.pair], count);
  }
}

/// A block a pair: its matches, one after the other, by row.
__global__ void match_collect(MatchArgs args) {
  VICINAL_SHARED(std::uint32_t, spare, match_decide_threads / 32);
  for (std::int64_t p = blockIdx.x; p < args.pair_count; p += gridDim.x) {
    const MatchPair& pair = args.pairs[p];
    std::uint32_t of_thread = 0, before_pair = 0;
    for (std::int64_t q = thread_index(); q < p; q += match_decide_threads) of_thread += args.counts[q];
    block_sum_before(of_thread, before_pair, spare);
    __syncthreads();
    MatchedRow* to = args.found + before_pair;
    for (std::int64_t first = 0; first < pair.a.rows; first += match_decide_threads) {
      const std::int64_t i = first + thread_index();
      const bool is_match = i < pair.a.rows && pair.matched[i].j >= 0;
      std::uint32_t total = 0;
      const std::uint32_t before = block_sum_before(is_match ? 1u : 0u, total, spare);
      if (is_match) to[before] = pair.matched[i];
      to += total;
      __syncthreads();  // before `spare` is used again
    }
  }
}

}  // namespace vicinal::cuda
