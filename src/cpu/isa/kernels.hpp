// The kernels that an instruction set must provide, a table for floats and one for int8 (float_plain.cpp is the slow,
// obvious reference). Everything above this header is written once and never sees a vector register.
//
// Values: canonical sums (semantics C2) must have equal bits in every table. The filter's f32 products need not:
// their error is inside the bound (src/core/bound.hpp) for any order of summation that is a chain of at most
// `dims` fused multiply-adds per lane.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/metric.hpp"
#include "cpu/isa/complete.hpp"
#include "prepare/row_kernels.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cpu {

inline constexpr int panel_rows = 32;  // corpus rows side by side in a packed panel
inline constexpr int tile_panels = 8;  // panels that share one pair of bounds (e, n)
inline constexpr int tile_rows = panel_rows * tile_panels;
inline constexpr int max_query_lanes = 16;

/// A HitFn is called for one query and one panel when at least one row was not excluded. Bit
/// j of `rows` is row j of the panel; values[j] is the filter's t for it. May lower
/// thresholds[] of any query; the kernel reads thresholds again before each test.
template <class T>
using HitFn = void (*)(void* context, int query, int panel, std::uint32_t rows, const T* values);

/// One block of queries against one tile of rows. In floats:
///   acc(q, r) = sum over i of q_i r_i        (dot)     one fused multiply-add an element
///             = sum over i of |q_i - r_i|    (l1)
///             = max over i of |q_i - r_i|    (linf)
///   t = fma(multiplier, acc, row_term[r]);   hit iff NOT (t > thresholds[q])   (so a NaN is a hit)
/// The other side of the same sums, where column_thresholds is not
/// null (a graph: rows are queries too, queries are rows too):
///   u = fma(multiplier, acc, query_term[q]); hit iff NOT (u > column_thresholds[r])
/// In int8 (Int8Kernels) an element is a quad: four columns side by side in 32 bits, of rows u8 and of queries s8.
///   acc(q, r) = sum over i of q_i r_i, exact: callers see to it that no sum leaves 32 bits
///   t = acc + row_term[r];   hit iff NOT (t < thresholds[q])
///   u = acc + query_term[q]; hit iff NOT (u < column_thresholds[r])
/// Layouts, 64-byte aligned: queries [query_panels][dims][query_lanes], of int8 as QueryLayout says; rows
/// [row_panels][dims][panel_rows]. Absent queries and rows are zeros; their hits are dropped by the callee.
template <class T>
struct TileArgsOf {
  const T* queries;
  const T* rows;
  const T* row_term;    // [row_panels * panel_rows]
  const T* thresholds;  // [query_panels * query_lanes], changes while the kernel runs
  std::int64_t dims;    // elements of a row
  int query_panels;
  int row_panels;  // 1..tile_panels
  T multiplier;    // floats only
  T* partial;      // scratch: query_panels * query_lanes * panel_rows, for products split over dims
  HitFn<T> on_hit;
  void* context;
  const T* query_term = nullptr;         // [query_panels * query_lanes]
  const T* column_thresholds = nullptr;  // [row_panels * panel_rows], changes while the kernel runs
  HitFn<T> on_column_hit = nullptr;      // values[j] is u of row j
  int last_queries = 0;   // of the last panel, where a kernel may leave out the others; 0: it may be full
  bool rows_far = false;  // no cache holds all rows: few queries, which wait for them, ask for them ahead
  T* distances =
      nullptr;  // of one query alone: [row_panels * panel_rows], takes every t (of bytes: sum) in place of the test
};
using TileArgs = TileArgsOf<float>;
using TileFn = void (*)(const TileArgs&);
/// The t of whole panels, as TileArgs::distances takes them. Lowers least[j] to the t of row j + distance_groups * i, for
/// every i; a NaN lowers nothing.
inline constexpr int distance_groups = 2 * panel_rows;
using LowerGroupsFn = void (*)(const float* t, int panels, float* least);
/// Returns bit j where t[j] of a panel is a hit for the threshold: where NOT (t[j] > threshold).
using RowsWithinFn = std::uint32_t (*)(const float* t, float threshold);
using Int8TileArgs = TileArgsOf<std::int32_t>;
using Int8TileFn = void (*)(const Int8TileArgs&);

/// Where the sums of rows start: out[r] = at least -terms[r] *
/// inverse, whole, from -most to most; most where that is no number.
struct Int8BiasArgs {
  const float* terms;
  double inverse;
  double most;         // below 2^31
  std::int64_t count;  // whole panels
  std::int32_t* out;   // 64-byte aligned
};
using Int8BiasFn = void (*)(const Int8BiasArgs&);
/// What products say of the distances of rows, as product_distance has it (core/bound_groups.hpp): t[r] of the row's term
/// and of sums[r] - shift.
struct Int8DistanceArgs {
  const std::int32_t* sums;
  const float* terms;
  double unit, shift;
  std::int64_t count;  // whole panels
  float* t;            // 64-byte aligned, as sums
};
using Int8DistanceFn = void (*)(const Int8DistanceArgs&);

