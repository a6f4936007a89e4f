// Rows projected to fewer columns (core/projection.hpp) before they are rounded to bytes, four at a time.
#pragma once
#include <cmath>
#include <limits>

#include "core/bound.hpp"
#include "core/buffer.hpp"
#include "cpu/isa/kernels.hpp"
#include "prepare/transform.hpp"

namespace vicinal::cpu {

/// It takes a row to (row - shift) * factor - centre.
void move_row(const Transform& transform, const Affine& map, const double* row, double* out) noexcept;

/// It projects `count` rows that were moved, [count][dims], to `out`, [count][columns].
void project_moved(const Kernels& kernels, const Projection& projection, const double* moved, std::int64_t count,
                   double* out);

/// A RowProjector moves rows one by one, and projects and rotates them when it has four. flush() ends the last.
class RowProjector {
 public:
  /// out: [rows][columns], in the order in which they are added.
  RowProjector(const Kernels& kernels, const Transform& transform, double* out)
      : kernels_(kernels), transform_(transform), moved_(at_once * transform.centre.size()), out_(out) {}

  void add(const Affine& map, const double* row) {
    move_row(transform_, map, row, moved_.data() + waiting_ * transform_.centre.size());
    if (++waiting_ == at_once) flush();
  }
  void flush();

 private:
  static constexpr std::int64_t at_once = 4;
  const Kernels& kernels_;
  const Transform& transform_;
  Buffer<double> moved_;
  std::int64_t waiting_ = 0;
  double* out_;
};

/// It describes a row that was projected or rotated to the int8 kernels. zeros: [columns].
inline Int8QuantizeArgs int8_args_of(const double* row, const double* zeros, std::int64_t columns, double step,
                                     void* out) {
  return {.row = row,
          .dtype = DType::f64,
          .centre = zeros,
          .shift = 0,
          .scale = 1,
          .step = step,
          .inverse = 1 / step,
          .dims = columns,
          .out = static_cast<std::int8_t*>(out)};
}

/// max |x'| of a row, rounded up; infinity where one of them is not finite.
inline float size_of(const Kernels& kernels, const Int8QuantizeArgs& row) {
  const double largest = kernels.largest_of(row);
  return std::isnan(largest) ? std::numeric_limits<float>::infinity() : up32(largest);
}

}  // namespace vicinal::cpu
