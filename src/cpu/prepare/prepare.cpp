// See prepare.hpp. Order within a row: load to fp64, check, norms (cosine, correlation), round, pack with its panel.
#include "cpu/prepare/prepare.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "cpu/prepare/check.hpp"
#include "cpu/prepare/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr int far_exponent = 60;  // queries so much larger than the corpus skip the rung

/// Rounds one row into `floats`, filling its term and norms.
FilterNorms round_row(const Kernels& kernels, const BoundModel& model, const Frame& frame, const double* row,
                      const Affine& map, float* floats, float& term) {
  const RowFacts facts =
      kernels.quantise({row, frame.centre.data(), map.shift, map.factor, frame.centre.size(), floats});
  const FilterNorms norms = filter_norms(model, residuals(facts));
  term = row_term(model, residuals(facts), norms);
  return norms;
}

/// max |x'| of the row in the scratch, rounded up.
float size_of(const Kernels& kernels, const Frame& frame, const Affine& map, PrepareScratch& scratch) {
  return up32(kernels.largest(byte_args(frame, map, 1, scratch, nullptr)));
}

}  // namespace

PrepareScratch::PrepareScratch(std::int64_t dims)
    : row(dims), gathered(dims), floats(dims * panel_rows), narrow(4 * quads_of(dims)) {
  std::fill_n(narrow.data(), narrow.size(), std::int8_t{0});
}

std::int64_t PrepareScratch::bytes(std::int64_t dims) noexcept { return dims * (4 * 8 + 4 * panel_rows + 1) + 1024; }

bool load_checked(const Kernels& kernels, const Question& question, const Points& points, std::int64_t row,
                  PrepareScratch& scratch, SelfProduct& product) {
  const bool integers = points.dtype == DType::u8 || points.dtype == DType::i8;
  load_row(kernels, points, row, scratch.gathered.data(), scratch.row.data());
  if (!integers && kernels.first_bad(scratch.row.data(), points.cols) >= 0) return false;
  if (needs_norms(question.metric))
    product = self_product(kernels, scratch.row.data(), points.cols, question, points.dtype);
  return product.fit;
}

std::int64_t PackedRows::bytes(std::int64_t rows, std::int64_t dims, Metric metric, Rung rung,
                               Packing packing) noexcept {
  const std::int64_t tiles = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t padded = (rows + panel_rows - 1) / panel_rows * panel_rows;
  std::int64_t total = 0;
  if (rung != Rung::canonical) total += padded * 4 + tiles * static_cast<std::int64_t>(sizeof(FilterNorms));
  if (rung == Rung::f32) total += padded * dims * 4;
  if (rung == Rung::canonical && packing.groups) total += Groups::bytes(rows, dims);
  // The order, and while it is made the sizes that it goes by.
  if (rung == Rung::int8) total += padded * quads_of(dims) * 4 + rows * 8 + tiles * 4 + order_bytes;
  if (rung == Rung::int8 && dims <= most_whole_dims) total += padded * 4;
  if (rung == Rung::int8 && packing.second)
    total += padded * (SecondBytes::stride(dims) + 4) + tiles * static_cast<std::int64_t>(sizeof(SecondNorms));
  if (needs_norms(metric)) total += rows * (metric == Metric::correlation ? 16 : 8);
  return total;
}

namespace {

void group_chunk(const Kernels& kernels, const Question& question, Team& team, PackedRows& out) {
  const Points& corpus = question.corpus;
  const std::int64_t dims = corpus.cols, count = out.count;
  Buffer<double> points(count * dims);
  Scratches scratches(team, dims);
  std::atomic<bool> unfit{false};
  team.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    for (std::int64_t row = tile * tile_rows; row < std::min(count, (tile + 1) * tile_rows); ++row) {
      SelfProduct product;
      if (!load_checked(kernels, question, corpus, out.first + row, scratch, product)) unfit = true;
      std::copy_n(scratch.row.data(), dims, points.data() + row * dims);
    }
    team.tick(0);
  });
  if (unfit) report_unfit_rows(kernels, question, corpus, "corpus", team);
  out.groups.build(points.data(), count, dims, team);
}

}  // namespace

