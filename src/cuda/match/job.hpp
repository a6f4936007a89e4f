// What the kernels of a matching are given: images as tiles of signed bytes, pairs of them, and what is known of each
// row. Plain data, for both sides of a launch. Every pointer is to memory that the kernels reach.
#pragma once
#include <cstdint>

#include "core/match_rule.hpp"
#include "prepare/byte_rows.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/options.hpp"

namespace vicinal::cuda {

inline constexpr int match_slab = 128;   // bytes of a line: a row has as many slabs as it needs
inline constexpr int match_tile = 128;   // rows that are copied together
inline constexpr int match_block = 128;  // queries of a block
inline constexpr int match_group = 32;   // queries whose nearest is known for each row of the other image
inline constexpr int match_threads = 256;
inline constexpr int match_blocks =
    2;                               // at a time on a multiprocessor: one multiplies while the other looks for maxima
inline constexpr int match_run = 2;  // steps, a slab of a tile each, between two barriers
inline constexpr int match_stages = 2 * match_run;
inline constexpr int match_padding = match_run * match_tile;  // rows, of which an image has a multiple
static_assert(match_padding % match_block == 0);
inline constexpr std::int64_t most_match_width = 512;  // bytes of a row: a block's queries stay in shared memory

/// Rows of an image as bytes less 128, [tile][slab][line][slab bytes] with chunks of 16 bytes placed as match_swizzle
/// says, and what each adds to its scores. Rows from `rows` on are absent, up to a multiple of match_padding.
struct MatchImage {
  std::int8_t* bytes = nullptr;
  std::int32_t* terms = nullptr;
  std::int64_t rows = 0, padded_rows = 0;
};

/// The largest score of a row in one group of the other image's rows,
/// which group that is, and the largest score in any other group.
struct GroupBest {
  std::int32_t best, others, group;
};

/// A pair and where its results are.
struct MatchPair {
  MatchImage a, b;
  GroupBest* rows = nullptr;             // [a.padded_rows]
  GroupBest* columns = nullptr;          // [block of a][b.padded_rows]; groups are of the block
  struct MatchedRow* matched = nullptr;  // [a.padded_rows]
};

/// The match of row i of a; j is -1 where there is none. Scores:
/// of the best, and of the second best of either direction.
struct MatchedRow {
  std::int32_t i, j, best, second_a, second_b;
};

/// A block of queries of a pair.
struct MatchUnit {
  std::int32_t pair, block;
};

struct MatchArgs {
  const MatchPair* pairs = nullptr;
  std::int64_t pair_count = 0;
  const MatchUnit* units = nullptr;
  std::int64_t unit_count = 0;
  std::int64_t width = 0;  // bytes of a row, a multiple of match_slab
  ScoreKind kind = ScoreKind::square;
  MatchRule rule;
  Mutual mutual = Mutual::tested;
  std::uint32_t* counts = nullptr;  // [pair] matches
  MatchedRow* found = nullptr;      // by pair and row of a
};

/// Rows that are packed: dense, in memory of the device.
struct MatchPack {
  const void* rows = nullptr;
  std::int64_t columns = 0;  // of `rows`: of packed bits an eighth of the bytes
  std::int64_t width = 0;
  ByteForm form = ByteForm::plain;
  ScoreKind kind = ScoreKind::square;
  MatchImage image;
};

/// The swizzle: where a chunk of 16 bytes of a line is among the line's chunks, so that eight lines have no bank in
/// common; tensor cores read them so.
VICINAL_HOST_DEVICE inline int match_swizzle(int line, int chunk) { return chunk ^ (line & 7); }
/// The bytes from an image's first to those of a chunk of a row.
VICINAL_HOST_DEVICE inline std::int64_t match_chunk(std::int64_t width, std::int64_t row, int chunk) {
  const auto line = static_cast<int>(row % match_tile);
  return row / match_tile * match_tile * width + chunk / 8 * (match_tile * match_slab) + line * match_slab +
         match_swizzle(line, chunk % 8) * 16;
}

}  // namespace vicinal::cuda
