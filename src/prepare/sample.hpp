// Rows of the corpus from all over it, for what is chosen before the search.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/canonical.hpp"
#include "core/visit_order.hpp"
#include "prepare/load.hpp"
#include "prepare/transform.hpp"

namespace vicinal {

/// A Sample reads sampled rows, one after another, as fp64, mapped to unit rows where the metric asks for it.
class Sample {
 public:
  /// It takes as many rows as have `elements` in all, but 16 to `most`. skipped: rows of another sample, whose turn comes
  /// last.
  Sample(const RowKernels& kernels, const SearchSpec& spec, std::int64_t most, std::int64_t elements,
         ThreadPool& thread_pool, std::int64_t skipped = 0)
      : kernels_(kernels), spec_(spec), thread_pool_(thread_pool), rows_(spec.corpus),
        order_(std::max<std::int64_t>(rows_.rows, 1)),
        count_(std::min(rows_.rows, std::clamp<std::int64_t>(elements / rows_.cols, 16, most))), skipped_(skipped),
        row_(rows_.cols), gathered_(rows_.cols) {}

  std::int64_t count() const noexcept { return count_; }
  /// It returns row i of the sample, or null where no filter takes it (prepare_rows will report it or set it apart).
  const double* row(std::int64_t i) {
    thread_pool_.poll(0);
    load_row(kernels_, rows_, order_.at((i + skipped_) % rows_.rows), gathered_.data(), row_.data());
    if (kernels_.first_bad(row_.data(), rows_.cols) >= 0) return nullptr;
    if (!needs_norms(spec_.metric)) return row_.data();
    const SelfProduct product = self_product(kernels_, row_.data(), rows_.cols, spec_, rows_.dtype);
    if (!product.fit || is_degenerate_self(product.self)) return nullptr;
    const Affine map = affine(spec_.metric, product, 1.0);
    for (std::int64_t j = 0; j < rows_.cols; ++j) row_[j] = (row_[j] - map.shift) * map.factor;
    return row_.data();
  }

 private:
  RowKernels kernels_;
  const SearchSpec& spec_;
  ThreadPool& thread_pool_;
  const Points& rows_;
  VisitOrder order_;
  std::int64_t count_, skipped_;
  Buffer<double> row_, gathered_;
};

}  // namespace vicinal
