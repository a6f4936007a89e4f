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

/// The row is nothing but integers, each a step.
bool is_integral(const Transform& transform, float step, const double* row, const Int8Facts& facts) noexcept {
  if (!(transform.integral_step > 0) || static_cast<double>(step) != transform.integral_step || facts.facts.ee != 0)
    return false;
  constexpr double to_whole = 0x1.8p52;
  bool integral = true;
  for (std::int64_t j = 0; j < transform.centre.size(); ++j) integral &= row[j] + to_whole - to_whole == row[j];
  return integral;
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

/// It loads the row at a position of the order, and asks for one that comes later.
void load_in_order(const PackArgs& args, const PackedRows& out, std::int64_t at, PrepareScratch& scratch) {
  const Points& corpus = args.spec.corpus;
  if (at + rows_ahead < out.count) fetch_row(corpus, out.first + out.order[at + rows_ahead]);
  load_row(args.kernels, corpus, out.first + out.order[at], scratch.gathered.data(), scratch.row.data());
}

/// It projects rows [begin, end) of the order into the scratch and returns their largest element. unfit: it is set where
/// one of them is no longer finite.
float project_tile(const PackArgs& args, const PackedRows& out, std::int64_t begin, std::int64_t end,
                   PrepareScratch& scratch, std::atomic<bool>& unfit) {
  const SearchSpec& spec = args.spec;
  const std::int64_t columns = args.model->columns;
  grow(scratch.projected, tile_rows * columns);
  RowProjector projector(args.kernels, *args.transform, scratch.projected.data());
  for (std::int64_t at = begin; at < end; ++at) {
    load_in_order(args, out, at, scratch);
    if (args.kernels.first_bad(scratch.row.data(), args.model->dims) >= 0) unfit = true;
    projector.add(affine(spec.metric, known_product(spec, out.norms, out.order[at]), args.transform->scale),
                  scratch.row.data());
  }
  projector.flush();
  double size = 0;
  for (std::int64_t i = 0; i < end - begin; ++i)
    size = std::max(size, args.kernels.largest(int8_args_of(scratch.projected.data() + i * columns,
                                                            scratch.centre_of_zeros(columns), columns, 1, nullptr)));
  return up32(size);
}

/// It describes the row at a position of the order to the int8 kernels; a projected tile is in the scratch.
Int8QuantizeArgs args_of_row(const PackArgs& args, const PackedRows& out, std::int64_t at, const SelfProduct& product,
                             float step, PrepareScratch& scratch) {
  const Transform& transform = *args.transform;
  std::int8_t* const to = scratch.narrow.data();
  const std::int64_t columns = transform.columns();
  if (transform.projection.present())
    return int8_args_of(scratch.projected.data() + at % tile_rows * columns, scratch.centre_of_zeros(columns), columns,
                        step, to);
  load_in_order(args, out, at, scratch);
  return int8_args(transform, affine(args.spec.metric, product, transform.scale), step, scratch, to);
}

}  // namespace

Int8QuantizeArgs int8_args(const Transform& transform, const Affine& map, float step, PrepareScratch& scratch,
                           void* out) {
  const auto wide = static_cast<double>(step);
  const std::int64_t dims = transform.centre.size();
  if (!transform.rotation.present())
    return {.row = scratch.row.data(),
            .centre = transform.centre.data(),
            .shift = map.shift,
            .scale = map.factor,
            .step = wide,
            .inverse = 1 / wide,
            .dims = dims,
            .out = static_cast<std::int8_t*>(out)};
  if (scratch.rotated.size() < dims) scratch.rotated = Buffer<double>(dims);
  double* const rotated = scratch.rotated.data();
  move_row(transform, map, scratch.row.data(), rotated);
  transform.rotation.apply(rotated);
  return int8_args_of(rotated, scratch.centre_of_zeros(dims), dims, wide, out);
}

float int8_step(const Transform& transform, float size, int most_code) noexcept {
  // Integers within a byte are what they are; -128 is one of them.
  if (transform.integral_step > 0 && static_cast<double>(size) <= transform.integral_step * 128 * (1 + 0x1p-20))
    return static_cast<float>(transform.integral_step);
  return std::max(size / static_cast<float>(most_code), least_step);
}

