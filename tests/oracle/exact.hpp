// Exact arithmetic on binary fractions: integer times a power of two, no rounding ever. Distances of stored values are
// such numbers, so this is the judge of the fp64 oracle: its order, its rounding and its error bound. For small cases.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace oracle {

/// sign * mantissa * 2^exponent; the mantissa is little-endian in base 2^32 without leading zeros.
class Exact {
 public:
  Exact() = default;
  Exact(double value);  // NOLINT(google-explicit-constructor): every finite double is one

  friend Exact operator+(const Exact& a, const Exact& b);
  friend Exact operator-(const Exact& a, const Exact& b);
  friend Exact operator*(const Exact& a, const Exact& b);
  /// -1, 0 or 1.
  friend int compare(const Exact& a, const Exact& b);
  friend bool operator<(const Exact& a, const Exact& b) { return compare(a, b) < 0; }
  friend bool operator<=(const Exact& a, const Exact& b) { return compare(a, b) <= 0; }
  friend bool operator==(const Exact& a, const Exact& b) { return compare(a, b) == 0; }

  Exact negated() const;
  Exact absolute() const;
  Exact times_power(int power) const;
  int sign() const { return mantissa_.empty() ? 0 : negative_ ? -1 : 1; }
  /// Nearest, ties to even, subnormals kept; infinity beyond the largest finite value.
  double to_f64() const { return rounded(53, -1074, 1024); }
  double to_f32() const { return rounded(24, -149, 128); }

 private:
  using Digits = std::vector<std::uint32_t>;
  Exact(bool negative, Digits mantissa, int exponent)
      : negative_(negative), mantissa_(std::move(mantissa)), exponent_(exponent) {}
  static Digits shifted(const Digits& digits, int bits);
  static int compare_digits(const Digits& a, const Digits& b);
  static std::pair<Digits, Digits> aligned(const Exact& a, const Exact& b, int& exponent);
  double rounded(int precision, int lowest, int highest) const;

  bool negative_ = false;
  Digits mantissa_;
  int exponent_ = 0;
};

Exact exact_sqdist(const double* q, const double* r, std::int64_t d);
Exact exact_l1(const double* q, const double* r, std::int64_t d);
Exact exact_linf(const double* q, const double* r, std::int64_t d);
Exact exact_dot(const double* q, const double* r, std::int64_t d);
/// Sum of |q_i r_i|, by which the error of a dot is measured.
Exact exact_dot_size(const double* q, const double* r, std::int64_t d);

}  // namespace oracle
