// Rows rotated before they are rounded to bytes. Rotated rows have the distances and products of the rows, but elements
// of one size: where a few columns are much larger than the rest, or a few elements of each row, their step no longer
// drowns the others
// (docs/exactness.md, section 8; docs/design/0025). d log2(d) additions a row.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace vicinal {

/// Random signs, then a Hadamard transform of p columns, p the largest power of two that there are. Where that leaves
/// columns over, the same again on the last p of them: rows keep their width, and each column meets at least p others.
class Rotation {
 public:
  /// None: rows stay as they are.
  Rotation() = default;
  explicit Rotation(std::int64_t dims)
      : dims_(dims), span_(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(dims)))),
        signs_(static_cast<std::size_t>(span_ < dims ? 2 * span_ : span_)) {
    std::mt19937_64 random(0x5269);                                 // whose numbers are the same everywhere
    const double unit = std::sqrt(1 / static_cast<double>(span_));  // one rounding
    for (double& sign : signs_) sign = random() % 2 == 0 ? unit : -unit;
  }

  bool present() const noexcept { return !signs_.empty(); }
  static std::int64_t bytes(std::int64_t dims) noexcept { return 2 * dims * 8; }  // at most

  /// Additions and products of a row.
  double operations() const noexcept { return static_cast<double>(signs_.size()) * (stages() + 1); }

  /// The length of what apply() errs by, in units of 2^-53 of the row's: of each pass a root, a product and a sum of
  /// each stage, and one for what is of higher order.
  double roundings() const noexcept {
    const double passes = span_ < dims_ ? 2 : 1;
    return present() ? passes * (stages() + 2) + 1 : 0;
  }

  /// In place.
  void apply(double* row) const noexcept {
    const double* sign = signs_.data();
    for (std::int64_t left = static_cast<std::int64_t>(signs_.size()); left > 0; left -= span_, sign += span_) {
      double* part = sign == signs_.data() ? row : row + dims_ - span_;
      for (std::int64_t i = 0; i < span_; ++i) part[i] *= sign[i];
      transform(part, span_);
    }
  }

 private:
  int stages() const noexcept { return std::countr_zero(static_cast<std::uint64_t>(span_)); }

  using Pair = double __attribute__((vector_size(16)));

  /// Two stages at once, of elements `apart` from each other.
  template <class T>
  static void four(double* x, std::int64_t apart) noexcept {
    T a, b, c, d;
    std::memcpy(&a, x, sizeof(T));
    std::memcpy(&b, x + apart, sizeof(T));
    std::memcpy(&c, x + 2 * apart, sizeof(T));
    std::memcpy(&d, x + 3 * apart, sizeof(T));
    const T s = a + b, t = a - b, u = c + d, v = c - d;
    a = s + u;
    b = t + v;
    c = s - u;
    d = t - v;
    std::memcpy(x, &a, sizeof(T));
    std::memcpy(x + apart, &b, sizeof(T));
    std::memcpy(x + 2 * apart, &c, sizeof(T));
    std::memcpy(x + 3 * apart, &d, sizeof(T));
  }

  static void transform(double* x, std::int64_t count) noexcept {
    std::int64_t apart = count;
    while (apart >= 8) {
      apart /= 4;
      for (std::int64_t first = 0; first < count; first += 4 * apart)
        for (std::int64_t i = first; i < first + apart; i += 2) four<Pair>(x + i, apart);
    }
    if (apart == 4)
      for (std::int64_t i = 0; i < count; i += 4) four<double>(x + i, 1);
    if (apart == 2)
      for (std::int64_t i = 0; i < count; i += 2) {
        const double a = x[i], b = x[i + 1];
        x[i] = a + b;
        x[i + 1] = a - b;
      }
  }

  std::int64_t dims_ = 0, span_ = 0;
  std::vector<double> signs_;  // of each pass, each +-1 / sqrt(span_)
};

}  // namespace vicinal
