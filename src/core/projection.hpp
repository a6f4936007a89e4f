// Rows projected before they are rounded to bytes. A projected row has fewer columns, its products with some directions
// and the length of what these leave of it, and distances of projected rows are never larger than those of the rows
// (docs/exactness.md, section 8.12; docs/design/0052). Where a few directions hold most of what tells rows apart, as in
// pictures and embeddings, a filter reads a third or a sixth of the columns and excludes nearly as much.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/divide.hpp"
#include "core/function_ref.hpp"

namespace vicinal {

/// A Projection takes x to (B x, sqrt(|x|^2 - |B x|^2)) with a matrix B whose norm is at most 1.
class Projection {
 public:
  /// None: rows stay as they are.
  Projection() = default;
  /// It keeps directions, [count][dims], in single precision, and makes them so much shorter that the norm is proved.
  /// It is none where they are far from being orthonormal. poll: called every millisecond or two, and may throw.
  Projection(std::int64_t dims, std::span<const double> directions, FunctionRef<void()> poll)
      : dims_(dims), directions_(static_cast<std::int64_t>(directions.size()) / dims),
        matrix_(static_cast<std::size_t>(directions_ * stride())) {
    for (std::int64_t j = 0; j < directions_; ++j)
      for (std::int64_t i = 0; i < dims; ++i)
        row(j)[i] = static_cast<float>(directions[static_cast<std::size_t>(j * dims + i)]);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const double norm = square_of_norm(poll);
      if (norm <= 1) return;
      if (!(norm < most_square)) break;
      const double factor = (1 - shorter) / std::sqrt(norm);
      for (float& x : matrix_) x = static_cast<float>(static_cast<double>(x) * factor);
    }
    *this = {};
  }

  bool present() const noexcept { return directions_ > 0; }
  /// The columns of a projected row.
  std::int64_t columns() const noexcept { return directions_ + 1; }
  std::int64_t directions() const noexcept { return directions_; }
  std::int64_t dims() const noexcept { return dims_; }
  /// [directions][stride], filled up with zeros.
  const float* matrix() const noexcept { return matrix_.data(); }
  std::int64_t stride() const noexcept { return stride_of(dims_); }
  static std::int64_t stride_of(std::int64_t dims) noexcept { return rounded_up(dims, 16); }
  std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(matrix_.size() * sizeof(float)); }

  /// It returns the last column. square, projected: the squares of a row and of its products with the directions, each
  /// summed in any order.
  static double left_over(double square, double projected) noexcept {
    const double rest = square - projected;
    return rest < 0 ? 0.0 : std::sqrt(rest);  // what is no number, of a row that leaves binary64, stays so
  }

  /// The length of what a projected row errs by, in units of 2^-53 of the row's, where its products are sums of
  /// binary64 in any order.
  double roundings() const noexcept {
    if (!present()) return 0;
    const double d = static_cast<double>(dims_), p = static_cast<double>(directions_);
    const double products = (d + 2) * std::sqrt(p) * unit;            // |y~ - B x|, of |x|
    const double square = 2 * products + (2 * d + 2 * p + 8) * unit;  // of the last column's square, of |x|^2
    return (products + std::sqrt(square) + 2 * unit) * (1 + 0x1p-10) / unit;
  }
  /// What underflow moves a projected row by besides: the root of squares that are too small for binary64.
  static constexpr double underflow = 0x1p-500;

 private:
  static constexpr double unit = 0x1p-53;
  static constexpr double most_square = 1.5;  // of the norm: beyond it directions are far from being orthonormal
  static constexpr double shorter = 0x1p-18;  // than their norm asks for, which leaves room for single precision

  float* row(std::int64_t j) noexcept { return matrix_.data() + j * stride(); }

  /// sum of x_i y_i, in four parts.
  static double product(const float* x, const float* y, std::int64_t stride) noexcept {
    double sums[4] = {};
    for (std::int64_t i = 0; i < stride; i += 4)
      for (int j = 0; j < 4; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(y[i + j]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  /// It returns at least the square of the matrix's norm, the largest eigenvalue of B B^T, which is at most the largest
  /// sum of the magnitudes of one of its rows; most_square where that is more, or no number.
  double square_of_norm(FunctionRef<void()> poll) const {
    std::vector<double> sums(static_cast<std::size_t>(directions_));
    for (std::int64_t i = 0; i < directions_; ++i) {
      poll();
      for (std::int64_t j = i; j < directions_; ++j) {
        const double size = std::fabs(product(matrix_.data() + i * stride(), matrix_.data() + j * stride(), stride()));
        sums[static_cast<std::size_t>(i)] += size;
        if (j > i) sums[static_cast<std::size_t>(j)] += size;
      }
    }
    double largest = 0;
    for (const double sum : sums) {
      if (!(sum < most_square)) return most_square;  // or no number
      largest = std::max(largest, sum);
    }
    const double d = static_cast<double>(dims_), p = static_cast<double>(directions_);
    return largest * (1 + (p + 2) * unit) + 2 * p * (d + 4) * unit;
  }

  std::int64_t dims_ = 0, directions_ = 0;
  std::vector<float> matrix_;
};

}  // namespace vicinal
