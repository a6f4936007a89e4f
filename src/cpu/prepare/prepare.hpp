// PREPARE: rows checked, centred, scaled, rounded to floats or int8 and packed into panels, with everything that the
// proof needs measured on the way. Floats take one pass over the rows, about two cycles an element; int8 two, because
// rows are first sorted by their largest element, so that those of a tile can share one step (int8.cpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/search.hpp"
#include "core/bound_second.hpp"
#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/kd_tree/kd_tree.hpp"
#include "cpu/prepare/per_thread.hpp"
#include "cpu/prepare/precision.hpp"
#include "prepare/transform.hpp"

namespace vicinal::cpu {

/// Self products for cosine and correlation, canonical. A degenerate row has degenerate_self.
struct Norms {
  Buffer<double> self;  // row . row, of the shifted row for correlation
  Buffer<double> mean;  // correlation only
};

/// Squared distances of integral rows within a byte are floats in so many columns.
constexpr std::int64_t most_integral_dims = 258;
static_assert(most_integral_dims * 255 * 255 < 1 << 24, "integers that floats hold");

/// The second-level codes of the rows (core/bound_second.hpp), in the order of the packed rows, each row filled up with
/// zeros to whole lines of the cache.
struct SecondCode {
  Buffer<std::uint8_t> bytes;
  Buffer<float> terms;             // second_term of each row
  std::vector<SecondNorms> tiles;  // maxima over each tile

  bool present() const noexcept { return !tiles.empty(); }
  static std::int64_t stride(std::int64_t dims) noexcept { return (dims + 63) / 64 * 64; }
};

/// A chunk of the corpus. Panels are [panel][elements][panel_rows]; tiles of tile_rows share one pair of bounds, and of
/// bytes one step. Rows of int8 are not in their order: order[position] is the row of the chunk there.
struct PackedRows {
  std::int64_t first = 0, count = 0;
  Buffer<float> panels;
  Buffer<std::int32_t> quads;  // int8: panels of four columns, i + 128
  Buffer<std::uint32_t> order;
  std::vector<float> steps;        // int8: of each tile
  Buffer<std::int32_t> squares;    // int8: of rows that are integral
  bool integral = false;           // int8: all rows are integers, and their distances are exact
  SecondCode second;               // int8: where the plan asks for them and rows are not integral
  KdTree kd_tree;                  // of few columns, on the canonical precision
  Buffer<std::int32_t> bits;       // of packed bits where they are kept, as cpu/bits/panels.hpp has them
  Buffer<float> terms;             // row_term of each row
  std::vector<FilterNorms> tiles;  // maxima over each tile
  Norms norms;
  Precision precision = Precision::canonical;  // canonical: only checked (and norms taken, or put into a k-d tree)

