// PREPARE, for the int8 precision: rows in the order of their largest elements, so that the rows of a tile can share
// one step without losing digits; codes, quantization errors and terms of each; panels of quads. Rotated rows are
// rotated anew in each pass, which takes less memory than keeping them; projected rows are projected in the second, a
// tile at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/canonical.hpp"
#include "core/divide.hpp"
#include "cpu/isa/vector_macros.hpp"
#include "cpu/prepare/order.hpp"
#include "cpu/prepare/prepare.hpp"
#include "cpu/prepare/projected.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr float least_step = 0x1p-80F;  // an element below it is as good as zero: elements are about 1
constexpr std::int64_t rows_ahead = 8, most_bytes_ahead = 4096;

/// Rows that are read in the order of their sizes lie anywhere: it asks the memory for one before its turn comes.
/// Inline, since GCC drops calls of a function that does nothing else.
VICINAL_INLINE void fetch_row(const Points& points, std::int64_t row) noexcept {
  if (points.col_stride != static_cast<std::int64_t>(dtype_size(points.dtype))) return;
  const auto* at = static_cast<const std::byte*>(row_address(points, row));
  const std::int64_t bytes = std::min(points.cols * points.col_stride, most_bytes_ahead);
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

/// Four columns as they lie in the row.
std::int32_t quad_at(const std::int8_t* row, std::int64_t quad) noexcept {
  std::int32_t four;
  std::memcpy(&four, row + 4 * quad, 4);
  return four;
}

/// The codes of the row are what it is, if its elements are whole.
bool is_exact(const Transform& transform, float step, const Int8Facts& facts) noexcept {
  return transform.integral_step > 0 && static_cast<double>(step) == transform.integral_step && facts.facts.ee == 0;
}
bool is_whole(const double* row, std::int64_t dims) noexcept {
  constexpr double to_whole = 0x1.8p52;
  bool whole = true;
  for (std::int64_t j = 0; j < dims; ++j) whole &= row[j] + to_whole - to_whole == row[j];
  return whole;
}

/// The step of a query is such that its codes fit; sums that overflow would say what is not true.
bool codes_fit(const std::int8_t* codes, std::int64_t count, int most) noexcept {
  if (most >= most_code_of_bytes) return true;
  int largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(int{codes[i]}));
  return largest <= most;
}

SecondNorms second_norms_of(const BoundModel& model, const Int8Facts& first, const SecondFacts& second) {
  return second_norms(model, {.xx = first.facts.xx, .coarse = second.coarse, .fine = second.fine});
}

SelfProduct known_product(const SearchSpec& spec, const Norms& norms, std::int64_t row) {
  SelfProduct product;
  if (needs_norms(spec.metric)) product.self = norms.self[row];
  if (spec.metric == Metric::correlation) product.mean = norms.mean[row];
  return product;
}

/// A RowPacker makes bytes of the rows of a chunk, in their order, a tile at a time; tiles may be packed side by side.
class RowPacker {
 public:
  /// out: ordered, with room for all.
  RowPacker(const PackArgs& args, const Buffer<float>& sizes, PackedRows& out)
      : args_(args), spec_(args.spec), model_(*args.model), transform_(*args.transform), sizes_(sizes), out_(out),
        quads_(quads_of(model_.columns)), stride_(SecondCode::stride(model_.columns)),
        second_(!out.second.tiles.empty()), direct_(reads_elements(transform_)),
        integers_(holds_bytes(spec_.corpus.dtype)),
        may_be_integral_(transform_.integral_step > 0 && model_.dims <= most_integral_dims),
        integral_(may_be_integral_) {}

  /// Makes bytes of the rows of one tile. It polls after each panel.
  void pack_tile(std::int64_t tile, PrepareScratch& scratch, ThreadPool& polls);
  /// All rows are whole numbers, and their codes are what they are.
  bool integral() const noexcept { return integral_; }
  /// A row was not finite. All were, when their sizes were taken, but another thread may have changed one.
  bool unfit() const noexcept { return unfit_; }