void prepare_rows(const Kernels& kernels, const Question& question, Rung rung, const BoundModel* model,
                  const Frame* frame, Packing packing, std::int64_t first, std::int64_t count, Team& team,
                  PackedRows& out) {
  const Points& corpus = question.corpus;
  const std::int64_t dims = corpus.cols;
  const bool norms = needs_norms(question.metric), integers = corpus.dtype == DType::u8 || corpus.dtype == DType::i8;
  out.first = first;
  out.count = count;
  out.rung = rung;
  const std::int64_t panels = (count + panel_rows - 1) / panel_rows;
  if (rung != Rung::canonical) {
    grow(out.terms, panels * panel_rows);
    out.tiles.assign(static_cast<std::size_t>(out.tile_count()), FilterNorms{});
  }
  Buffer<float> sizes(rung == Rung::int8 ? count : 0);
  if (rung == Rung::canonical && packing.groups) return group_chunk(kernels, question, team, out);
  if (rung == Rung::f32) grow(out.panels, panels * panel_rows * dims);
  if (norms) grow(out.norms.self, count);
  if (question.metric == Metric::correlation) grow(out.norms.mean, count);
  if (rung == Rung::canonical && !norms && integers) return;  // nothing to check and nothing to make

  Scratches scratches(team, dims);
  std::atomic<bool> unfit{false};
  team.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    const std::int64_t begin = tile * tile_rows, end = std::min(count, begin + tile_rows);
    for (std::int64_t at = begin; at < end; at += panel_rows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(panel_rows, end - at));
      for (int r = 0; r < rows; ++r) {
        SelfProduct product;
        if (!load_checked(kernels, question, corpus, first + at + r, scratch, product)) {
          unfit = true;
          return;
        }
        if (norms) {
          out.norms.self[at + r] = product.self;
          if (question.metric == Metric::correlation) out.norms.mean[at + r] = product.mean;
        }
        if (rung == Rung::canonical) continue;
        const Affine map = affine(question.metric, product, frame->scale);
        const double* row = scratch.row.data();
        if (rung == Rung::int8) {
          sizes[at + r] = size_of(kernels, *frame, map, scratch);
          continue;
        }
        float& term = out.terms[at + r];
        const FilterNorms rounded =
            round_row(kernels, *model, *frame, row, map, scratch.floats.data() + r * dims, term);
        // A degenerate row has distance 1 to everything, which the filter cannot see: it is always a candidate.
        if (product.self < 0) term = -std::numeric_limits<float>::infinity();
        if (std::isinf(term)) continue;
        take_maxima(out.tiles[static_cast<std::size_t>(tile)], rounded);
      }
      team.tick(0);
      if (rung != Rung::f32) continue;
      for (int r = rows; r < panel_rows; ++r) out.terms[at + r] = 0.0F;
      kernels.pack(scratch.floats.data(), dims, rows, panel_rows, dims, out.panels.data() + at * dims);
    }
  });
  if (unfit) report_unfit_rows(kernels, question, corpus, "corpus", team);
  if (rung == Rung::int8)
    pack_bytes(kernels, question, *model, *frame, sizes, packing.second && !(frame->whole > 0), team, out);
}

namespace {

/// What is known of a query before it is rounded. row: it, in fp64.
void describe_query(const Question& question, const Frame& frame, const double* row, std::int64_t dims,
                    QueryFacts& facts) {
  facts.scale = frame.scale;
  facts.filterable = frame.usable && facts.self >= 0;
  double largest = 0;
  for (std::int64_t j = 0; j < dims; ++j) largest = std::max(largest, std::fabs(row[j]));
  if (!(largest > 0) || needs_norms(question.metric)) return;
  // Queries of a product have a scale of their own, unless they are to be rows as well.
  const bool own_scale = filter_sum_of(question.metric) == Sum::products && !question.symmetric;
  if (own_scale) facts.scale = power_of_two(largest);
  const int exponent = std::ilogb(largest);
  const int above = exponent + std::ilogb(frame.scale);  // of the scaled query, where the corpus is about 0
  if (std::abs(exponent) >= extreme_exponent || (!own_scale && above > far_exponent)) facts.filterable = false;
}

}  // namespace

