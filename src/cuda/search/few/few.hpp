// What the kernel for a few queries of a kept corpus is given, and how it divides a block's shared memory (search.cuh). A launch takes as long as
// what it does for one query, so one kernel prepares the queries, filters all rows, ranks what passes and merges.
#pragma once
#include <cstddef>

#include "cuda/search/core/args.hpp"
#include "cuda/search/filter/filter.cuh"

namespace vicinal::cuda {

inline constexpr int few_block_threads = 384, few_warps = few_block_threads / 32;
inline constexpr int few_piece_rows = 32,
                     few_pieces = tile_rows / few_piece_rows;  // rows that a warp takes at a time, pieces of a tile
inline constexpr int few_stages = 3;                           // pieces of a warp that are on their way or used
inline constexpr int few_found = 3072;                         // candidates of a block
inline constexpr int few_words = 1024;                         // of a query's list, from all blocks
inline constexpr int few_blocks = 160;                         // at most
inline constexpr int few_places = few_warps * 8;               // lanes of a block that see different rows

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
  unsigned flags, none;
  unsigned long long passed, ranked;  // of all queries
};

/// The state of a call, which its last block leaves as the next one needs it.
struct FewState {
  std::uint32_t* minima = nullptr;  // of each query and block: its least upper bound, as an ordered float
  std::uint32_t* radius = nullptr;  // of each query: the least key that something was excluded by, as an ordered float
  unsigned *counts = nullptr, *flags = nullptr;
  unsigned* ended = nullptr;             // blocks
  double* largest = nullptr;             // of each query
  unsigned long long* totals = nullptr;  // candidates, rows that were ranked
  std::uint64_t* words = nullptr;        // of each query few_words
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

/// A candidate of a block: a row's position, and its sum with its bias.
struct FewCandidate {
  std::uint32_t position;
  int query, sum;
};
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

/// What a block counts, and what its queries share.
struct alignas(16) FewCounters {
  unsigned found, pairs, next;  // next: piece to be taken
  unsigned last;                // whether all other blocks have ended
  unsigned size;                // the largest element of all queries, as the bits of a float
  float step;
  double inverse;  // 1 / unit of a tile of step 1
};

/// Where each part of a block's shared memory begins, in bytes. Pieces come first, and where they were, pairs; in the last block all is words.
struct FewMemory {
  std::int64_t facts, lines, values, queries, coeffs, known, nearest, found, claimed, counters, all;
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
  m.found = m.nearest + std::int64_t{few_queries} * few_places * 8;
  m.claimed = m.found + few_found * static_cast<std::int64_t>(sizeof(FewCandidate));
  m.counters = m.claimed + pieces * 4;
  m.all = m.counters + static_cast<std::int64_t>(sizeof(FewCounters));
  return m;
}
static_assert(few_memory(128).nearest % 16 == 0 && few_memory(64).nearest % 16 == 0 &&
              few_memory(128).counters % 16 == 0 && few_memory(64).counters % 16 == 0);
static_assert(few_found * sizeof(FewPair) <= static_cast<std::size_t>(few_memory(64).facts),
              "pairs lie where the pieces were");
static_assert(std::int64_t{few_warps} * few_words * 8 <= few_memory(64).counters, "a warp's words leave the counters");
static_assert(few_memory(128).all <= 227 << 10);

}  // namespace vicinal::cuda