 private:
  struct Maxima {
    FilterNorms first;
    SecondNorms second;
  };
  std::int64_t row_at(std::int64_t at) const noexcept { return out_.first + out_.order[at]; }
  /// Asks for the row that comes some positions later. Inline, as fetch_row.
  VICINAL_INLINE void fetch_ahead(std::int64_t at) const noexcept {
    if (at + rows_ahead < out_.count) fetch_row(spec_.corpus, row_at(at + rows_ahead));
  }
  void load(std::int64_t at, PrepareScratch& scratch) const {
    load_row(args_.kernels, spec_.corpus, row_at(at), scratch.gathered.data(), scratch.row.data());
  }
  float project_tile(std::int64_t begin, std::int64_t end, PrepareScratch& scratch);
  Int8QuantizeArgs args_of_row(std::int64_t at, const SelfProduct& product, float step, PrepareScratch& scratch,
                               std::int8_t* to) const;
  void pack_row(std::int64_t at, float step, PrepareScratch& scratch, std::int8_t* codes, Maxima& maxima);
  bool is_integral(std::int64_t at, float step, const Int8Facts& facts, PrepareScratch& scratch) const;

  const PackArgs& args_;
  const SearchSpec& spec_;
  const BoundModel& model_;
  const Transform& transform_;
  const Buffer<float>& sizes_;
  PackedRows& out_;
  const std::int64_t quads_, stride_;
  const bool second_, direct_, integers_, may_be_integral_;
  std::atomic<bool> integral_, unfit_{false};
};

/// It projects rows [begin, end) of the order into the scratch and returns their largest element.
float RowPacker::project_tile(std::int64_t begin, std::int64_t end, PrepareScratch& scratch) {
  const std::int64_t columns = model_.columns;
  grow(scratch.projected, tile_rows * columns);
  RowProjector projector(args_.kernels, transform_, scratch.projected.data());
  for (std::int64_t at = begin; at < end; ++at) {
    fetch_ahead(at);
    load(at, scratch);
    if (args_.kernels.first_bad(scratch.row.data(), model_.dims) >= 0) unfit_ = true;
    projector.add(affine(spec_.metric, known_product(spec_, out_.norms, out_.order[at]), transform_.scale),
                  scratch.row.data());
  }
  projector.flush();
  float size = 0;
  for (std::int64_t i = 0; i < end - begin; ++i)
    size = std::max(size, size_of(args_.kernels, int8_args_of(scratch.projected.data() + i * columns,
                                                              scratch.centre_of_zeros(columns), columns, 1, nullptr)));
  return size;
}

/// It describes the row at a position of the order to the int8 kernels; a projected tile is in the scratch.
Int8QuantizeArgs RowPacker::args_of_row(std::int64_t at, const SelfProduct& product, float step,
                                        PrepareScratch& scratch, std::int8_t* to) const {
  const std::int64_t columns = transform_.columns();
  if (transform_.projection.present())
    return int8_args_of(scratch.projected.data() + at % tile_rows * columns, scratch.centre_of_zeros(columns), columns,
                        step, to);
  fetch_ahead(at);
  const Affine map = affine(spec_.metric, product, transform_.scale);
  if (direct_)
    return int8_args_of_elements(transform_, map, elements_of_row(spec_.corpus, row_at(at), scratch.gathered.data()),
                                 spec_.corpus.dtype, step, to);
  load(at, scratch);
  return int8_args(transform_, map, step, scratch, to);
}

bool RowPacker::is_integral(std::int64_t at, float step, const Int8Facts& facts, PrepareScratch& scratch) const {
  if (!is_exact(transform_, step, facts)) return false;
  if (integers_) return true;
  if (direct_) load(at, scratch);
  return is_whole(scratch.row.data(), model_.dims);
}