void prepare_queries(const Kernels& kernels, const ByteKernels* bytes, const std::vector<float>* steps, bool second,
                     const Question& question, const BoundModel* model, const Frame* frame, const Points& queries,
                     std::span<const std::int64_t> rows, std::int64_t block, Team& team, PackedQueries& out) {
  const std::int64_t dims = queries.cols, lanes = kernels.query_lanes;
  out.count = static_cast<std::int64_t>(rows.size());
  out.block = block;
  out.lanes = lanes;
  out.block_panels = (block + lanes - 1) / lanes;
  out.facts.assign(rows.size(), QueryFacts{});
  if (bytes != nullptr) {
    grow(out.quads, out.block_count() * out.block_size(query_width(bytes->layout, quads_of(dims))));
    out.steps.assign(static_cast<std::size_t>(out.block_count()), 0.0F);
    if (second) grow(out.second, out.count * 2 * SecondBytes::stride(dims));
    if (!second) out.second = {};
  } else if (model != nullptr) {
    grow(out.panels, out.block_count() * out.block_size(dims));
  }
  std::vector<float> sizes(bytes != nullptr ? rows.size() : 0);
  Scratches scratches(team, dims);
  std::atomic<bool> unfit{false};
  const std::int64_t panels = out.block_count() * out.block_panels;
  team.for_each(panels, [&](std::int64_t panel, int worker) {
    PrepareScratch& scratch = scratches.of(worker);
    const PackedQueries::Part part = out.part(panel);
    for (std::int64_t i = 0; i < part.used; ++i) {
      const double* row = scratch.row.data();
      QueryFacts& facts = out.facts[static_cast<std::size_t>(part.begin + i)];
      SelfProduct product;
      if (!load_checked(kernels, question, queries, rows[static_cast<std::size_t>(part.begin + i)], scratch, product)) {
        unfit = true;
        return;
      }
      facts.self = product.self;
      facts.mean = product.mean;
      facts.filterable = false;
      if (model == nullptr) continue;
      describe_query(question, *frame, row, dims, facts);
      const Affine map = affine(question.metric, product, facts.scale);
      if (bytes != nullptr) {
        sizes[static_cast<std::size_t>(part.begin + i)] = size_of(kernels, *frame, map, scratch);
        continue;
      }
      float* floats = scratch.floats.data() + i * dims;
      const Residuals sums =
          residuals(kernels.quantise({row, frame->centre.data(), map.shift, map.factor, dims, floats}));
      facts.norms = filter_norms(*model, sums);
      facts.square = sums.nn;
      if (!std::isfinite(row_term(*model, sums, facts.norms))) facts.filterable = false;
    }
    team.tick(0);
    if (model == nullptr || bytes != nullptr) return;
    kernels.pack(scratch.floats.data(), dims, static_cast<int>(part.used), static_cast<int>(lanes), dims,
                 out.panels.data() + panel * lanes * dims);
  });
  if (unfit) report_unfit_rows(kernels, question, queries, "query", team);
  if (bytes == nullptr) return;
  for (std::int64_t i = 0; i < out.count; ++i) {
    float& step = out.steps[static_cast<std::size_t>(i / block)];
    if (out.facts[static_cast<std::size_t>(i)].filterable) step = std::max(step, sizes[static_cast<std::size_t>(i)]);
  }
  for (float& step : out.steps) step = byte_step(*frame, step);
  if (steps != nullptr) out.steps = *steps;
  team.for_each(panels, [&](std::int64_t panel, int worker) {
    pack_query_bytes(kernels, *bytes, question, *model, *frame, queries, rows, panel, scratches.of(worker), out);
    team.tick(0);
  });
}

}  // namespace vicinal::cpu
