// SearchArgs is what the kernels of a search of vectors are given: two matrices prepared alike, the facts of their bound, and the state of each
// query. Rows and queries are in positions: sorted by their largest element, so that the rows of a tile can share one step.
#pragma once
#include <cstdint>

#include "backend/search.hpp"
#include "core/bound.hpp"
#include "core/bound_groups.hpp"
#include "core/precision.hpp"

namespace vicinal::cuda {

inline constexpr int tile_rows = 128;                // rows or queries that share a step and a pair of maxima
inline constexpr int block_queries = 256;            // of a block of the filter
inline constexpr int groups_a_tile = 8;              // groups of 16 rows, whose nearest ones give a first threshold
inline constexpr std::int64_t most_shared_k = 2048;  // lists up to this are kept in shared memory
inline constexpr std::int64_t most_filtered_k = 1 << 15;
// Up to so many queries, neighbours and columns are a kernel's of their own (fused/search.cuh), from so many tiles on.
inline constexpr int fused_queries = 16;
inline constexpr std::int64_t fused_k = 64, fused_cols = 128, fused_tiles = 32;
inline constexpr bool has_fused_shape(std::int64_t queries, std::int64_t k, std::int64_t rows, std::int64_t cols) {
  return queries <= fused_queries && k >= 1 && k <= fused_k && cols <= fused_cols &&
         rows > (fused_tiles - 1) * tile_rows;
}

/// The swizzle of a slab: where a 16-byte chunk of a line is among the line's chunks, so that eight lines meet in no bank. Tensor cores read
/// them so.
VICINAL_HOST_DEVICE inline int swizzled_chunk(int slab, int line, int chunk) {
  return slab == 64 ? chunk ^ (line >> 1 & 3) : chunk ^ (line & 7);
}

/// RowChoice says which rows may answer, as RowFilter does, in memory of the device.
struct RowChoice {
  bool all = true, without_self = false, only_self = false;  // only_self: all but the row itself
  std::int64_t first_self = 0;                               // the row that query 0 is
  std::int64_t begin = 0, end = INT64_MAX;
  const std::uint64_t* bits = nullptr;
  bool labelled = false, same_label = false;
  const std::int64_t *row_labels = nullptr, *query_labels = nullptr;
};

/// Columns are read several at a time.
VICINAL_HOST_DEVICE inline std::int64_t centre_columns(std::int64_t dims) { return (dims + 127) / 128 * 128; }

/// The transform that makes filter rows of rows (prepare/transform.hpp).
struct DeviceTransform {
  const float* centre = nullptr;  // of columns, with zeros up to centre_columns()
  double scale = 1, integral = 0;
  float least_step = 0;
  double step = 0;  // of all rows and queries, where sums are of differences in int8
  bool usable = true;
  bool duplicates = false;  // many rows are equal (duplicates.cuh)
};

/// A query's quantization error and norms, its square and its scale.
struct QuantizedQuery {
  FilterNorms norms;
  double square = 0, scale = 1;
  bool filterable = true;
};

inline constexpr int group_rows = 16;
inline constexpr std::int64_t most_grouped_width =
    1024;  // bytes of a row whose groups may be tested: its sums are floats, too
static_assert(most_grouped_width * 128 * 128 <= 1 << 24);
/// Whether kernels test groups of rows for so many queries of so many columns: for few of longer rows their warpgroups would have no queries.
VICINAL_HOST_DEVICE constexpr bool tests_groups(std::int64_t queries, std::int64_t dims) {
  return dims <= most_grouped_width && (dims <= 128 || queries > tile_rows);
}
static_assert(group_rows * groups_a_tile == tile_rows);
/// Row `i` of a group, within the tile: the rows of which a thread of a warpgroup has the sums.
VICINAL_HOST_DEVICE inline constexpr int row_of_group(int group, int i) {
  return group / 4 * 64 + i / 2 * 8 + group % 4 * 2 + i % 2;
}
/// A thread has the sums of two groups of a tile, one a half, which share a threshold: the 32 rows of a pair.
inline constexpr int pairs_a_tile = groups_a_tile / 2, rows_a_pair = 2 * group_rows;
VICINAL_HOST_DEVICE inline constexpr int row_of_pair(int pair, int i) {
  return row_of_group(pair + i / group_rows * pairs_a_tile, i % group_rows);
}
VICINAL_HOST_DEVICE inline constexpr int pair_of_row(int row) { return row % 8 / 2; }

/// What a tile's rows have in common, and what the filter adds for each of them; it travels with the tile.
struct alignas(16) TileMetadata {
  float terms[tile_rows];
  GroupNorms pairs[pairs_a_tile];
  double inverse;  // 1 / step
  FilterNorms maxima;
  float step, e, n, quick_inverse;  // e, n: the maxima, rounded up
};

/// Rows or queries in the filter's form. Its arrays but `order` and those that say position are by row.
struct PreparedMatrix {
  const void* rows = nullptr;  // dense, of `dtype`
  DType dtype = DType::f32;
  std::int64_t count = 0, dims = 0, width = 0;  // width: filter_width
  double *self = nullptr, *mean = nullptr;      // cosine and correlation
  float* sizes = nullptr;                       // largest element of the filter row
  std::uint32_t* order = nullptr;               // row of a position
  std::int8_t* bytes = nullptr;                 // of positions, `width` each, whole tiles
  TileMetadata* tile_metadata = nullptr;
  unsigned long long* largest = nullptr;  // bits of the largest e and n of all tiles
  double* scales = nullptr;               // queries: of inner products
  std::uint8_t* filterable = nullptr;     // queries
  QuantizedQuery* quantized = nullptr;    // queries: of positions
  double* values = nullptr;               // queries: fp64, without their mean for correlation
  // Queries in two bytes a column (core/bound_two_bytes.hpp), by position: the second bytes as the first ones lie, and what is known of both. Null
  // where nothing is refined.
  std::int8_t* second_bytes = nullptr;
  QuantizedQuery* two_bytes = nullptr;