void RowPacker::pack_row(std::int64_t at, float step, PrepareScratch& scratch, std::int8_t* codes, Maxima& maxima) {
  const Kernels& kernels = args_.kernels;
  const SelfProduct product = known_product(spec_, out_.norms, out_.order[at]);
  Int8QuantizeArgs row_args = args_of_row(at, product, step, scratch, codes);
  const Int8Facts facts = kernels.round_to_int8(row_args);
  std::fill(codes + model_.columns, codes + 4 * quads_, std::int8_t{0});
  // A row that is fine becomes no number, and so always a candidate, where a rotation adds what left fp64 at both ends.
  if (std::isnan(facts.facts.xx)) {
    if (direct_) load(at, scratch);
    if (kernels.first_bad(scratch.row.data(), model_.dims) >= 0) unfit_ = true;
  }
  const QuantizationErrors sums = quantization_errors(facts.facts);
  const FilterNorms norms = filter_norms(model_, sums);
  const float term = is_degenerate_self(product.self) ? never_excluded : row_term(model_, sums, norms);
  out_.terms[at] = term;
  if (!std::isinf(term)) take_maxima(maxima.first, norms);
  if (second_) {
    std::uint8_t* const bytes = out_.second.bytes.data() + at * stride_;
    row_args.out = reinterpret_cast<std::int8_t*>(bytes);
    const SecondNorms finer = second_norms_of(model_, facts, kernels.second_of_row(row_args));
    std::fill(bytes + model_.columns, bytes + stride_, std::uint8_t{0});
    out_.second.terms[at] = second_term(model_, finer, term);
    if (!std::isinf(term)) take_maxima(maxima.second, finer);
  }
  if (!may_be_integral_) return;
  const bool integral = is_integral(at, step, facts, scratch);
  if (!integral) integral_ = false;
  const double square_of_step = transform_.integral_step * transform_.integral_step;
  out_.squares[at] =
      integral ? static_cast<std::int32_t>(facts.facts.nn / square_of_step) : 0;  // of others it may leave 32 bits
}

void RowPacker::pack_tile(std::int64_t tile, PrepareScratch& scratch, ThreadPool& polls) {
  const std::int64_t begin = tile * tile_rows, end = std::min(out_.count, begin + tile_rows);
  float size = 0;
  if (transform_.projection.present()) size = project_tile(begin, end, scratch);
  else
    for (std::int64_t at = begin; at < end; ++at) size = std::max(size, sizes_[out_.order[at]]);
  const float step = int8_step(transform_, size);
  Maxima maxima;
  for (std::int64_t first = begin; first < end; first += panel_rows) {
    const std::int64_t rows = std::min<std::int64_t>(panel_rows, end - first);
    for (std::int64_t i = 0; i < rows; ++i)
      pack_row(first + i, step, scratch, scratch.codes() + i * 4 * quads_, maxima);
    std::fill(out_.terms.data() + first + rows, out_.terms.data() + first + panel_rows, 0.0F);
    if (may_be_integral_) std::fill(out_.squares.data() + first + rows, out_.squares.data() + first + panel_rows, 0);
    args_.kernels.pack_quads(scratch.codes(), static_cast<int>(rows), quads_, out_.quads.data() + first * quads_);
    polls.poll(0);
  }
  out_.steps[static_cast<std::size_t>(tile)] = step;
  out_.tiles[static_cast<std::size_t>(tile)] = maxima.first;
  if (second_) out_.second.tiles[static_cast<std::size_t>(tile)] = maxima.second;
}

}  // namespace

Int8QuantizeArgs int8_args_of_elements(const Transform& transform, const Affine& map, const void* row, DType dtype,
                                       float step, void* out) noexcept {
  const auto wide = static_cast<double>(step);
  return {.row = row,
          .dtype = dtype,
          .centre = transform.centre.data(),
          .shift = map.shift,
          .scale = map.factor,
          .step = wide,
          .inverse = 1 / wide,
          .dims = transform.centre.size(),
          .out = static_cast<std::int8_t*>(out)};
}

Int8QuantizeArgs int8_args(const Transform& transform, const Affine& map, float step, PrepareScratch& scratch,
                           void* out) {
  const std::int64_t dims = transform.centre.size();
  if (!transform.rotation.present())
    return int8_args_of_elements(transform, map, scratch.row.data(), DType::f64, step, out);
  if (scratch.rotated.size() < dims) scratch.rotated = Buffer<double>(dims);
  double* const rotated = scratch.rotated.data();
  move_row(transform, map, scratch.row.data(), rotated);
  transform.rotation.apply(rotated);
  return int8_args_of(rotated, scratch.centre_of_zeros(dims), dims, static_cast<double>(step), out);
}

float int8_step(const Transform& transform, float size, int most_code) noexcept {
  // Integers within a byte are what they are; -128 is one of them.
  if (transform.integral_step > 0 && static_cast<double>(size) <= transform.integral_step * 128 * (1 + 0x1p-20))
    return static_cast<float>(transform.integral_step);
  return std::max(size / static_cast<float>(most_code), least_step);
}

