// See prepare.hpp. Order within a row: load to fp64, check, norms (cosine, correlation), round, pack with its panel.
#include "cpu/prepare/prepare.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "core/canonical.hpp"
#include "core/divide.hpp"
#include "core/exponents.hpp"
#include "cpu/kd_tree/load.hpp"
#include "cpu/prepare/order.hpp"
#include "cpu/prepare/projected.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"
#include "prepare/project.hpp"

namespace vicinal::cpu {
namespace {

// Panels of queries whose steps differ by less share one: each step more is another pass over the rows of a tile in the
// caches. Zen 4, 1,000 queries of 128, 384 and 784 Gaussian columns, 2026-11: 1.02 to 1.3 take the same time.
constexpr float shared_step = 1.25F;

/// Rounds one row into `floats`, filling its term and norms.
FilterNorms round_row(const Kernels& kernels, const BoundModel& model, const Transform& transform, const double* row,
                      const Affine& map, float* floats, float& term) {
  const RowFacts facts =
      kernels.quantize({row, transform.centre.data(), map.shift, map.factor, transform.centre.size(), floats});
  const FilterNorms norms = filter_norms(model, quantization_errors(facts));
  term = row_term(model, quantization_errors(facts), norms);
  return norms;
}

/// It returns |x'| of the row in the scratch, by which projected rows are sorted: their elements are all of about one size.
float length_of(const Kernels& kernels, const Transform& transform, const Affine& map, PrepareScratch& scratch) {
  return up32(std::sqrt(kernels
                            .quantize({scratch.row.data(), transform.centre.data(), map.shift, map.factor,
                                       transform.centre.size(), scratch.floats.data()})
                            .xx));
}

}  // namespace

PrepareScratch::PrepareScratch(std::int64_t dims)
    : row(dims), gathered(dims), floats(dims * panel_rows), narrow(4 * quads_of(dims)) {
  std::fill_n(narrow.data(), narrow.size(), std::int8_t{0});
}

const double* PrepareScratch::centre_of_zeros(std::int64_t count) {
  if (zeros.size() < count) {
    zeros = Buffer<double>(count);
    std::fill_n(zeros.data(), count, 0.0);
  }
  return zeros.data();
}

std::int64_t PrepareScratch::bytes(std::int64_t dims) noexcept {
  return dims * (6 * 8 + 4 * panel_rows + 1) + 8 * tile_rows * std::min(dims, most_projected_columns) + 4096;
}

bool load_checked(const Kernels& kernels, const SearchSpec& spec, const Points& points, std::int64_t row,
                  PrepareScratch& scratch, SelfProduct& product) {
  load_row(kernels, points, row, scratch.gathered.data(), scratch.row.data());
  if (!holds_bytes(points.dtype) && kernels.first_bad(scratch.row.data(), points.cols) >= 0) return false;
  if (needs_norms(spec.metric)) product = self_product(kernels, scratch.row.data(), points.cols, spec, points.dtype);
  return product.fit;
}

std::int64_t PackedRows::bytes(std::int64_t rows, std::int64_t dims, Metric metric, Precision precision,
                               const Techniques& techniques) noexcept {
  const std::int64_t tiles = divide_up(rows, tile_rows);
  const std::int64_t padded = rounded_up(rows, panel_rows);
  std::int64_t total = 0;
  if (has_filter(precision))
    total += padded * (find_host_precision(precision)->width(dims) + 4) +
             tiles * static_cast<std::int64_t>(sizeof(FilterNorms));
  else if (techniques.kd_tree) total += KdTree::bytes(rows, dims);
  // The order, and while it is made the sizes that it goes by.
  if (in_codes(precision)) total += rows * 8 + tiles * 4 + order_bytes;
  if (in_codes(precision) && dims <= most_integral_dims) total += padded * 4;
  if (in_codes(precision) && techniques.second_level)
    total += padded * (SecondCode::stride(dims) + 4) + tiles * static_cast<std::int64_t>(sizeof(SecondNorms));
  if (needs_norms(metric)) total += rows * (metric == Metric::correlation ? 16 : 8);
  return total;
}

namespace {

void build_kd_tree(const Kernels& kernels, const SearchSpec& spec, ThreadPool& thread_pool, PackedRows& out) {
  const std::int64_t dims = spec.corpus.cols, count = out.count;
  Buffer<double> points(count * dims);
  load_finite(
      kernels, spec, spec.corpus, "corpus", count, [&](std::int64_t i) { return out.first + i; }, thread_pool,
      points.data());
  out.kd_tree.build(points.data(), count, dims, thread_pool);
}

}  // namespace

void prepare_rows(const PackArgs& args, std::int64_t first, std::int64_t count, ThreadPool& thread_pool,
                  PackedRows& out) {
  const Kernels& kernels = args.kernels;
  const SearchSpec& spec = args.spec;
  const Precision precision = args.precision;
  const BoundModel* const model = args.model;
  const Transform* const transform = args.transform;
  const Points& corpus = spec.corpus;
  const std::int64_t dims = corpus.cols;
  const bool norms = needs_norms(spec.metric);
  out.first = first;
  out.count = count;
  out.precision = precision;
  const std::int64_t panels = divide_up(count, panel_rows);
  if (has_filter(precision)) {
    grow(out.terms, panels * panel_rows);
    out.tiles.assign(static_cast<std::size_t>(out.tile_count()), FilterNorms{});
  }
  Buffer<float> sizes(in_codes(precision) ? count : 0);
  if (!has_filter(precision) && args.techniques.kd_tree) return build_kd_tree(kernels, spec, thread_pool, out);
  if (in_floats(precision)) grow(out.panels, panels * panel_rows * dims);
  if (norms) grow(out.norms.self, count);
  if (spec.metric == Metric::correlation) grow(out.norms.mean, count);
  if (!has_filter(precision) && !norms && holds_bytes(corpus.dtype)) return;  // nothing to check and nothing to make

  PerThread<PrepareScratch> scratches = prepare_scratches(thread_pool, dims);
  std::atomic<bool> unfit{false};
  // A filter of bytes needs of a row here but that it is finite, and its largest element: one reading tells both.
  const bool direct = in_codes(precision) && !norms && reads_elements(*transform);
  thread_pool.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    const std::int64_t begin = tile * tile_rows, end = std::min(count, begin + tile_rows);
    for (std::int64_t at = begin; at < end; at += panel_rows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(panel_rows, end - at));
      for (int r = 0; r < rows; ++r) {
        SelfProduct product;
        if (direct) {
          const void* const elements = elements_of_row(corpus, first + at + r, scratch.gathered.data());
          sizes[at + r] =
              size_of(kernels, int8_args_of_elements(*transform, affine(spec.metric, product, transform->scale),
                                                     elements, corpus.dtype, 1, nullptr));
          if (std::isfinite(sizes[at + r])) continue;
        }
        if (!load_checked(kernels, spec, corpus, first + at + r, scratch, product)) {
          unfit = true;
          return;
        }
        if (norms) {
          out.norms.self[at + r] = product.self;
          if (spec.metric == Metric::correlation) out.norms.mean[at + r] = product.mean;
        }
        if (!has_filter(precision)) continue;
        const Affine map = affine(spec.metric, product, transform->scale);
        const double* row = scratch.row.data();
        if (in_codes(precision)) {
          sizes[at + r] = transform->projection.present()
                              ? length_of(kernels, *transform, map, scratch)
                              : size_of(kernels, int8_args(*transform, map, 1, scratch, nullptr));
          continue;
        }
        float& term = out.terms[at + r];
        const FilterNorms rounded =
            round_row(kernels, *model, *transform, row, map, scratch.floats.data() + r * dims, term);
        if (is_degenerate_self(product.self)) term = never_excluded;
        if (std::isinf(term)) continue;
        take_maxima(out.tiles[static_cast<std::size_t>(tile)], rounded);
      }
      thread_pool.poll(0);
      if (!in_floats(precision)) continue;
      for (int r = rows; r < panel_rows; ++r) out.terms[at + r] = 0.0F;
      kernels.pack(scratch.floats.data(), dims, rows, panel_rows, dims, out.panels.data() + at * dims);
    }
  });
  if (unfit) report_unfit_rows(kernels, spec, corpus, "corpus", thread_pool);
  if (in_codes(precision)) pack_int8(args, sizes, thread_pool, out);
}