/// The sums that refine rows: out[i] is the sum over k of second_codes[k] T[k] + first_codes[k] L[k], exact, for row
/// index[i], whose bytes are 16 T + L. All 64-byte aligned, rows too, and filled up with zeros to stride.
struct SecondArgs {
  const std::int8_t* first_codes;
  const std::int8_t* second_codes;
  const std::uint8_t* rows;
  std::int64_t stride;
  const std::uint32_t* index;
  std::int64_t count;
  std::int32_t* out;
};
using SecondFn = void (*)(const SecondArgs&);

inline constexpr int dtype_count = 6;  // in the order of DType

/// One row for the filter: x'_i = (x_i - shift) * scale - centre_i in fp64, then xhat_i = float(x'_i).
/// Sums are plain fp64 in any order.
struct QuantizeArgs {
  const double* row;
  const double* centre;  // [dims]
  double shift, scale;
  std::int64_t dims;
  float* out;  // [dims]
};
struct RowFacts {
  double xx;     // sum x'^2
  double nn;     // sum xhat^2
  double ee;     // sum (x' - xhat)^2
  double e_abs;  // sum |x' - xhat|
  double e_max;  // max |x' - xhat|
  double n_abs;  // sum |xhat|
};
using QuantizeFn = RowFacts (*)(const QuantizeArgs&);

/// The same for int8: i = x' / step rounded to nearest and clamped to [-128, 127], xhat = step * i. Kernels that take it
/// are one a type of the row, so that no pass over rows is needed to widen them.
struct Int8QuantizeArgs {
  const void* row;  // [dims] adjacent elements of `dtype`
  DType dtype;
  const double* centre;  // [dims]
  double shift, scale;
  double step, inverse;  // inverse is 1 / step, or about that
  std::int64_t dims;
  std::int8_t* out;  // [dims]
};
struct Int8Facts {
  RowFacts facts;
  std::int64_t sum;  // of i
};
using Int8QuantizeFn = Int8Facts (*)(const Int8QuantizeArgs&);
/// The second-level code of each element, 16 T + L of a row and j of a query (core/bound_second.hpp): sums as
/// SecondQuantizationErrors has them.
struct SecondFacts {
  double coarse, fine;
  std::int64_t sum;  // of j
};
using SecondInt8Fn = SecondFacts (*)(const Int8QuantizeArgs&);
/// max |x'_i|, of the fields that say what x' is; NaN where one of them is not finite.
using LargestFn = double (*)(const Int8QuantizeArgs&);

/// `lanes` rows of dims floats (row i at from + i * stride) to [dims][lanes]; rows from `count` on are zeros.
using PackFn = void (*)(const float* from, std::int64_t stride, int count, int lanes, std::int64_t dims, float* to);
/// `count` rows of 4 * quads codes i to a panel of their quads, of i + 128: [quads][panel_rows]; rows from `count` on are
/// zeros.
using PackQuadsFn = void (*)(const std::int8_t* from, int count, std::int64_t quads, std::int32_t* to);

/// Differing bits of one packed query against rows as in CanonicalArgs.
struct HammingArgs {
  const std::uint8_t* query;
  const std::uint8_t* rows;
  std::int64_t row_stride;
  const std::uint32_t* index;
  std::int64_t count, dims;
  std::uint32_t* out;
};
using HammingFn = void (*)(const HammingArgs&);

/// One query against 32 rows of few columns, or 32 boxes, side by side: [width][panel_rows],
/// columns filled up with zeros to width. sums: canonical, of a box those of the nearest
/// point in it. Returns bit j where sums[j] is not greater than threshold_sum.
struct NearArgs {
  const double* query;  // [width]
  const double* low;    // the rows, or the least of each box
  const double* high;   // boxes only: the greatest
  double threshold_sum;
  double* sums;  // [panel_rows]
};
using NearFn = std::uint32_t (*)(const NearArgs&);
struct NearFns {
  NearFn squares, magnitudes, largest;
  /// Null for sums that a tree cannot bound.
  constexpr NearFn of(Sum sum) const noexcept {
    switch (bounded(sum)) {
      case BoundedSum::squares: return squares;
      case BoundedSum::magnitudes: return magnitudes;
      case BoundedSum::largest: return largest;
      case BoundedSum::products:
      case BoundedSum::none: break;
    }
    return nullptr;
  }
  consteval bool complete() const { return all_set(squares, magnitudes, largest); }
};
inline constexpr int near_widths[] = {2, 4, 8};

