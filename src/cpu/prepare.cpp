// See prepare.hpp. Order within a row: load to fp64, check, norms (cosine, correlation), round, pack with its panel.
#include "cpu/prepare.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "core/hash.hpp"
#include "core/text.hpp"
#include "cpu/check.hpp"
#include "cpu/load.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t sample_rows = 1024;
constexpr int extreme_exponent = 400;  // beyond it, scale * scale leaves fp64
constexpr int far_exponent = 60;       // queries so much larger than the corpus skip the rung

/// One thread's memory while it prepares: fp64 row, gathered row, one panel of float rows.
struct Scratch {
  explicit Scratch(std::int64_t dims) : row(dims), gathered(dims), floats(dims * panel_rows) {}
  Buffer<double> row, gathered;
  Buffer<float> floats;
};

struct SelfProduct {
  double self = 0, mean = 0;
};

/// Canonical self product of a row that is already fp64; -1 when degenerate. Throws RangeError for f64 extremes.
SelfProduct self_product(const Kernels& kernels, const double* row, std::int64_t dims, Metric metric, DType dtype,
                         std::int64_t number, const char* side) {
  SelfProduct result;
  constexpr int f64 = static_cast<int>(DType::f64);
  CanonicalArgs args{nullptr, row, 0, nullptr, 1, dims, nullptr, &result.mean};
  if (metric == Metric::correlation) {
    kernels.canonical[static_cast<int>(Op::sum)][f64](args);
    result.mean /= static_cast<double>(dims);
    args.shift = &result.mean;
  }
  args.out = &result.self;
  kernels.canonical[static_cast<int>(metric == Metric::correlation ? Op::self_shifted : Op::self_dot)][f64](args);
  if (is_degenerate(row, dims, metric)) {
    result.self = -1;
  } else if (dtype == DType::f64 && !(result.self >= 0x1p-500 && result.self <= 0x1p500)) {
    report_norm_range(number, side, metric);
  }
  return result;
}

/// (x - shift) * factor of the row, before the centre is taken away.
struct Affine {
  double shift = 0, factor = 1;
};
Affine affine(Metric metric, const SelfProduct& product, double scale) {
  if (!needs_norms(metric)) return {0.0, scale};
  return {metric == Metric::correlation ? product.mean : 0.0, product.self > 0 ? 1.0 / std::sqrt(product.self) : 0.0};
}

Residuals residuals(const RowFacts& f) { return {f.xx, f.nn, f.ee, f.e_abs, f.e_max, f.n_abs}; }

double power_of_two(double largest) { return std::ldexp(1.0, -std::ilogb(largest)); }

}  // namespace