  VICINAL_HOST_DEVICE std::int64_t tiles() const { return (count + tile_rows - 1) / tile_rows; }
};

/// A slot holds a row that passed the filter: its position, and t, at most the filter's distance of it.
struct Slot {
  std::uint32_t position;
  float t;
};

/// A candidate is a row that passed, with its query, both by position, and the filter's sum, before it is scattered to a slot.
struct alignas(16) Candidate {
  std::uint32_t query, position;
  int sum;
  unsigned product;  // 1: it is a row of a group, and the sum bounds the product alone, without the row's bias
};

/// Low bits of products that candidates of groups go without, of rows of so many bytes: the 16 that are left have the sign, too, and are enough to tell
/// rows apart.
VICINAL_HOST_DEVICE inline constexpr int lost_product_bits(std::int64_t width) {
  return width < 512 ? 8 : width < 1024 ? 9 : 10;
}
static_assert(
    [] {
      for (std::int64_t width = 64; width <= most_grouped_width; width += 64)
        if (width * 128 * 128 >> lost_product_bits(width) >= 1 << 15) return false;  // of bytes that all are -128
      return true;
    }(),
    "16 bits hold what is left of a product");

/// A group of rows, of which some passed, with their query: `position` is the first row's.
struct alignas(16) GroupCandidate {
  std::uint32_t query, position;
  int most, threshold;  // the largest product; rows from the threshold on passed
  std::uint32_t
      products[8];  // without their low bits, of rows row_of_group(g, 2 * i) and, in the upper half, (g, 2 * i + 1)

  VICINAL_HOST_DEVICE int high_bits(int i) const {
    return static_cast<std::int16_t>(products[i / 2] >> (i % 2 * 16) & 0xffff);
  }
  /// A bit for each row of the group that may have passed: all that did, and those that only lost bits tell from them.
  VICINAL_HOST_DEVICE unsigned passed(int lost) const {
    const int least = threshold >> lost;
    unsigned rows = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < group_rows; ++i) rows |= (high_bits(i) >= least ? 1u : 0u) << i;
    return rows;
  }
  /// At least the product of row i, and more by the lost bits at most.
  VICINAL_HOST_DEVICE int product_bound(int i, int lost) const {
    const int bound = (high_bits(i) + 1) * (1 << lost) - 1;
    return bound < most ? bound : most;
  }
  VICINAL_HOST_DEVICE std::uint32_t position_of(int i) const {
    return position + static_cast<std::uint32_t>(row_of_group(0, i));
  }
};

/// A query's state, by position.
struct QueryState {
  ThresholdCoeffs coeffs;              // what the filter excludes
  double threshold_filter = infinite;  // the filter distance beyond which a row is no neighbour
  double threshold_key = infinite;     // the same as a folded key
  std::uint32_t best = 0;              // entries of its list
  bool given_up =
      false;  // nothing passes for it any more: it has no filter form, a row found no slot or would find none, or its batch is left to proof
  bool infinite_key = false;  // on the canonical precision: a row that may answer has an infinite key
};

/// What kernels count.
struct Counters {
  unsigned long long passed, ranked, underflowed;
  unsigned infinite_keys, nearest_infinite;  // entries of lists; those that no other is nearer than
  unsigned undefined_keys;
  unsigned long long first_undefined;   // row of the corpus
  unsigned bad_rows, bad_queries;       // that the contract refuses
  unsigned long long given_up, missed;  // queries; missed: that are searched again
  unsigned long long largest_error;     // of the others, as the bits of a number that is not negative
  unsigned long long finished;          // blocks of the launch that tells the host of these; it begins again by itself
};

/// Tiles are visited in the order i * step % count (core/visit_order.hpp), so that any part of it is a sample.
struct Visits {
  std::int64_t count = 1, step = 1;
  VICINAL_HOST_DEVICE std::int64_t at(std::int64_t i) const {
    return static_cast<std::int64_t>(static_cast<unsigned long long>(i) * static_cast<unsigned long long>(step) %
                                     static_cast<unsigned long long>(count));
  }
  VICINAL_HOST_DEVICE std::int64_t after(std::int64_t position) const {
    return position + step < count ? position + step : position + step - count;
  }
};

/// The arguments of one search over one chunk of the corpus.
struct SearchArgs {
  PreparedMatrix rows, queries;
  BoundModel model;
  bool floats = false;  // sums are codes of distances in float (float_mma.cuh)
  RowChoice choice;
  std::int64_t first_query = 0;              // of the batch, as the caller counts them
  const std::int64_t* query_rows = nullptr;  // of each, or null: they are adjacent
  std::int64_t first_row = 0;                // of the chunk in the corpus
  std::int64_t k = 0;
  Visits visits;
  QueryState* states = nullptr;
  Slot* slots = nullptr;
  std::uint32_t* counts = nullptr;  // of slots used, and beyond their number
  std::int64_t capacity = 0;        // slots a query
  void* best = nullptr;             // k words a query, the first QueryState::best of them sorted
  Counters* counters = nullptr;

  /// As the caller counts it.
  VICINAL_HOST_DEVICE std::int64_t number_of(std::int64_t query) const {
    return query_rows != nullptr ? query_rows[query] : first_query + query;
  }
};

}  // namespace vicinal::cuda