/// The nearest rows of a query so far, few enough to be kept in registers: (key, row) ascending, rows as the integers
/// that doubles hold exactly.
struct NearestFew {
  static constexpr int most = 16;
  static constexpr double no_row = 0x1p53;  // of an absent entry, whose key is infinite
  alignas(64) double keys[most], rows[most];
};
/// Puts `count` entries into the list, which keeps the first `most` of all.
struct InsertArgs {
  const double *keys, *rows;
  int count;
  NearestFew* nearest;
};
using InsertFn = void (*)(const InsertArgs&);
/// Returns bit j where sums[j] of [panel_rows], none of them NaN, is the least.
using LeastFn = std::uint32_t (*)(const double* sums);

struct Kernels {
  const char* name;     // "plain", "avx2", "avx512"
  bool (*supported)();  // this CPU and this system can run it
  bool fused;           // a product of the tile kernels rounds once an element, else twice
  int query_lanes;      // queries side by side in a packed panel, <= max_query_lanes
  TileFn tile_products, tile_magnitudes, tile_largest;
  LowerGroupsFn lower_groups;
  RowsWithinFn rows_within;
  CanonicalFn canonical[float_sums][dtype_count];    // of a query and rows
  CanonicalFn shifted_products[dtype_count];         // s = fma(q_i, r_i - shift, s)
  CanonicalFn self_product, shifted_squares, total;  // of rows of f64 alone: of r_i r_i, (r_i - shift)^2, r_i
  ConvertFn convert[dtype_count];
  QuantizeFn quantize;
  PackFn pack;
  PackQuadsFn pack_quads;
  HammingFn hamming;
  FiniteFn first_bad;
  Int8QuantizeFn quantize_int8[dtype_count];
  SecondInt8Fn second_row[dtype_count];
  SecondInt8Fn second_query;  // of f64 alone
  LargestFn largest[dtype_count];
  ProjectFn project;
  NearFns near_rows[3], near_boxes[3];  // in the order of near_widths
  InsertFn insert_nearest;
  LeastFn least_lanes;

  /// Tiles of the sum that a filter estimates; squares of differences come from products (core/bound.hpp).
  constexpr TileFn tile_of(Sum sum) const noexcept {
    switch (bounded(sum)) {
      case BoundedSum::squares:
      case BoundedSum::products: return tile_products;
      case BoundedSum::magnitudes: return tile_magnitudes;
      case BoundedSum::largest: return tile_largest;
      case BoundedSum::none: break;
    }
    return nullptr;
  }
  /// Whether every entry is there, and every metric of metric.def that has a filter has its tile: each table asserts
  /// it. A member that is added does not compile until it is named here.
  consteval bool complete() const {
    const auto& [called, runs, fma, lanes, products, magnitudes, largests, groups, within, sums, shifted, self, squares,
                 totals, conversions, rounding, packing, packing_quads, bits, bad, rounding_int8, row2, query2,
                 greatest, projection, rows, boxes, insertion, least] = *this;
    static_cast<void>(fma), static_cast<void>(lanes);
    bool tiles = true;
#define METRIC(metric, ...) \
  tiles &= filter_sum_of(Metric::metric) == Sum::none || tile_of(filter_sum_of(Metric::metric)) != nullptr;
#include "core/metric.def"
#undef METRIC
    return tiles && all_set(called, runs, products, magnitudes, largests, groups, within, sums, shifted, self, squares,
                            totals, conversions, rounding, packing, packing_quads, bits, bad, rounding_int8, row2,
                            query2, greatest, projection, rows, boxes, insertion, least);
  }
  Int8Facts round_to_int8(const Int8QuantizeArgs& a) const { return quantize_int8[static_cast<int>(a.dtype)](a); }
  SecondFacts second_of_row(const Int8QuantizeArgs& a) const { return second_row[static_cast<int>(a.dtype)](a); }
  double largest_of(const Int8QuantizeArgs& a) const { return largest[static_cast<int>(a.dtype)](a); }
  /// The kernels with which src/prepare reads rows.
  operator RowKernels() const noexcept {  // NOLINT(google-explicit-constructor): a table is one of row kernels, too
    return {convert, first_bad, self_product, shifted_squares, total, project};
  }
};

