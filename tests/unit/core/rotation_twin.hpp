// A rotation by its definition, in long double: the slow twin of core/rotation.hpp.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace vicinal::rotations {

using Real = long double;

/// (-1)^(bits that i and j share) / sqrt(p), of the first p columns and, where there are more, of the last p, after random signs.
inline std::vector<Real> rotated(std::vector<Real> x) {
  const std::size_t dims = x.size(), span = std::bit_floor(dims);
  std::mt19937_64 random(0x5269);
  for (const std::size_t first : {std::size_t{0}, dims - span}) {
    std::vector<Real> from(span);
    for (std::size_t i = 0; i < span; ++i) from[i] = random() % 2 == 0 ? x[first + i] : -x[first + i];
    for (std::size_t i = 0; i < span; ++i) {
      Real sum = 0;
      for (std::size_t j = 0; j < span; ++j) sum += std::popcount(i & j) % 2 == 0 ? from[j] : -from[j];
      x[first + i] = sum / sqrtl(static_cast<Real>(span));
    }
    if (span == dims) break;
  }
  return x;
}

}  // namespace vicinal::rotations
