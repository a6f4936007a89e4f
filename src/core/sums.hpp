// The sums over columns that metrics are made of (docs/semantics.md, C2), and one step of each: host, vector and device
// code add a column's term by these functions alone, each over primitives of its own. The order of columns and lanes is the caller's.
//
// Primitives is a struct with a type Value and static functions of it, each one correctly rounded operation:
//   add(a, b)  sub(a, b)  fma(a, b, c) = a b + c  abs(a)  max(a, b)  max_abs(a, b) = max(a, |b|)
//   add_differing_bits(s, q, r): s plus the number of bits in which two bytes differ, where Sum::bits is taken
#pragma once
#include "core/both.hpp"

namespace vicinal {

enum class Sum : unsigned char {
  squares,  // of differences
  products,
  magnitudes,  // of differences
  largest,     // magnitude of a difference
  bits,        // that differ, of packed rows
  none         // the metric is no sum over columns
};
/// Sums that canonical kernels of floats compute: all before Sum::bits.
inline constexpr int float_sums = static_cast<int>(Sum::bits);

/// The sum `s` with the term of one more column, whose elements are q and r.
template <Sum sum, class Primitives>
VICINAL_BOTH typename Primitives::Value sum_step(typename Primitives::Value s, typename Primitives::Value q,
                                                 typename Primitives::Value r) {
  using P = Primitives;
  static_assert(sum != Sum::none, "a metric without a sum over columns has no step");
  if constexpr (sum == Sum::squares) {
    const typename P::Value t = P::sub(q, r);
    return P::fma(t, t, s);
  } else if constexpr (sum == Sum::products) {
    return P::fma(q, r, s);
  } else if constexpr (sum == Sum::magnitudes) {
    return P::add(s, P::abs(P::sub(q, r)));
  } else if constexpr (sum == Sum::largest) {
    return P::max_abs(s, P::sub(q, r));
  } else {
    return P::add_differing_bits(s, q, r);
  }
}

/// Two partial sums as one: how lanes are folded.
template <Sum sum, class Primitives>
VICINAL_BOTH typename Primitives::Value sum_join(typename Primitives::Value a, typename Primitives::Value b) {
  if constexpr (sum == Sum::largest) return Primitives::max(a, b);
  else return Primitives::add(a, b);
}

}  // namespace vicinal
