// See rerank.hpp. The values come from the canonical kernels; nothing here rounds but fold_key.
#include "cpu/rerank/rerank.hpp"

#include <cmath>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"

namespace vicinal::cpu {
namespace {

/// The kernels of the metric's sum, one a type of the rows; null for bits, which are counted.
const CanonicalFn* sums_of(const Kernels& kernels, Metric metric) {
  const Sum sum = sum_of(metric);
  if (sum == Sum::bits) return nullptr;
  if (sum == Sum::none) fail(ErrorCode::internal, cat(metric_info(metric).name, " is no sum over columns"));
  return metric == Metric::correlation ? kernels.shifted_products : kernels.canonical[static_cast<int>(sum)];
}

std::int64_t row_bytes(std::int64_t dims, DType dtype) { return dims * static_cast<std::int64_t>(dtype_size(dtype)); }

}  // namespace

RankScratch::RankScratch(std::int64_t dims, DType corpus, bool plain)
    : query(dims), values(rank_block), shifts(rank_block), entries(rank_block), bits(rank_block),
      rows((plain ? 1 : gather_block + 1) * std::max<std::int64_t>(row_bytes(dims, corpus), dims * 8)) {}

std::int64_t RankScratch::bytes(std::int64_t dims, DType corpus, bool plain) noexcept {
  return dims * 8 + rank_block * 36 + (plain ? 1 : gather_block + 1) * std::max(row_bytes(dims, corpus), dims * 8) +
         512;
}

Ranker::Ranker(const Kernels& kernels, const SearchSpec& spec, const Points& queries, RankScratch& scratch)
    : kernels_(kernels), spec_(spec), queries_(queries), scratch_(scratch), sums_(sums_of(kernels, spec.metric)),
      plain_(spec.corpus.plain_rows()) {}

void Ranker::start(std::int64_t row, const QueryFacts& facts) {
  self_ = facts.self;
  double* query = scratch_.query.data();
  if (spec_.metric == Metric::hamming) {
    gather_row(queries_, row, query);  // raw bytes
    return;
  }
  load_row(kernels_, queries_, row, scratch_.rows.data(), query);
  if (spec_.metric == Metric::correlation)
    for (std::int64_t i = 0; i < queries_.cols; ++i) query[i] -= facts.mean;
}

void Ranker::sums(const Points& rows, const std::uint32_t* index, std::int64_t count, const double* shifts,
                  double* out) {
  if (sums_ == nullptr) {
    kernels_.hamming({reinterpret_cast<const std::uint8_t*>(scratch_.query.data()),
                      static_cast<const std::uint8_t*>(rows.data), rows.row_stride, index, count, rows.cols,
                      scratch_.bits.data()});
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(scratch_.bits[i]);
    return;
  }
  sums_[static_cast<int>(rows.dtype)](
      {scratch_.query.data(), rows.data, rows.row_stride, index, count, rows.cols, shifts, out});
}

std::span<const Entry> Ranker::rank(const PackedRows& chunk, const std::uint32_t* index, std::int64_t first,
                                    std::int64_t count) {
  const Metric metric = spec_.metric;
  const MetricRow metric_row = row_of(metric);
  const bool norms = needs_norms(metric), descends = descending(metric);
  const DistanceType type = spec_.type;
  const Points rows = spec_.corpus.slice(chunk.first, chunk.count);
  const std::int64_t step = plain_ ? rank_block : gather_block;
  double* values = scratch_.values.data();
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t used = std::min(step, count - begin);
    const auto number = [&](std::int64_t i) {
      return index != nullptr ? std::int64_t{index[begin + i]} : first + begin + i;
    };
    const double* shifts = nullptr;
    if (metric == Metric::correlation) {
      for (std::int64_t i = 0; i < used; ++i) scratch_.shifts[i] = chunk.norms.mean[number(i)];
      shifts = scratch_.shifts.data();
    }
    if (!plain_) {
      const std::int64_t bytes = row_bytes(rows.cols, rows.dtype);
      for (std::int64_t i = 0; i < used; ++i) gather_row(rows, number(i), scratch_.rows.data() + i * bytes);
      sums(Points(scratch_.rows.data(), rows.dtype, used, rows.cols), nullptr, used, shifts, values);
    } else if (index != nullptr) {
      sums(rows, index + begin, used, shifts, values);
    } else {
      sums(rows.slice(first + begin, used), nullptr, used, shifts, values);
    }
    for (std::int64_t i = 0; i < used; ++i) {
      const std::int64_t row = number(i);
      double value;
      if (norms) {
        const double self = chunk.norms.self[row];
        value = is_degenerate_self(self) || is_degenerate_self(self_)
                    ? 1.0
                    : canonical_value(metric_row, values[i], self_, self);
      } else {
        value = canonical_value(metric_row, values[i], 0, 0);
      }
      if (std::isnan(value)) report_undefined_product(chunk.first + row);
      scratch_.entries[begin + i] = {fold_key(value, type, descends), spec_.first_id + chunk.first + row};
    }
  }
  return {scratch_.entries.data(), static_cast<std::size_t>(count)};
}

bool Ranker::underflows(std::int64_t corpus_row) {
  const Points row = spec_.corpus.slice(corpus_row, 1);
  if (plain_) {
    sums(row, nullptr, 1, nullptr, scratch_.values.data());
  } else {
    gather_row(row, 0, scratch_.rows.data());
    sums(Points(scratch_.rows.data(), row.dtype, 1, row.cols), nullptr, 1, nullptr, scratch_.values.data());
  }
  return canonical_value(spec_.metric, scratch_.values[0], 0, 0) != 0;
}

}  // namespace vicinal::cpu
