#include "oracle/exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {
namespace {
using Digits = std::vector<std::uint32_t>;

void trim(Digits& digits) {
  while (!digits.empty() && digits.back() == 0) digits.pop_back();
}

Digits add_digits(const Digits& a, const Digits& b) {
  Digits sum(std::max(a.size(), b.size()) + 1);
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    carry += (i < a.size() ? a[i] : 0) + std::uint64_t{i < b.size() ? b[i] : 0};
    sum[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  trim(sum);
  return sum;
}

// a >= b
Digits subtract_digits(const Digits& a, const Digits& b) {
  Digits rest(a.size());
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    borrow += static_cast<std::int64_t>(a[i]) - (i < b.size() ? b[i] : 0);
    rest[i] = static_cast<std::uint32_t>(borrow);
    borrow >>= 32;
  }
  trim(rest);
  return rest;
}

int bit_length(const Digits& digits) {
  if (digits.empty()) return 0;
  int bits = static_cast<int>(digits.size() - 1) * 32;
  for (std::uint32_t top = digits.back(); top != 0; top >>= 1) ++bits;
  return bits;
}

bool bit(const Digits& digits, int position) {
  const auto word = static_cast<std::size_t>(position / 32);
  return position >= 0 && word < digits.size() && (digits[word] >> (position % 32) & 1);
}
}  // namespace

Exact::Exact(double value) {
  if (value == 0) return;
  int exponent = 0;
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
  negative_ = value < 0;
  exponent_ = exponent - 53;
  mantissa_ = {static_cast<std::uint32_t>(mantissa), static_cast<std::uint32_t>(mantissa >> 32)};
  trim(mantissa_);
}

Exact::Digits Exact::shifted(const Digits& digits, int bits) {
  Digits out(static_cast<std::size_t>(bits / 32), 0);
  std::uint64_t carry = 0;
  for (const std::uint32_t digit : digits) {
    carry |= std::uint64_t{digit} << (bits % 32);
    out.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  out.push_back(static_cast<std::uint32_t>(carry));
  trim(out);
  return out;
}

int Exact::compare_digits(const Digits& a, const Digits& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (std::size_t i = a.size(); i-- > 0;)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

std::pair<Digits, Digits> Exact::aligned(const Exact& a, const Exact& b, int& exponent) {
  exponent = a.mantissa_.empty() ? b.exponent_ : b.mantissa_.empty() ? a.exponent_ : std::min(a.exponent_, b.exponent_);
  return {a.mantissa_.empty() ? Digits{} : shifted(a.mantissa_, a.exponent_ - exponent),
          b.mantissa_.empty() ? Digits{} : shifted(b.mantissa_, b.exponent_ - exponent)};
}

Exact operator+(const Exact& a, const Exact& b) {
  int exponent = 0;
  const auto [x, y] = Exact::aligned(a, b, exponent);
  if (a.negative_ == b.negative_) return {a.negative_, add_digits(x, y), exponent};
  if (Exact::compare_digits(x, y) >= 0) return {a.negative_, subtract_digits(x, y), exponent};
  return {b.negative_, subtract_digits(y, x), exponent};
}

Exact operator-(const Exact& a, const Exact& b) { return a + b.negated(); }

Exact operator*(const Exact& a, const Exact& b) {
  Exact::Digits product(a.mantissa_.size() + b.mantissa_.size(), 0);
  for (std::size_t i = 0; i < a.mantissa_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.mantissa_.size() || carry != 0; ++j) {
      carry += product[i + j] + std::uint64_t{a.mantissa_[i]} * (j < b.mantissa_.size() ? b.mantissa_[j] : 0);
      product[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  trim(product);
  return {a.negative_ != b.negative_, std::move(product), a.exponent_ + b.exponent_};
}

int compare(const Exact& a, const Exact& b) { return (a - b).sign(); }

Exact Exact::negated() const { return {!negative_, mantissa_, exponent_}; }
Exact Exact::absolute() const { return {false, mantissa_, exponent_}; }
Exact Exact::times_power(int power) const { return {negative_, mantissa_, exponent_ + power}; }

double Exact::rounded(int precision, int lowest, int highest) const {
  if (mantissa_.empty()) return 0;
  const int length = bit_length(mantissa_);
  // The last bit kept has weight 2^unit; `drop` bits of the mantissa lie below it.
  const int unit = std::max(exponent_ + length - precision, lowest), drop = unit - exponent_;
  std::uint64_t kept = 0;
  for (int i = 0; i < 54; ++i) kept |= std::uint64_t{bit(mantissa_, drop + i)} << i;
  if (drop > 0 && bit(mantissa_, drop - 1)) {
    bool beyond_half = false;
    for (int i = 0; i < drop - 1 && !beyond_half; ++i) beyond_half = bit(mantissa_, i);
    if (beyond_half || (kept & 1)) ++kept;
  }
  double value = std::ldexp(static_cast<double>(kept), unit);
  if (std::isinf(value) || value >= std::ldexp(1.0, highest - 1) * 2) value = std::numeric_limits<double>::infinity();
  return negative_ ? -value : value;
}

namespace {
template <class Term>
Exact sum(std::int64_t d, Term term) {
  Exact total;
  for (std::int64_t i = 0; i < d; ++i) total = total + term(i);
  return total;
}
}  // namespace

Exact exact_sqdist(const double* q, const double* r, std::int64_t d) {
  return sum(d, [&](std::int64_t i) {
    const Exact t = Exact(q[i]) - Exact(r[i]);
    return t * t;
  });
}
Exact exact_l1(const double* q, const double* r, std::int64_t d) {
  return sum(d, [&](std::int64_t i) { return (Exact(q[i]) - Exact(r[i])).absolute(); });
}
Exact exact_linf(const double* q, const double* r, std::int64_t d) {
  Exact largest;
  for (std::int64_t i = 0; i < d; ++i) {
    const Exact t = (Exact(q[i]) - Exact(r[i])).absolute();
    if (largest < t) largest = t;
  }
  return largest;
}
Exact exact_dot(const double* q, const double* r, std::int64_t d) {
  return sum(d, [&](std::int64_t i) { return Exact(q[i]) * Exact(r[i]); });
}
Exact exact_dot_size(const double* q, const double* r, std::int64_t d) {
  return sum(d, [&](std::int64_t i) { return (Exact(q[i]) * Exact(r[i])).absolute(); });
}

}  // namespace oracle
