// What the kernel for a few queries of a kept corpus is given, and how it divides a block's
// shared memory (search.cuh). A launch takes as long as what it does for one query, so one
// kernel prepares the queries, filters all rows, ranks what passes and merges.
#pragma once
#include <cstddef>

#include "cuda/search/core/args.hpp"
#include "cuda/search/filter/filter.cuh"
#include "cuda/search/fused/shape.hpp"

namespace vicinal::cuda {

inline constexpr int fused_block_threads = 512, fused_warps = fused_block_threads / 32;
inline constexpr int fused_piece_rows = 32,
                     fused_pieces = tile_rows / fused_piece_rows;  // rows that a warp takes at a time, pieces of a tile
inline constexpr int fused_stages = 2;                             // pieces of a warp that are on their way or used
inline constexpr int fused_largest = 4096;            // largest sums of a block's first pieces, one a query
inline constexpr int fused_found = 2048;              // candidates of a block
inline constexpr int fused_words = 1024;              // of a query's list, from all blocks
inline constexpr int fused_blocks = 160;              // at most
inline constexpr int fused_places = 2 * fused_warps;  // groups of lanes of a block, whose nearest rows count

/// How many rows a block knows upper bounds of when it needs its first thresholds, at least: the nearest of each other
/// block, and of its own lanes'.
inline constexpr std::int64_t fused_bounds(std::int64_t tiles, std::int64_t multiprocessors) {
  const std::int64_t most = multiprocessors < fused_blocks ? multiprocessors : fused_blocks,
                     blocks = tiles < most ? tiles : most, own = 2 * fused_pieces * (tiles / blocks);
  return blocks - 1 + (own < fused_places ? own : fused_places);
}

/// Why a query is left to the usual kernels.
enum FusedFlag : unsigned { fused_unfit = 1, fused_odd = 2, fused_full = 4, fused_unproved = 8 };

/// A query as a block has prepared it.
struct FusedQuery {
  QuantizedQuery quantized;
  double factor = 0;  // of its elements (RowMap)
  double self = 0;    // cosine and correlation
  bool fit = false;   // these kernels may take it
};

/// A query's part of the report, in memory that the host reads.
struct FusedFacts {
  double verified_radius, largest;
  unsigned long long candidates;  // of all queries
  unsigned flags;
};

/// The state of a call, which its last block leaves as the next one needs it.
struct FusedState {
  std::uint32_t* minima = nullptr;  // of each query and block: its least upper bound, as an ordered float
  std::uint32_t* radius = nullptr;  // of each query: the least key that something was excluded by, as an ordered float
  unsigned *counts = nullptr, *flags = nullptr;
  unsigned* ended = nullptr;                 // blocks
  double* largest = nullptr;                 // of each query
  unsigned long long* candidates = nullptr;  // of all queries
  std::uint64_t* words = nullptr;            // of each query fused_words
};

struct FusedArgs {
  PreparedMatrix rows;
  const void* queries = nullptr;  // dense
  DType query_type = DType::f32;
  int count = 0;
  BoundModel model;
  DeviceTransform transform;
  Visits visits;
  double per_count = 1;  // 1 / visits.count
  int k = 0, blocks = 0;
  FusedState state;
  std::int64_t first_id = 0;
  std::int64_t* ids = nullptr;
  float* distances = nullptr;
  FusedFacts* facts = nullptr;
};

/// A candidate of a block.
struct FusedPair {
  std::uint32_t row;
  int query;
};

inline constexpr std::uint32_t fused_none = 0xffffffffu;

/// What a piece's rows have in common, and their terms: as in TileMetadata.
struct alignas(16) FusedPieceFacts {
  float terms[fused_piece_rows];
  double inverse;
  FilterNorms maxima;
  float step, e, n, quick_inverse;
};
static_assert(offsetof(TileMetadata, terms) == 0 &&
                  sizeof(TileMetadata) - offsetof(TileMetadata, inverse) ==
                      sizeof(FusedPieceFacts) - offsetof(FusedPieceFacts, inverse) &&
                  offsetof(TileMetadata, step) - offsetof(TileMetadata, inverse) ==
                      offsetof(FusedPieceFacts, step) - offsetof(FusedPieceFacts, inverse),
              "the end of a tile's metadata is copied");

/// What decides whether a piece's largest sum is below a threshold: as in FusedPieceFacts.
struct FusedLimits {
  float e, n, quick_inverse;
};
/// Pieces at the beginning of a block's share whose rows are tested
/// when the first thresholds are there. groups: of eight queries.
VICINAL_HOST_DEVICE inline constexpr int fused_first_pieces(int groups) { return fused_largest / (8 * groups); }

/// What a block counts, and what its queries share.
struct alignas(16) FusedCounters {
  unsigned found, reached, next;  // candidates; largest sums that reach a threshold; the piece to be taken
  unsigned last;                  // whether all other blocks have ended
  unsigned size;                  // the largest element of all queries, as the bits of a float
  float step;
  double inverse;  // 1 / unit of a tile of step 1
};

/// What a warp of the last block works in: a query's words, and its row of the result.
struct FusedLast {
  std::uint64_t words[fused_words], row[fused_k];
};

/// Where each part of a block's shared memory begins, in bytes. In
/// the end the last block has all but the counters for FusedLast.
struct FusedMemory {
  std::int64_t facts, lines, values, queries, coeffs, known, nearest, largest, limits, found, claimed, counters, all;
};
VICINAL_HOST_DEVICE inline constexpr FusedMemory fused_memory(int slab) {
  constexpr std::int64_t pieces = std::int64_t{fused_warps} * fused_stages;
  FusedMemory m{};
  m.facts = pieces * fused_piece_rows * slab;
  m.lines = m.facts + pieces * static_cast<std::int64_t>(sizeof(FusedPieceFacts));
  m.values = m.lines + fused_queries * slab;
  m.queries = m.values + fused_queries * slab * 8;
  m.coeffs = m.queries + fused_queries * static_cast<std::int64_t>(sizeof(FusedQuery));
  m.known = m.coeffs + fused_queries * static_cast<std::int64_t>(sizeof(ThresholdCoeffsF32));
  m.nearest = m.known + fused_queries * 4;
  m.largest = m.nearest + std::int64_t{fused_queries} * fused_places * 8;
  m.limits = m.largest + std::int64_t{fused_largest} * 4;
  m.found = m.limits + fused_first_pieces(1) * static_cast<std::int64_t>(sizeof(FusedLimits));
  m.claimed = m.found + fused_found * static_cast<std::int64_t>(sizeof(FusedPair));
  constexpr auto last = static_cast<std::int64_t>(fused_warps * sizeof(FusedLast) + fused_queries * sizeof(FusedFacts));
  m.counters = m.claimed + pieces * 4 > last ? m.claimed + pieces * 4 : last;
  m.all = m.counters + static_cast<std::int64_t>(sizeof(FusedCounters));
  return m;
}
static_assert(fused_memory(128).nearest % 16 == 0 && fused_memory(64).nearest % 16 == 0 &&
              fused_memory(128).counters % 16 == 0 && fused_memory(64).counters % 16 == 0);
static_assert(fused_memory(128).all <= 227 << 10);

}  // namespace vicinal::cuda
