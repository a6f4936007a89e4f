// The sums over columns that metrics are made of (docs/semantics.md, C2; sums.def lists them), and one step of each:
// host, vector and device code add a column's term by these functions alone, each over primitives of its own. The order
// of columns and lanes is the caller's.
//
// Primitives is a struct with a type Value, a number or a vector of them, whose operators + - * / round correctly and
// are never contracted (cmake/flags.cmake, cuda.cmake), and static functions of it, as exact:
//   fma(a, b, c) = a b + c  abs(a)  max(a, b)  max_abs(a, b) = max(a, |b|)
//   add_differing_bits(s, q, r): s plus the number of bits in which two bytes differ, where Sum::bits is taken
#pragma once
#include "core/both.hpp"

namespace vicinal {

/// How two partial sums become one.
enum class Join : unsigned char { add, max };

enum class Sum : unsigned char {
#define SUM(name, join) name,
#include "core/sums.def"
  none  // the metric is no sum over columns
};
/// Sums of which filters see estimates, under the numbers of Sum; none stands for all others.
enum class BoundedSum : unsigned char {
#define BOUNDED_SUM(name, join) name = static_cast<unsigned char>(Sum::name),
#include "core/sums.def"
  none = static_cast<unsigned char>(Sum::none)
};
/// Sums that canonical kernels of numbers compute: all before Sum::bits, the last.
inline constexpr int float_sums = static_cast<int>(Sum::bits);
static_assert(float_sums + 1 == static_cast<int>(Sum::none), "sums of packed bits stand behind those of numbers");

VICINAL_HOST_DEVICE constexpr BoundedSum bounded(Sum sum) noexcept {
#define BOUNDED_SUM(name, join) \
  if (sum == Sum::name) return BoundedSum::name;
#include "core/sums.def"
  return BoundedSum::none;
}
/// It tells whether int8 tiles and tensor cores, which multiply, estimate the sum.
VICINAL_HOST_DEVICE constexpr bool has_products(Sum sum) noexcept {
  return sum == Sum::squares || sum == Sum::products;
}
VICINAL_HOST_DEVICE constexpr Join join_of(Sum sum) noexcept {
#define SUM(name, join) \
  if (sum == Sum::name) return Join::join;
#include "core/sums.def"
  return Join::add;
}

/// The sum `s` with the term of one more column, whose elements are q and r.
template <Sum sum, class Primitives>
VICINAL_BOTH typename Primitives::Value sum_step(typename Primitives::Value s, typename Primitives::Value q,
                                                 typename Primitives::Value r) {
  using P = Primitives;
  static_assert(sum != Sum::none, "a metric without a sum over columns has no step");
  if constexpr (sum == Sum::squares) {
    const typename P::Value t = q - r;
    return P::fma(t, t, s);
  } else if constexpr (sum == Sum::products) {
    return P::fma(q, r, s);
  } else if constexpr (sum == Sum::magnitudes) {
    return s + P::abs(q - r);
  } else if constexpr (sum == Sum::largest) {
    return P::max_abs(s, q - r);
  } else {
    static_assert(sum == Sum::bits, "a sum of sums.def needs its step here");
    return P::add_differing_bits(s, q, r);
  }
}

/// Two partial sums as one: how lanes are folded.
template <Sum sum, class Primitives>
VICINAL_BOTH typename Primitives::Value sum_join(typename Primitives::Value a, typename Primitives::Value b) {
  if constexpr (join_of(sum) == Join::max) return Primitives::max(a, b);
  else return a + b;
}

}  // namespace vicinal