/// How the quads of a panel's queries lie: lane by lane, [quads][lanes], as their 4 bytes or as columns 0 and 2, then 1
/// and 3, of 16 bits each; or in blocks, [quads / block_quads][lanes][block_quads], filled up with zeros.
enum class QueryLayout : std::uint8_t { quads, halves, blocks };
inline constexpr std::int64_t block_quads = 16;
/// 32-bit words of a query.
constexpr std::int64_t query_width(QueryLayout layout, std::int64_t quads) noexcept {
  if (layout == QueryLayout::blocks) return (quads + block_quads - 1) / block_quads * block_quads;
  return layout == QueryLayout::halves ? 2 * quads : quads;
}
/// The first word of a quad of a query in its panel.
constexpr std::int64_t query_position(QueryLayout layout, std::int64_t lanes, std::int64_t query,
                                      std::int64_t quad) noexcept {
  if (layout == QueryLayout::blocks) return (quad / block_quads * lanes + query) * block_quads + quad % block_quads;
  return (quad * lanes + query) * query_width(layout, 1);
}

inline constexpr int state_lanes = 16;

/// One block of queries and one tile of rows, for a matching: what is kept is of each query the largest score of a
/// tile, of each row that of a block. The score of a pair, larger is nearer, is
///   (doubled ? 2 : 1) acc(q, r) + query_term[q] + row_term[r]
/// with acc as in an Int8TileArgs; callers see to it that none leaves 32 bits. What is kept goes on from call to call,
/// and starts from the least number.
struct GroupBestArgs {
  const std::int32_t* queries;     // [query_panels], as the layout of MatchKernel says
  const std::int32_t* rows;        // [row_panels][dims][panel_rows]
  const std::int32_t* query_term;  // [query_panels * query_lanes]
  const std::int32_t* row_term;    // [row_panels * panel_rows]
  std::int64_t dims;               // quads of a row
  int query_panels;
  int row_panels;  // 1..tile_panels
  bool doubled;
  std::int32_t tile, block;  // numbers of the tile of rows and of the block of queries
  // [query][state_lanes], of the rows that each lane saw: the largest score, that of all tiles but the first that had
  // it, that tile; and room for this tile's.
  std::int32_t *lane_best, *lane_others, *lane_tile, *tile_best;
  std::int32_t* row_best;    // [row_panels * panel_rows]: of the blocks so far
  std::int32_t* row_others;  // of all blocks so far but the one that had the best
  std::int32_t* row_block;   // the first block that had the best
};

/// A group of rows, `row_panels` panels, for one query, whose largest score with any of them is known.
struct BestOfGroupArgs {
  const std::int32_t* query;  // the first word of it in its panel
  const std::int32_t* rows;
  const std::int32_t* row_term;
  std::int64_t dims;
  int row_panels;
  bool doubled;
  std::int32_t query_term;
  std::int32_t score;
};
/// The first row that has the largest score, and the largest of the others.
struct BestOfGroup {
  std::int64_t row = -1;
  std::int32_t others = INT32_MIN;
};

/// A MatchKernel finds the best of both sides of a pair of images.
struct MatchKernel {
  int query_lanes;
  QueryLayout layout;
  void (*group_best)(const GroupBestArgs&);
  BestOfGroup (*best_of_group)(const BestOfGroupArgs&);
};

/// So few queries take as long as reading the rows, which instructions for whole panels do
/// slower than vectors. Measured on Granite Rapids, 10^6 x 128, 2026-11: one query 4.4 ms
/// by AMX and 3.0 by VNNI, two 5.3 and 4.8, three and more alike or faster by AMX.
inline constexpr std::int64_t few_int8_queries = 2;

/// The largest code of a query, and the largest magnitude of one where products of bytes are added by twos in 16 bits.
inline constexpr int most_code_of_bytes = 127, most_small_code = 64;

/// Tiles of int8. Queries of a panel are as many as in the Kernels beside
/// it, so that blocks are the same; those of a matching may be fewer.
struct Int8Kernels {
  const char* name;  // "plain", "avx2", "avxvnni", "avx512vnni", "avx512amx"
  bool (*supported)();
  int query_lanes;
  QueryLayout layout;
  Int8TileFn tile;
  Int8BiasFn biases;
  Int8DistanceFn distances;
  SecondFn second_sums;
  MatchKernel matching;
  const Int8Kernels* of_few = nullptr;  // what serves few_int8_queries and fewer in its place; null: itself
  int most_code = most_code_of_bytes;   // the largest magnitude of a query's code that its sums take

  const Int8Kernels* serving(std::int64_t queries) const noexcept {
    return of_few != nullptr && queries <= few_int8_queries ? of_few : this;
  }
  consteval bool complete() const {
    return all_set(name, supported, tile, biases, distances, second_sums, matching.group_best, matching.best_of_group);
  }
};

#define VECTORS(name, ...) extern const Kernels float_##name;
#define SET(vectors, name, gain) extern const Int8Kernels int8_##name;
#include "cpu/isa/sets.def"

}  // namespace vicinal::cpu