void pack_int8(const PackArgs& args, const Buffer<float>& sizes, ThreadPool& thread_pool, PackedRows& out) {
  const BoundModel& model = *args.model;
  const bool second = args.techniques.second_level && !(args.transform->integral_step > 0);
  const std::int64_t count = out.count, padded = rounded_up(count, panel_rows);
  const auto tiles = static_cast<std::size_t>(out.tile_count());
  grow(out.order, count);
  grow(out.quads, padded * quads_of(model.columns));
  out.steps.assign(tiles, 0.0F);
  order_by_size(sizes.data(), count, thread_pool, out.order.data());
  out.second.tiles.assign(second ? tiles : 0, SecondNorms{});
  if (second) grow(out.second.bytes, count * SecondCode::stride(model.columns));
  if (second) grow(out.second.terms, count);
  if (args.transform->integral_step > 0 && model.dims <= most_integral_dims) grow(out.squares, padded);
  PerThread<PrepareScratch> scratches = prepare_scratches(thread_pool, model.dims);
  RowPacker packer(args, sizes, out);
  thread_pool.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    packer.pack_tile(tile, scratches.of(worker), thread_pool);
  });
  if (packer.unfit()) report_unfit_rows(args.kernels, args.spec, args.spec.corpus, "corpus", thread_pool);
  out.integral = packer.integral();
}

void pack_query_int8(const PackArgs& args, const QueriesToPack& queries, std::int64_t panel, PrepareScratch& scratch,
                     PackedQueries& out) {
  const Kernels& kernels = args.kernels;
  const Int8Kernels& int8 = *queries.int8;
  const SearchSpec& spec = args.spec;
  const BoundModel& model = *args.model;
  const Transform& transform = *args.transform;
  const std::int64_t quads = quads_of(model.columns), lanes = out.lanes, width = query_width(int8.layout, quads);
  const float step = out.steps[static_cast<std::size_t>(panel)];
  std::int32_t* to = out.quads.data() + panel * lanes * width;
  std::fill_n(to, lanes * width, 0);
  const PackedQueries::Part part = out.part(panel);
  for (std::int64_t i = 0; i < part.used; ++i) {
    QueryFacts& facts = out.facts[static_cast<std::size_t>(part.begin + i)];
    if (!facts.filterable && !spec.symmetric) continue;
    const std::int64_t given = out.given(part.begin + i);
    Int8QuantizeArgs row_args;
    if (transform.projection.present()) {
      row_args = int8_args_of(out.projected.data() + given * model.columns, scratch.centre_of_zeros(model.columns),
                              model.columns, step, scratch.narrow.data());
    } else {
      load_row(kernels, queries.points, queries.rows[static_cast<std::size_t>(given)], scratch.gathered.data(),
               scratch.row.data());
      const Affine map = affine(spec.metric, {.self = facts.self, .mean = facts.mean}, facts.scale);
      row_args = int8_args(transform, map, step, scratch, scratch.narrow.data());
    }
    const Int8Facts rounded = kernels.round_to_int8(row_args);
    if (!codes_fit(scratch.narrow.data(), model.columns, int8.most_code)) {
      facts.filterable = false;
      continue;
    }
    const QuantizationErrors sums = quantization_errors(rounded.facts);
    facts.norms = filter_norms(model, sums);
    facts.square = sums.nn;
    facts.integral = is_exact(transform, step, rounded) && is_whole(scratch.row.data(), transform.centre.size());
    facts.shift = 128.0 * static_cast<double>(rounded.sum);
    if (!std::isfinite(row_term(model, sums, facts.norms))) facts.filterable = false;
    if (out.second.size() > 0) {
      const std::int64_t stride = SecondCode::stride(model.columns);
      std::int8_t* first_codes = out.second.data() + (part.begin + i) * 2 * stride;
      std::fill_n(first_codes, 2 * stride, std::int8_t{0});
      std::copy_n(scratch.narrow.data(), model.columns, first_codes);
      row_args.out = first_codes + stride;
      const SecondFacts finer = kernels.second_query(row_args);
      facts.second = second_norms_of(model, rounded, finer);
      facts.second_shift = second_shift(rounded.sum, finer.sum);
    }
    for (std::int64_t k = 0; k < quads; ++k) {
      const std::int8_t* four = scratch.narrow.data() + 4 * k;
      std::int32_t* at = to + query_position(int8.layout, lanes, i, k);
      if (int8.layout != QueryLayout::halves) {
        *at = quad_at(scratch.narrow.data(), k);
        continue;
      }
      const std::int16_t halves[4] = {four[0], four[2], four[1], four[3]};
      std::memcpy(at, halves, sizeof halves);
    }
  }
}

}  // namespace vicinal::cpu