void pack_int8(const PackArgs& args, const Buffer<float>& sizes, ThreadPool& thread_pool, PackedRows& out) {
  const Kernels& kernels = args.kernels;
  const SearchSpec& spec = args.spec;
  const BoundModel& model = *args.model;
  const Transform& transform = *args.transform;
  const bool second = args.techniques.second_level && !(transform.integral_step > 0);
  const std::int64_t dims = model.dims, columns = model.columns, quads = quads_of(columns), count = out.count;
  grow(out.order, count);
  grow(out.quads, rounded_up(count, panel_rows) * quads);
  out.steps.assign(static_cast<std::size_t>(out.tile_count()), 0.0F);
  order_by_size(sizes.data(), count, thread_pool, out.order.data());
  const std::int64_t stride = SecondCode::stride(columns);
  out.second.tiles.assign(second ? static_cast<std::size_t>(out.tile_count()) : 0, SecondNorms{});
  if (second) grow(out.second.bytes, count * stride);
  if (second) grow(out.second.terms, count);
  const bool may_be_integral = transform.integral_step > 0 && dims <= most_integral_dims;
  if (may_be_integral) grow(out.squares, rounded_up(count, panel_rows));
  std::atomic<bool> integral{may_be_integral}, unfit{false};
  PerThread<PrepareScratch> scratches = prepare_scratches(thread_pool, dims);
  thread_pool.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    const std::int64_t begin = tile * tile_rows, end = std::min(count, begin + tile_rows);
    float size = 0;
    if (transform.projection.present()) size = project_tile(args, out, begin, end, scratch, unfit);
    else
      for (std::int64_t at = begin; at < end; ++at) size = std::max(size, sizes[out.order[at]]);
    const float step = int8_step(transform, size);
    FilterNorms maxima;
    SecondNorms second_maxima;
    for (std::int64_t at = begin; at < rounded_up(end, panel_rows); ++at) {
      std::int32_t* to = out.quads.data() + at / panel_rows * panel_rows * quads + at % panel_rows;
      if (at >= end) {
        out.terms[at] = 0.0F;
        if (may_be_integral) out.squares[at] = 0;
        for (std::int64_t k = 0; k < quads; ++k) to[k * panel_rows] = 0;
        continue;
      }
      const SelfProduct product = known_product(spec, out.norms, out.order[at]);
      Int8QuantizeArgs row_args = args_of_row(args, out, at, product, step, scratch);
      const Int8Facts facts = kernels.quantize_int8(row_args);
      // Rows were checked when their sizes were taken; this one was read again, and another thread may have changed it.
      // A row that is fine becomes no number, and so always a candidate, where a rotation adds what left fp64 at both
      // ends.
      if (std::isnan(facts.facts.xx) && kernels.first_bad(scratch.row.data(), dims) >= 0) unfit = true;
      const QuantizationErrors sums = quantization_errors(facts.facts);
      const FilterNorms norms = filter_norms(model, sums);
      const float term = is_degenerate_self(product.self) ? never_excluded : row_term(model, sums, norms);
      out.terms[at] = term;
      if (!std::isinf(term)) take_maxima(maxima, norms);
      if (second) {
        std::uint8_t* bytes = out.second.bytes.data() + at * stride;
        row_args.out = reinterpret_cast<std::int8_t*>(bytes);
        const SecondNorms finer = second_norms_of(model, facts, kernels.second_row(row_args));
        std::fill(bytes + columns, bytes + stride, std::uint8_t{0});
        out.second.terms[at] = second_term(model, finer, term);
        if (!std::isinf(term)) take_maxima(second_maxima, finer);
      }
      if (may_be_integral) {
        const bool is = is_integral(transform, step, scratch.row.data(), facts);
        if (!is) integral = false;
        out.squares[at] =
            is ? static_cast<std::int32_t>(facts.facts.nn / (transform.integral_step * transform.integral_step))
               : 0;  // of others it may leave 32 bits
      }
      for (std::int64_t k = 0; k < quads; ++k)
        to[k * panel_rows] = quad_at(scratch.narrow.data(), k) ^ std::int32_t(0x80808080);
      if (at % panel_rows == 0) thread_pool.poll(0);
    }
    out.steps[static_cast<std::size_t>(tile)] = step;
    out.tiles[static_cast<std::size_t>(tile)] = maxima;
    if (second) out.second.tiles[static_cast<std::size_t>(tile)] = second_maxima;
  });
  if (unfit) report_unfit_rows(kernels, spec, spec.corpus, "corpus", thread_pool);
  out.integral = integral;
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
    const Int8Facts rounded = kernels.quantize_int8(row_args);
    if (!codes_fit(scratch.narrow.data(), model.columns, int8.most_code)) {
      facts.filterable = false;
      continue;
    }
    const QuantizationErrors sums = quantization_errors(rounded.facts);
    facts.norms = filter_norms(model, sums);
    facts.square = sums.nn;
    facts.integral = is_integral(transform, step, scratch.row.data(), rounded);
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