Frame choose_frame(const Kernels& kernels, const Question& question) {
  const Points& rows = question.corpus;
  const std::int64_t dims = rows.cols, count = std::min(rows.rows, sample_rows);
  const Form form = form_of(question.metric);
  Frame frame;
  frame.centre = Buffer<double>(dims);
  double* const centre = frame.centre.data();
  std::fill_n(centre, dims, 0.0);
  Scratch scratch(dims);
  std::vector<double> low(static_cast<std::size_t>(dims), infinite), high(low.size(), -infinite);
  const VisitOrder order(std::max<std::int64_t>(rows.rows, 1));
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = order.at(i);
    load_row(kernels, rows, number, scratch.gathered.data(), scratch.row.data());
    if (kernels.first_bad(scratch.row.data(), dims) >= 0) continue;  // prepare_rows will report it
    Affine map;
    if (needs_norms(question.metric)) {
      const SelfProduct product = self_product(kernels, scratch.row.data(), dims, question.metric, rows.dtype, number, "corpus");
      if (product.self < 0) continue;
      map = affine(question.metric, product, 1.0);
    }
    ++used;
    for (std::int64_t j = 0; j < dims; ++j) {
      const double value = (scratch.row[j] - map.shift) * map.factor;
      const auto at = static_cast<std::size_t>(j);
      centre[j] += value / static_cast<double>(count);
      low[at] = std::min(low[at], value);
      high[at] = std::max(high[at], value);
    }
  }
  if (used == 0 || form == Form::ip) std::fill_n(centre, dims, 0.0);
  double largest = 0;
  for (std::int64_t j = 0; j < dims; ++j) {
    if (rows.dtype == DType::u8 || rows.dtype == DType::i8) {
      if (form != Form::unit_l2) centre[j] = std::nearbyint(centre[j]);  // integers stay integers: no residual at all
    } else {
      centre[j] = static_cast<double>(static_cast<float>(centre[j]));
    }
    if (!std::isfinite(centre[j])) centre[j] = 0.0;
    if (used > 0) largest = std::max({largest, std::fabs(high[static_cast<std::size_t>(j)] - centre[j]),
                                       std::fabs(low[static_cast<std::size_t>(j)] - centre[j])});
  }
  if (form == Form::unit_l2 || !(largest > 0) || !std::isfinite(largest)) {
    frame.usable = std::isfinite(largest);
    return frame;
  }
  frame.usable = std::abs(std::ilogb(largest)) < extreme_exponent;
  if (!frame.usable) return frame;
  frame.scale = power_of_two(largest);
  for (std::int64_t j = 0; j < dims; ++j) centre[j] *= frame.scale;
  return frame;
}

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
  std::atomic<bool> bad{false}, degenerate{false};
  team.for_each(out.tile_count(), [&](std::int64_t tile, int worker) {
    auto& scratch = scratches[static_cast<std::size_t>(worker)];
    if (!scratch) scratch = std::make_unique<Scratch>(dims);
    const std::int64_t begin = tile * tile_rows, end = std::min(count, begin + tile_rows);
    for (std::int64_t at = begin; at < end; at += panel_rows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(panel_rows, end - at));
      for (int r = 0; r < rows; ++r) {
        double* row = scratch->row.data();
        load_row(kernels, corpus, first + at + r, scratch->gathered.data(), row);
        if (!integers && kernels.first_bad(row, dims) >= 0) {
          bad = true;
          return;
        }
        SelfProduct product;
        if (norms) {
          product = self_product(kernels, row, dims, question.metric, corpus.dtype, first + at + r, "corpus");
          if (product.self < 0 && question.degenerate == Degenerate::error) {
            degenerate = true;
            return;
          }
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
    }
    team.tick(0);
  });
  if (bad) report_bad_values(kernels, corpus, "corpus");
  if (degenerate) report_degenerate(kernels, corpus, "corpus", question.metric);
}

void prepare_queries(const Kernels& kernels, const Question& question, const BoundModel* model, const Frame* frame,
                     const Points& queries, std::span<const std::int64_t> rows, std::int64_t block, Team& team,
                     PackedQueries& out) {
  const std::int64_t dims = queries.cols, lanes = kernels.query_lanes;
  out.count = static_cast<std::int64_t>(rows.size());
  out.block = block;
  out.packed = model != nullptr;
  out.facts.assign(rows.size(), QueryFacts{});
  if (out.packed) grow(out.panels, out.block_count() * out.block_floats(dims));
  const bool product_form = form_of(question.metric) == Form::ip;
  std::vector<std::unique_ptr<Scratch>> scratches(static_cast<std::size_t>(team.threads()));
  std::atomic<bool> bad{false}, degenerate{false};
  const std::int64_t panels = out.block_count() * (block / lanes);
  team.for_each(panels, [&](std::int64_t panel, int worker) {
    auto& scratch = scratches[static_cast<std::size_t>(worker)];
    if (!scratch) scratch = std::make_unique<Scratch>(dims);
    const std::int64_t begin = panel * lanes;
    const int used = static_cast<int>(std::clamp<std::int64_t>(out.count - begin, 0, lanes));
    for (int i = 0; i < used; ++i) {
      double* row = scratch->row.data();
      const std::int64_t number = rows[static_cast<std::size_t>(begin + i)];
      load_row(kernels, queries, number, scratch->gathered.data(), row);
      if (kernels.first_bad(row, dims) >= 0) {
        bad = true;
        return;
      }
      QueryFacts& facts = out.facts[static_cast<std::size_t>(begin + i)];
      SelfProduct product;
      if (needs_norms(question.metric)) {
        product = self_product(kernels, row, dims, question.metric, queries.dtype, number, "query");
        if (product.self < 0 && question.degenerate == Degenerate::error) {
          degenerate = true;
          return;
        }
        facts.self = product.self;
        facts.mean = product.mean;
      }
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
      float* to = out.panels.data() + begin * dims;
      kernels.pack(scratch->floats.data(), dims, used, static_cast<int>(lanes), dims, to);
    }
  });
  if (bad) report_bad_values(kernels, queries, "query");
  if (degenerate) report_degenerate(kernels, queries, "query", question.metric);
}

}  // namespace vicinal::cpu
