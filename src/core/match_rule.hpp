// What decides whether a best and a second best make a match (semantics C21), for host and device: from the keys that a
// search ranks by, which of integer rows are whole numbers.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/acos.hpp"
#include "core/both.hpp"

namespace vicinal {

/// What a key is. distance: the distance itself. square: the square of it, a whole number. product: q.r of u8 rows, a
/// whole number, for the angle. cosine: the cosine distance, for the angle.
enum class MatchKey : std::uint8_t { distance, square, product, cosine };

/// What the score of two rows of bytes is, a whole number of 32 bits, larger is nearer: the negative square of their
/// distance, of which the key is the square or the root; or their product.
enum class ScoreKind : std::uint8_t { square, root, product };
VICINAL_HOST_DEVICE inline double key_of(ScoreKind kind, std::int32_t score) noexcept {
  const auto square = static_cast<double>(-std::int64_t{score});  // never -0
  switch (kind) {
    case ScoreKind::square: break;
    case ScoreKind::root: return std::sqrt(square);
    case ScoreKind::product: return score;
  }
  return square;
}
inline constexpr std::int32_t least_score = INT32_MIN;

/// A BestTwo has the nearest row and the keys of it and of the next; id is -1 where there are no rows.
struct BestTwo {
  std::int64_t id = -1;
  double best = 0, second = 0;
};

/// It tells whether best - r^2 second, whole numbers up to 2^53 and r from 1e-6 to 1e6, is negative (-1), zero or
/// positive (1), exactly.
VICINAL_HOST_DEVICE inline int compare_squares(double best, double ratio, double second) noexcept {
  const double about = ratio * ratio * second;  // within 2^-51 of it, relatively
  if (best < about * (1 - 0x1p-50)) return -1;
  if (best > about * (1 + 0x1p-50)) return 1;
  if (best == 0) return 0;
  // ratio = m 2^-e with m < 2^53: best 2^(2e) against m^2 second, both below 2^168, in limbs of 32 bits.
  std::uint64_t bits;
  std::memcpy(&bits, &ratio, sizeof bits);
  const std::uint64_t m = (bits & 0xFFFFFFFFFFFFF) | (std::uint64_t{1} << 52);
  const int shift = 2 * (1075 - static_cast<int>(bits >> 52));
  constexpr int limbs = 6;
  std::uint64_t left[limbs] = {}, right[limbs] = {static_cast<std::uint64_t>(second) & 0xFFFFFFFF,
                                                  static_cast<std::uint64_t>(second) >> 32};
  for (int factor = 0; factor < 2; ++factor) {
    std::uint64_t product[limbs] = {};
    for (int part = 0; part < 2; ++part) {
      const std::uint64_t word = part == 0 ? m & 0xFFFFFFFF : m >> 32;
      std::uint64_t carry = 0;
      for (int i = part; i < limbs; ++i) {
        carry += product[i] + right[i - part] * word;
        product[i] = carry & 0xFFFFFFFF;
        carry >>= 32;
      }
    }
    for (int i = 0; i < limbs; ++i) right[i] = product[i];
  }
  const auto whole = static_cast<std::uint64_t>(best);
  for (int i = 0; i < 3; ++i) {  // 32 bits of whole << shift % 32 a limb
    const int at = shift / 32 + i, low = 32 * i - shift % 32;
    const std::uint64_t limb = low >= 64 ? 0 : low >= 0 ? whole >> low : whole << -low;
    if (at < limbs) left[at] = limb & 0xFFFFFFFF;
  }
  for (int i = limbs - 1; i >= 0; --i)
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  return 0;
}

/// The same of distances: best - r second, with the product not rounded. best <= second.
VICINAL_HOST_DEVICE inline int compare_distances(double best, double ratio, double second) noexcept {
  if (best == 0) return ratio > 0 && second > 0 ? -1 : 0;
  // What the product's rounding loses must not be too small for fp64.
  const double scale = second < 0x1p300 ? 0x1p600 : 1;
  best *= scale;
  second *= scale;
  const double product = ratio * second;
  if (best != product) return best < product ? -1 : 1;
  const double rest = std::fma(ratio, second, -product);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

/// A MatchRule has the tests of one direction.
struct MatchRule {
  MatchKey key = MatchKey::distance;
  bool has_ratio = true, strict = true, accept_lone = true;
  double ratio = 0.8;
  double max_distance = 0;  // +inf: none

  VICINAL_HOST_DEVICE double distance(double value) const noexcept {
    double cosine = 0;
    switch (key) {
      case MatchKey::distance: return value;
      case MatchKey::square: return std::sqrt(value);
      case MatchKey::product: cosine = value * 0x1p-18; break;
      case MatchKey::cosine: cosine = 1 - value; break;
    }
    return arc_cosine(cosine > 1 ? 1 : cosine < -1 ? -1 : cosine);
  }
  /// pair.id >= 0. `others`: rows that competed.
  VICINAL_HOST_DEVICE bool passes(const BestTwo& pair, std::int64_t others) const noexcept {
    if (!(distance(pair.best) <= max_distance)) return false;
    if (!has_ratio) return true;
    if (others < 2) return accept_lone;
    const int order = key == MatchKey::square ? compare_squares(pair.best, ratio, pair.second)
                                              : compare_distances(distance(pair.best), ratio, distance(pair.second));
    return order < 0 || (order == 0 && !strict);
  }
  /// Best over second best.
  VICINAL_HOST_DEVICE double ratio_of(const BestTwo& pair, std::int64_t others) const noexcept {
    if (others < 2) return 0;
    const double best = distance(pair.best), second = distance(pair.second);
    return second > 0 ? best / second : best > 0 ? HUGE_VAL : 1;
  }
};

}  // namespace vicinal
