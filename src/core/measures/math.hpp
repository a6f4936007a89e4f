// What the costly distances share: a logarithm of our own, since libraries differ by units in the last place; sums in
// 32 lanes, as every canonical sum has them (semantics C2). Plain operations of IEEE binary64, each rounded once, so
// that host and device agree.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/both.hpp"

namespace vicinal::measures {

/// Natural logarithm of a positive finite number. Within 1.5 units in the last place
/// (tests/unit/core/test_measures.cpp).
VICINAL_HOST_DEVICE inline double log(double x) noexcept {
  constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;  // the high part has 21 zero bits
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  exponent += static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh(s), s = f / (2 + f): with f = m - 1 exact, f - (f^2 / 2 - s (f^2 / 2 + 2 z (1/3 + z/5 + ...)))
  const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double series = 2.0 / 21;
  for (int odd = 19; odd >= 3; odd -= 2) series = series * z + 2.0 / odd;
  series *= z;
  const double e = exponent;
  return e * ln2_high - ((half - (s * (half + series) + e * ln2_low)) - f);
}

/// Sum over i of term(i) in 32 lanes: lane j takes i = j, j + 32, ... in turn, then halves are added.
template <class Term>
VICINAL_HOST_DEVICE double lane_sum(std::int64_t count, const Term& term) noexcept {
  double lanes[32] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i % 32] += term(i);
  for (int half = 16; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

}  // namespace vicinal::measures
