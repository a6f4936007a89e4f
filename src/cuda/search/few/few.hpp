// What the kernel for a few queries of a kept corpus is given, and how it divides a block's shared memory (search.cuh). A launch takes as long as
// what it does for one query, so one kernel prepares the queries, filters all rows, ranks what passes and merges.
#pragma once
#include <cstddef>

#include "cuda/search/core/args.hpp"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

inline constexpr int few_block_threads = 512, few_warps = few_block_threads / 32;
inline constexpr int few_piece_rows = 32,
                     few_pieces = tile_rows / few_piece_rows;  // rows that a warp takes at a time, pieces of a tile
inline constexpr int few_stages = 2;                           // pieces of a warp that are on their way or used
inline constexpr int few_largest = 4096;                       // largest sums of a block's first pieces, one a query
inline constexpr int few_found = 2048;                         // candidates of a block
inline constexpr int few_words = 1024;                         // of a query's list, from all blocks
inline constexpr int few_blocks = 160;                         // at most
inline constexpr int few_places = few_warps * 2;  // groups of lanes of a block, of each of which the nearest row counts

/// How many rows a block knows upper bounds of when it needs its first thresholds, at least: the nearest of each other block, and of its own lanes'.
inline constexpr std::int64_t few_bounds(std::int64_t tiles, std::int64_t multiprocessors) {
  const std::int64_t most = multiprocessors < few_blocks ? multiprocessors : few_blocks,
                     blocks = tiles < most ? tiles : most, own = 2 * few_pieces * (tiles / blocks);
  return blocks - 1 + (own < few_places ? own : few_places);
}

/// Why a query is left to the usual kernels.
enum FewFlag : unsigned { few_unfit = 1, few_odd = 2, few_full = 4, few_unproved = 8 };

/// A query as a block has prepared it.
struct FewQuery {
  QuantizedQuery quantized;
  double factor = 0;  // of its elements (RowMap)
  double self = 0;    // cosine and correlation
  bool fit = false;   // these kernels may take it
};

/// A query's part of the report, in memory that the host reads.
struct FewFacts {
  double verified_radius, largest;
  unsigned long long candidates;  // of all queries
  unsigned flags;
};

/// The state of a call, which its last block leaves as the next one needs it.
struct FewState {
  std::uint32_t* minima = nullptr;  // of each query and block: its least upper bound, as an ordered float
  std::uint32_t* radius = nullptr;  // of each query: the least key that something was excluded by, as an ordered float
  unsigned *counts = nullptr, *flags = nullptr;
  unsigned* ended = nullptr;                 // blocks
  double* largest = nullptr;                 // of each query
  unsigned long long* candidates = nullptr;  // of all queries
  std::uint64_t* words = nullptr;            // of each query few_words
};

struct Few {
  PreparedMatrix rows;
  const void* queries = nullptr;  // dense
  DType query_type = DType::f32;
  int count = 0;
  BoundModel model;
  DeviceTransform transform;
  Visits visits;
  double per_count = 1;  // 1 / visits.count
  int k = 0, blocks = 0;
  FewState state;
  std::int64_t first_id = 0;
  std::int64_t* ids = nullptr;
  float* distances = nullptr;
  FewFacts* facts = nullptr;
};

/// A candidate of a block.
struct FewPair {
  std::uint32_t row;
  int query;
};

inline constexpr std::uint32_t few_none = 0xffffffffu;

/// What a piece's rows have in common, and their terms: as in TileMetadata.
struct alignas(16) FewPieceFacts {
  float terms[few_piece_rows];
  double inverse;
  FilterNorms maxima;
  float step, e, n, quick_inverse;
};
static_assert(offsetof(TileMetadata, terms) == 0 &&
                  sizeof(TileMetadata) - offsetof(TileMetadata, inverse) ==
                      sizeof(FewPieceFacts) - offsetof(FewPieceFacts, inverse) &&
                  offsetof(TileMetadata, step) - offsetof(TileMetadata, inverse) ==
                      offsetof(FewPieceFacts, step) - offsetof(FewPieceFacts, inverse),
              "the end of a tile's metadata is copied");

/// What decides whether a piece's largest sum is below a threshold: as in FewPieceFacts.
struct FewLimits {
  float e, n, quick_inverse;
};
/// Pieces at the beginning of a block's share whose rows are tested when the first thresholds are there. groups: of eight queries.
VICINAL_HOST_DEVICE inline constexpr int few_first_pieces(int groups) { return few_largest / (8 * groups); }

/// What a block counts, and what its queries share.
struct alignas(16) FewCounters {
  unsigned found, reached, next;  // candidates; largest sums that reach a threshold; the piece to be taken
  unsigned last;                  // whether all other blocks have ended
  unsigned size;                  // the largest element of all queries, as the bits of a float
  float step;
  double inverse;  // 1 / unit of a tile of step 1
};

/// What a warp of the last block works in: a query's words, and its row of the result.
struct FewLast {
  std::uint64_t words[few_words], row[few_k];
};

/// Where each part of a block's shared memory begins, in bytes. In the end the last block has all but the counters for FewLast.
struct FewMemory {
  std::int64_t facts, lines, values, queries, coeffs, known, nearest, largest, limits, found, claimed, counters, all;
};
VICINAL_HOST_DEVICE inline constexpr FewMemory few_memory(int slab) {
  constexpr std::int64_t pieces = std::int64_t{few_warps} * few_stages;
  FewMemory m{};
  m.facts = pieces * few_piece_rows * slab;
  m.lines = m.facts + pieces * static_cast<std::int64_t>(sizeof(FewPieceFacts));
  m.values = m.lines + few_queries * slab;
  m.queries = m.values + few_queries * slab * 8;
  m.coeffs = m.queries + few_queries * static_cast<std::int64_t>(sizeof(FewQuery));
  m.known = m.coeffs + few_queries * static_cast<std::int64_t>(sizeof(ThresholdCoeffsF32));
  m.nearest = m.known + few_queries * 4;
  m.largest = m.nearest + std::int64_t{few_queries} * few_places * 8;
  m.limits = m.largest + std::int64_t{few_largest} * 4;
  m.found = m.limits + few_first_pieces(1) * static_cast<std::int64_t>(sizeof(FewLimits));
  m.claimed = m.found + few_found * static_cast<std::int64_t>(sizeof(FewPair));
  constexpr auto last = static_cast<std::int64_t>(few_warps * sizeof(FewLast) + few_queries * sizeof(FewFacts));
  m.counters = m.claimed + pieces * 4 > last ? m.claimed + pieces * 4 : last;
  m.all = m.counters + static_cast<std::int64_t>(sizeof(FewCounters));
  return m;
}
static_assert(few_memory(128).nearest % 16 == 0 && few_memory(64).nearest % 16 == 0 &&
              few_memory(128).counters % 16 == 0 && few_memory(64).counters % 16 == 0);
static_assert(few_memory(128).all <= 227 << 10);

}  // namespace vicinal::cuda
