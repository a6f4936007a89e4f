// FILTER by groups of rows, its output: the largest sum of a group is compared with its query's threshold, and what
// reaches it is appended to the warp's segment (GroupCandidate).
#pragma once
#include "cuda/ptx/wgmma.cuh"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

#if defined(VICINAL_WARPGROUPS)
/// The least whole number that reaches a threshold, for sums below 2^24 in size.
__device__ __forceinline__ int whole_threshold(float threshold) {
  return static_cast<int>(std::ceil(threshold > -0x1p30F ? threshold : -0x1p30F));
}
/// The largest sum of a query in a group: of every four words, as
/// the products of a warpgroup have them, the first two or the last.
template <int count>
__device__ __forceinline__ int largest_of_16(const int (&sums)[count], int first) {
  int most = sums[first];
#pragma unroll
  for (int i = 0; i < 8; ++i) most = __vimax3_s32(most, sums[first + 4 * i], sums[first + 4 * i + 1]);
  return most;
}

/// Where a consuming warp appends groups: its segment of all candidates, of which there are fewer than 2^32.
struct GroupOutput {
  std::uint32_t first, end, next;
  __device__ __forceinline__ GroupOutput(const Filter& f, std::uint32_t segment)
      : first(segment * static_cast<std::uint32_t>(f.room)), end(first + static_cast<std::uint32_t>(f.room)),
        next(first) {}

  /// A group of each of these lanes. sums: of the query, from
  /// `begin` on; shift: bits that its products lose beside eight.
  template <int count>
  __device__ __forceinline__ void append(const Filter& f, unsigned lanes, bool mine, std::uint32_t query,
                                         std::uint32_t position, int most, float threshold, const int (&sums)[count],
                                         int begin, int shift) {
    const auto found = static_cast<std::uint32_t>(__popc(lanes));
    if (found > end - next) {
      if (mine) lose(f, query, position);
      return;
    }
    if (mine) {
      struct alignas(16) Words {
        std::uint32_t of[4];
      };
      auto* const to =
          reinterpret_cast<Words*>(f.group_candidates + (next + static_cast<std::uint32_t>(votes_below(lanes))));
      to[0] = {query, position, static_cast<std::uint32_t>(most),
               static_cast<std::uint32_t>(whole_threshold(threshold))};
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        Words words;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words.of[i] = __byte_perm(static_cast<std::uint32_t>(sums[begin + 16 * part + 4 * i] >> shift),
                                    static_cast<std::uint32_t>(sums[begin + 16 * part + 4 * i + 1] >> shift), 0x6521);
        to[part + 1] = words;
      }
    }
    next += found;
  }

 private:
  /// A group that finds no room is lost for its query, and for its rows where they are queries as well.
  __device__ __forceinline__ static void lose(const Filter& f, std::uint32_t query, std::uint32_t position) {
    f.args.states[query].given_up = true;
    if (!f.serves_both()) return;
#pragma unroll 1
    for (int i = 0; i < group_rows; ++i)
      if (const std::int64_t row = position + row_of_group(0, i); row < f.args.queries.count)
        f.args.states[row].given_up = true;
  }
};

/// Groups whose largest sum reaches the query's threshold become candidates. sums: of two queries, of which lane 0's
/// first one is `query`, and of the group of each half of the tile that is there, `half` on.
template <int count>
__device__ __forceinline__ void test_groups(const Filter& f, const int (&sums)[count], const float (&thresholds)[2],
                                            std::uint32_t query, std::uint32_t tile, int half, GroupOutput& out,
                                            int shift = 0) {
  constexpr int halves = count / 32;
  int most[2][halves];
  bool passed[2][halves], any = false;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < halves; ++g) {
      most[h][g] = largest_of_16(sums, 32 * g + 2 * h);
      passed[h][g] = static_cast<float>(most[h][g]) >= thresholds[h];
      any = any || passed[h][g];
    }
  if (!__any_sync(all_lanes, any)) return;
  query += static_cast<unsigned>(lane_index() / 4);
  const std::uint32_t position = tile * tile_rows + static_cast<unsigned>(half * 64 + lane_index() % 4 * 2);
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int g = 0; g < halves; ++g) {
      const unsigned lanes = __ballot_sync(all_lanes, passed[h][g]);
      if (lanes != 0)
        out.append(f, lanes, passed[h][g], query + 8 * h, position + 64 * g, most[h][g], thresholds[h], sums,
                   32 * g + 2 * h, shift);
    }
}
#endif

}  // namespace vicinal::cuda