  std::int64_t tile_count() const noexcept { return divide_up(count, tile_rows); }
  bool ordered() const noexcept { return in_codes(precision); }
  std::uint32_t row_at(std::uint32_t position) const noexcept { return ordered() ? order[position] : position; }
  /// Bytes that a chunk of `rows` needs.
  static std::int64_t bytes(std::int64_t rows, std::int64_t dims, Metric metric, Precision precision,
                            const Techniques& techniques) noexcept;
};

/// PrepareScratch holds what one thread prepares with: an fp64 row, a gathered row, a panel of float rows, a row of
/// int8; for a transform that rotates also a rotated row and a centre of zeros, for one that projects a tile of such rows.
struct PrepareScratch {
  explicit PrepareScratch(std::int64_t dims);
  /// [count] zeros.
  const double* centre_of_zeros(std::int64_t count);
  static std::int64_t bytes(std::int64_t dims) noexcept;
  /// A panel of rows as bytes, 4 * quads of at most dims columns each. It is the memory of `floats`, whose rows have as many
  /// bytes or more, when nothing is rounded to floats.
  std::int8_t* codes() noexcept { return reinterpret_cast<std::int8_t*>(floats.data()); }
  Buffer<double> row, gathered, rotated, projected, zeros;
  Buffer<float> floats;
  Buffer<std::int8_t> narrow;  // filled up to quads with zeros
};
inline PerThread<PrepareScratch> prepare_scratches(const ThreadPool& thread_pool, std::int64_t dims) {
  return {thread_pool, [dims] { return std::make_unique<PrepareScratch>(dims); }};
}

/// Puts a row and its self product into the scratch and `product`; false when the contract refuses it.
bool load_checked(const Kernels& kernels, const SearchSpec& spec, const Points& points, std::int64_t row,
                  PrepareScratch& scratch, SelfProduct& product);
inline QuantizationErrors quantization_errors(const RowFacts& f) noexcept {
  return {f.xx, f.nn, f.ee, f.e_abs, f.e_max, f.n_abs};
}
template <class T>
void grow(Buffer<T>& buffer, std::int64_t count) {
  if (buffer.size() < count) buffer = Buffer<T>(count);
}
/// Whether the int8 kernels read elements as they lie in memory: nothing mixes the columns of a row.
inline bool reads_elements(const Transform& transform) noexcept {
  return !transform.rotation.present() && !transform.projection.present();
}
/// Describes a row to the int8 kernels whose elements lie there; reads_elements must hold.
Int8QuantizeArgs int8_args_of_elements(const Transform& transform, const Affine& map, const void* row, DType dtype,
                                       float step, void* out) noexcept;
/// The row in the scratch as the int8 kernels read it; of a rotated transform it is rotated here.
Int8QuantizeArgs int8_args(const Transform& transform, const Affine& map, float step, PrepareScratch& scratch,
                           void* out);
/// The step of rows whose largest element is `size`; int8.cpp.
float int8_step(const Transform& transform, float size, int most_code = most_code_of_bytes) noexcept;

/// PackArgs says in which form rows and queries are packed.
struct PackArgs {
  const Kernels& kernels;
  const SearchSpec& spec;
  Precision precision = Precision::canonical;
  const BoundModel* model = nullptr;  // null on the canonical precision, as the next
  const Transform* transform = nullptr;
  Techniques techniques = {};
};

/// Fills `out` (reusing its memory when it fits) with rows [first, first + count) of the
/// corpus. On the canonical precision rows whose columns are few are put into a k-d tree
/// if so asked. Throws InvalidValue or RangeError that names the rows (check.hpp).
void prepare_rows(const PackArgs& args, std::int64_t first, std::int64_t count, ThreadPool& thread_pool,
                  PackedRows& out);
/// The second pass of int8, over rows whose largest elements are `sizes`; int8.cpp.
void pack_int8(const PackArgs& args, const Buffer<float>& sizes, ThreadPool& thread_pool, PackedRows& out);

/// QueryFacts describes one query to every stage.
struct QueryFacts {
  FilterNorms norms;        // filter units
  double square = 0;        // |xhat|^2
  double scale = 1;         // its own power of two (inner product), else the corpus's
  double self = 0;          // canonical q.q (cosine, correlation), or degenerate_self
  double mean = 0;          // correlation
  double shift = 0;         // int8: 128 times the sum of its elements
  SecondNorms second = {};  // int8, for refinement, as the next
  double second_shift = 0;
  bool filterable = true;
  bool integral = false;  // int8: the query is rounded to exactly what it is
};

/// A batch of queries, packed in blocks of `block` queries: panels [block][panel][elements][lanes], the last panel of a
/// block filled up with zeros.
struct PackedQueries {
  std::int64_t count = 0, block = 0, block_panels = 0, lanes = 1;
  Buffer<float> panels;
  Buffer<std::int32_t> quads;  // bytes, as Int8Kernels::layout says
  std::vector<float> steps;    // int8: of each panel
  // int8: position of each query among those that were to be packed; empty: its own number.
  std::vector<std::int64_t> order;
  Buffer<double> projected;  // [count][columns], of a transform that projects, until they are rounded
  // For refinement: of each query first the int8 codes, then the quantization errors, each SecondCode::stride bytes.
  Buffer<std::int8_t> second;
  std::vector<QueryFacts> facts;

  std::int64_t block_count() const noexcept { return divide_up(count, block); }
  std::int64_t given(std::int64_t query) const noexcept {
    return order.empty() ? query : order[static_cast<std::size_t>(query)];
  }
  /// The queries of panel `panel` of all blocks.
  struct Part {
    std::int64_t begin, used;
  };
  Part part(std::int64_t panel) const noexcept {
    const std::int64_t first = panel / block_panels * block, begin = first + panel % block_panels * lanes;
    return {begin, std::clamp<std::int64_t>(std::min(count, first + block) - begin, 0, lanes)};
  }
  /// Elements of a block; `width` of a query: dims, or query_width.
  std::int64_t block_size(std::int64_t width) const noexcept { return block_panels * lanes * width; }
};
/// QueriesToPack are rows `rows` of `points`, in blocks of `block`.
struct QueriesToPack {
  const Points& points;
  std::span<const std::int64_t> rows;
  std::int64_t block;
  const Int8Kernels* int8 = nullptr;  // on the int8 precision
  // The step of each block, where all queries are packed because they are rows as well; else int8 packs them in the
  // order of their largest elements, and neighbouring panels share a step.
  const std::vector<float>* steps = nullptr;
};
/// PackArgs::techniques: whether rows will be refined. Throws as prepare_rows, naming query rows.
void prepare_queries(const PackArgs& args, const QueriesToPack& queries, ThreadPool& thread_pool, PackedQueries& out);
/// One panel of queries whose facts are known but for what rounding says; int8.cpp.
void pack_query_int8(const PackArgs& args, const QueriesToPack& queries, std::int64_t panel, PrepareScratch& scratch,
                     PackedQueries& out);

}  // namespace vicinal::cpu