namespace {

/// What is known of a query before it is rounded. row: it, in fp64.
void describe_query(const SearchSpec& spec, const Transform& transform, const double* row, std::int64_t dims,
                    QueryFacts& facts) {
  facts.scale = transform.scale;
  facts.filterable = transform.usable && !is_degenerate_self(facts.self);
  double largest = 0;
  for (std::int64_t j = 0; j < dims; ++j) largest = std::max(largest, std::fabs(row[j]));
  if (!(largest > 0) || needs_norms(spec.metric)) return;
  // Queries of a product have a scale of their own, unless they are to be rows as well.
  const bool own_scale = filter_sum_of(spec.metric) == Sum::products && !spec.symmetric;
  if (own_scale) facts.scale = power_of_two(largest);
  if (is_far(std::ilogb(largest), transform.scale, own_scale)) facts.filterable = false;
}

/// It takes the memory of a batch and notes what the batch is of.
void start_queries(const PackArgs& args, const QueriesToPack& queries, PackedQueries& out) {
  const BoundModel* const model = args.model;
  const Int8Kernels* const int8 = queries.int8;
  out.count = static_cast<std::int64_t>(queries.rows.size());
  out.block = queries.block;
  out.lanes = args.kernels.query_lanes;
  out.block_panels = divide_up(out.block, out.lanes);
  out.facts.assign(queries.rows.size(), QueryFacts{});
  out.order.clear();
  if (int8 == nullptr) {
    if (model != nullptr) grow(out.panels, out.block_count() * out.block_size(queries.points.cols));
    return;
  }
  grow(out.quads, out.block_count() * out.block_size(query_width(int8->layout, quads_of(model->columns))));
  out.steps.assign(static_cast<std::size_t>(out.block_count() * out.block_panels), 0.0F);
  if (args.transform->projection.present()) grow(out.projected, out.count * model->columns);
  const bool second = args.techniques.second_level;
  if (second) grow(out.second, out.count * 2 * SecondCode::stride(model->columns));
  if (!second) out.second = {};
}

/// It puts the queries into the order of their largest elements, `sizes`, those without a filter first: the queries of
/// a panel share a step, which is that of the largest.
void order_queries(const std::vector<float>& sizes, ThreadPool& thread_pool, PackedQueries& out) {
  if (out.count <= out.lanes) return;
  out.order.resize(sizes.size());
  order_by_size(sizes.data(), out.count, thread_pool, out.order.data());
  bring_into_order(out.facts, out.order, thread_pool);
}

/// It gives each panel the step of its largest query, or of one in the panels after it that is not much larger: tiles
/// go past neighbouring panels of one step together.
void choose_steps(const std::vector<float>& sizes, const Transform& transform, int most_code, PackedQueries& out) {
  for (std::int64_t panel = std::ssize(out.steps) - 1; panel >= 0; --panel) {
    const PackedQueries::Part part = out.part(panel);
    float size = 0;
    for (std::int64_t i = part.begin; i < part.begin + part.used; ++i)
      size = std::max(size, sizes[static_cast<std::size_t>(out.given(i))]);
    float& step = out.steps[static_cast<std::size_t>(panel)];
    step = int8_step(transform, size, most_code);
    if (panel % out.block_panels == out.block_panels - 1 || static_cast<double>(step) == transform.integral_step)
      continue;
    const float next = out.steps[static_cast<std::size_t>(panel + 1)];
    if (step < next && next <= step * shared_step) step = next;
  }
}

}  // namespace

