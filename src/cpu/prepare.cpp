// See prepare.hpp. Order within a row: load to fp64, check, norms (cosine, correlation), round, pack with its panel.
#include "cpu/prepare.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "cpu/check.hpp"
#include "cpu/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr int far_exponent = 60;  // queries so much larger than the corpus skip the rung

/// One thread's memory while it prepares: fp64 row, gathered row, one panel of float rows.
struct Scratch {
  explicit Scratch(std::int64_t dims) : row(dims), gathered(dims), floats(dims * panel_rows) {}
  Buffer<double> row, gathered;
  Buffer<float> floats;
};

Residuals residuals(const RowFacts& f) { return {f.xx, f.nn, f.ee, f.e_abs, f.e_max, f.n_abs}; }

}  // namespace

std::int64_t PackedRows::bytes(std::int64_t rows, std::int64_t dims, Metric metric, bool packed) noexcept {
  const std::int64_t tiles = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t padded = (rows + panel_rows - 1) / panel_rows * panel_rows;
  std::int64_t total = 0;
  if (packed) total += padded * dims * 4 + padded * 4 + tiles * static_cast<std::int64_t>(sizeof(FilterNorms));
  if (needs_norms(metric)) total += rows * (metric == Metric::correlation ? 16 : 8);
  return total;
}

std::int64_t prepare_scratch_bytes(std::int64_t dims) noexcept { return dims * (8 + 8 + 4 * panel_rows) + 512; }

namespace {

/// Rounds one row into `floats`, filling its term and norms.
FilterNorms round_row(const Kernels& kernels, const BoundModel& model, const Frame& frame, const double* row,
                      const Affine& map, float* floats, float& term) {
  const RowFacts facts = kernels.quantise(
      {row, frame.centre.data(), map.shift, map.factor, frame.centre.size(), floats});
  const FilterNorms norms = filter_norms(model, residuals(facts));
  term = row_term(model, residuals(facts), norms);
  return norms;
}

template <class T>
void grow(Buffer<T>& buffer, std::int64_t count) {
  if (buffer.size() < count) buffer = Buffer<T>(count);
}

}  // namespace

void prepare_rows(const Kernels& kernels, const Question& question, const BoundModel* model, const Frame* frame,
                  std::int64_t first, std::int64_t count, Team& team, PackedRows& out) {
  const Points& corpus = question.corpus;
  const std::int64_t dims = corpus.cols;
  const bool norms = needs_norms(question.metric), integers = corpus.dtype == DType::u8 || corpus.dtype == DType::i8;
  out.first = first;
  out.count = count;
  out.packed = model != nullptr;
  const std::int64_t panels = (count + panel_rows - 1) / panel_rows;
  if (out.packed) {
    grow(out.panels, panels * panel_rows * dims);
    grow(out.terms, panels * panel_rows);
    out.tiles.assign(static_cast<std::size_t>(out.tile_count()), FilterNorms{});
  }
  if (norms) grow(out.norms.self, count);
  if (question.metric == Metric::correlation) grow(out.norms.mean, count);
  if (!out.packed && !norms && integers) return;  // nothing to check and nothing to make

  std::vector<std::unique_ptr<Scratch>> scratches(static_cast<std::size_t>(team.threads()));
  std::atomic<bool> unfit{false};
  team.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    auto& scratch = scratches[static_cast<std::size_t>(worker)];
    if (!scratch) scratch = std::make_unique<Scratch>(dims);
    const std::int64_t begin = tile * tile_rows, end = std::min(count, begin + tile_rows);
    for (std::int64_t at = begin; at < end; at += panel_rows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(panel_rows, end - at));
      for (int r = 0; r < rows; ++r) {
        double* row = scratch->row.data();
        load_row(kernels, corpus, first + at + r, scratch->gathered.data(), row);
        SelfProduct product;
        if ((!integers && kernels.first_bad(row, dims) >= 0) ||
            (norms && !(product = self_product(kernels, row, dims, question, corpus.dtype)).fit)) {
          unfit = true;
          return;
        }
        if (norms) {
          out.norms.self[at + r] = product.self;
          if (question.metric == Metric::correlation) out.norms.mean[at + r] = product.mean;
        }
        if (!out.packed) continue;
        float& term = out.terms[at + r];
        const FilterNorms rounded = round_row(kernels, *model, *frame, row, affine(question.metric, product, frame->scale),
                                              scratch->floats.data() + r * dims, term);
        // A degenerate row has distance 1 to everything, which the filter cannot see: it is always a candidate.
        if (product.self < 0) term = -std::numeric_limits<float>::infinity();
        if (std::isinf(term)) continue;
        FilterNorms& maxima = out.tiles[static_cast<std::size_t>(tile)];
        maxima = {std::max(maxima.e, rounded.e), std::max(maxima.n, rounded.n)};
      }
      if (!out.packed) continue;
      for (int r = rows; r < panel_rows; ++r) out.terms[at + r] = 0.0F;
      kernels.pack(scratch->floats.data(), dims, rows, panel_rows, dims, out.panels.data() + at * dims);
      team.tick(0);
    }
  });
  if (unfit) report_unfit_rows(kernels, question, corpus, "corpus", team);
}

