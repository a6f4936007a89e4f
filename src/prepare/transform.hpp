// How rows become filter rows: moved, scaled, and for cosine and correlation divided by their canonical norm.
#pragma once
#include <cstdint>

#include "backend/search.hpp"
#include "core/buffer.hpp"
#include "core/projection.hpp"
#include "core/rotation.hpp"
#include "prepare/row_kernels.hpp"

namespace vicinal {

/// A Transform takes x to x' = (x - shift) * factor - centre, and projects and rotates it if at all. It is chosen from a
/// sample of rows all over the corpus; any choice is sound, because quantization errors are measured afterwards. A CUDA device
/// chooses by the same rule (src/cuda/search/prepare/transform.cuh).
struct Transform {
  Buffer<double> centre;  // dims values, already scaled; aligned, for every row is read against it
  double scale = 1;       // power of two that brings the sample's largest elements to about 1; 1 for unit rows
  bool usable = true;     // false: exponents so extreme that float proves nothing
  // In precisions of codes: sampled rows are multiples of this within their range; 0: they are not.
  double integral_step = 0;
  // int8 precision of the CPU, which adds these where the pilot or the caller says so.
  Projection projection;
  Rotation rotation;  // of projected rows, where there is a projection

  /// The columns of the filter's rows.
  std::int64_t columns() const noexcept { return projection.present() ? projection.columns() : centre.size(); }
  double roundings() const noexcept { return projection.roundings() + rotation.roundings(); }
};
Transform choose_transform(const RowKernels& kernels, const SearchSpec& spec, Precision precision,
                           ThreadPool& thread_pool);

/// It returns the power of two that brings `largest` into [1, 2).
double power_of_two(double largest) noexcept;

/// A SelfProduct is a row's canonical product with itself (of the shifted row for correlation), and its mean.
struct SelfProduct {
  double self = 0;  // degenerate_self where the row is degenerate, and allowed to be
  double mean = 0;  // correlation only
  bool fit = true;  // false: the contract refuses this row; check.hpp says how
};
SelfProduct self_product(const RowKernels& kernels, const double* row, std::int64_t dims, const SearchSpec& spec,
                         DType dtype);

/// An Affine map takes x to (x - shift) * factor, before the centre is taken away.
struct Affine {
  double shift = 0, factor = 1;
};
Affine affine(Metric metric, const SelfProduct& product, double scale) noexcept;

}  // namespace vicinal