void prepare_queries(const PackArgs& args, const QueriesToPack& queries, ThreadPool& thread_pool, PackedQueries& out) {
  const Kernels& kernels = args.kernels;
  const SearchSpec& spec = args.spec;
  const BoundModel* const model = args.model;
  const Transform* const transform = args.transform;
  const Int8Kernels* const int8 = queries.int8;
  const std::span<const std::int64_t> rows = queries.rows;
  const std::int64_t dims = queries.points.cols, lanes = kernels.query_lanes;
  const bool projects = int8 != nullptr && transform->projection.present();
  const std::int64_t columns = projects ? transform->columns() : 0;
  start_queries(args, queries, out);
  std::vector<float> sizes(int8 != nullptr ? rows.size() : 0);
  PerThread<PrepareScratch> scratches = prepare_scratches(thread_pool, dims);
  std::atomic<bool> unfit{false};
  const std::int64_t panels = out.block_count() * out.block_panels;
  thread_pool.for_each(panels, [&](std::int64_t panel, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    const PackedQueries::Part part = out.part(panel);
    double* const projected = out.projected.data() + part.begin * columns;
    std::optional<RowProjector> projector;
    if (projects) projector.emplace(kernels, *transform, projected);
    for (std::int64_t i = 0; i < part.used; ++i) {
      const double* row = scratch.row.data();
      QueryFacts& facts = out.facts[static_cast<std::size_t>(part.begin + i)];
      SelfProduct product;
      if (!load_checked(kernels, spec, queries.points, rows[static_cast<std::size_t>(part.begin + i)], scratch,
                        product)) {
        unfit = true;
        return;
      }
      facts.self = product.self;
      facts.mean = product.mean;
      facts.filterable = false;
      if (model == nullptr) continue;
      describe_query(spec, *transform, row, dims, facts);
      const Affine map = affine(spec.metric, product, facts.scale);
      if (projects) {
        projector->add(map, row);
        continue;
      }
      if (int8 != nullptr) {
        sizes[static_cast<std::size_t>(part.begin + i)] =
            size_of(kernels, int8_args(*transform, map, 1, scratch, nullptr));
        continue;
      }
      float* floats = scratch.floats.data() + i * dims;
      const QuantizationErrors sums =
          quantization_errors(kernels.quantize({row, transform->centre.data(), map.shift, map.factor, dims, floats}));
      facts.norms = filter_norms(*model, sums);
      facts.square = sums.nn;
      if (!std::isfinite(row_term(*model, sums, facts.norms))) facts.filterable = false;
    }
    if (projects) projector->flush();
    for (std::int64_t i = 0; i < part.used && projects; ++i)
      sizes[static_cast<std::size_t>(part.begin + i)] = size_of(
          kernels, int8_args_of(projected + i * columns, scratch.centre_of_zeros(columns), columns, 1, nullptr));
    thread_pool.poll(0);
    if (model == nullptr || int8 != nullptr) return;
    kernels.pack(scratch.floats.data(), dims, static_cast<int>(part.used), static_cast<int>(lanes), dims,
                 out.panels.data() + panel * lanes * dims);
  });
  if (unfit) report_unfit_rows(kernels, spec, queries.points, "query", thread_pool);
  if (int8 == nullptr) return;
  if (queries.steps == nullptr) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (!out.facts[i].filterable || !(sizes[i] >= 0)) sizes[i] = 0;
    order_queries(sizes, thread_pool, out);
    choose_steps(sizes, *transform, int8->most_code, out);
  } else {
    for (std::size_t panel = 0; panel < out.steps.size(); ++panel)
      out.steps[panel] = (*queries.steps)[panel / static_cast<std::size_t>(out.block_panels)];
  }
  thread_pool.for_each(panels, [&](std::int64_t panel, int worker) {
    pack_query_int8(args, queries, panel, scratches.of(worker), out);
    thread_pool.poll(0);
  });
}

}  // namespace vicinal::cpu