void prepare_queries(const Kernels& kernels, const Question& question, const BoundModel* model, const Frame* frame,
                     const Points& queries, std::span<const std::int64_t> rows, std::int64_t block, Team& team,
                     PackedQueries& out) {
  const std::int64_t dims = queries.cols, lanes = kernels.query_lanes;
  out.count = static_cast<std::int64_t>(rows.size());
  out.block = block;
  out.lanes = lanes;
  out.block_panels = (block + lanes - 1) / lanes;
  out.packed = model != nullptr;
  out.facts.assign(rows.size(), QueryFacts{});
  if (out.packed) grow(out.panels, out.block_count() * out.block_floats(dims));
  // Queries of a product have a scale of their own, unless they are to be rows as well.
  const bool product_form = form_of(question.metric) == Form::ip && !question.symmetric;
  std::vector<std::unique_ptr<Scratch>> scratches(static_cast<std::size_t>(team.threads()));
  std::atomic<bool> unfit{false};
  const std::int64_t panels = out.block_count() * out.block_panels;
  team.for_each(panels, [&](std::int64_t panel, int worker) {
    auto& scratch = scratches[static_cast<std::size_t>(worker)];
    if (!scratch) scratch = std::make_unique<Scratch>(dims);
    const std::int64_t first = panel / out.block_panels * block, begin = first + panel % out.block_panels * lanes;
    const int used = static_cast<int>(std::clamp<std::int64_t>(std::min(out.count, first + block) - begin, 0, lanes));
    for (int i = 0; i < used; ++i) {
      double* row = scratch->row.data();
      const std::int64_t number = rows[static_cast<std::size_t>(begin + i)];
      load_row(kernels, queries, number, scratch->gathered.data(), row);
      QueryFacts& facts = out.facts[static_cast<std::size_t>(begin + i)];
      SelfProduct product;
      if (kernels.first_bad(row, dims) >= 0 ||
          (needs_norms(question.metric) && !(product = self_product(kernels, row, dims, question, queries.dtype)).fit)) {
        unfit = true;
        return;
      }
      facts.self = product.self;
      facts.mean = product.mean;
      facts.filterable = out.packed && frame->usable && product.self >= 0;
      if (!out.packed) continue;
      double largest = 0;
      for (std::int64_t j = 0; j < dims; ++j) largest = std::max(largest, std::fabs(row[j]));
      facts.scale = frame->scale;
      if (largest > 0 && !needs_norms(question.metric)) {
        if (product_form) facts.scale = power_of_two(largest);
        const int exponent = std::ilogb(largest);
        const int above = exponent + std::ilogb(frame->scale);  // of the scaled query, where the corpus is about 0
        if (std::abs(exponent) >= extreme_exponent || (!product_form && above > far_exponent)) facts.filterable = false;
      }
      float* floats = scratch->floats.data() + i * dims;
      const Affine map = affine(question.metric, product, facts.scale);
      const Residuals sums = residuals(kernels.quantise({row, frame->centre.data(), map.shift, map.factor, dims, floats}));
      facts.norms = filter_norms(*model, sums);
      facts.square = sums.nn;
      if (!std::isfinite(row_term(*model, sums, facts.norms))) facts.filterable = false;
    }
    if (out.packed) {
      float* to = out.panels.data() + panel * lanes * dims;
      kernels.pack(scratch->floats.data(), dims, used, static_cast<int>(lanes), dims, to);
    }
    team.tick(0);
  });
  if (unfit) report_unfit_rows(kernels, question, queries, "query", team);
}

}  // namespace vicinal::cpu
