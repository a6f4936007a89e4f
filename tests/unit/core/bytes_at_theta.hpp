// What the tests of bounds of bytes share: one query and one row, and the least sum of products of a row that must stay, in long double.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "core/bound.hpp"

namespace vicinal {

using Real = long double;
constexpr Real u64 = 0x1p-53L;

class Random {
 public:
  explicit Random(std::uint64_t seed = 42) : engine_(seed) {}
  double between(double low, double high) { return low + (high - low) * std::generate_canonical<double, 53>(engine_); }
  double magnitude(int low, int high) { return std::ldexp(between(1, 2), static_cast<int>(between(low, high))); }

 private:
  std::mt19937_64 engine_;
};

/// One query and one row in bytes, and what the sum of their product would be.
struct Int8Pair {
  FilterNorms q, r;
  double theta = 0, query_square = 0, unit = 1, shift = 0;
  float term = 0;
};
inline Int8Pair draw_bytes(Random& random, Sum kind, int i) {
  const float query_step = static_cast<float>(random.between(0.005, 0.02)),
              row_step = static_cast<float>(random.between(0.005, 0.02));
  Int8Pair p;
  p.q = {i % 5 == 0 ? 0 : random.magnitude(-12, -3), random.between(0.5, 2)};
  p.r = {i % 7 == 0 ? 0 : random.magnitude(-12, -3), random.between(0.5, 2)};
  p.query_square = p.q.n * p.q.n;
  p.theta = kind == Sum::products ? random.between(-2, 2) : random.between(0.01, 4);
  p.unit = int8_unit(kind, query_step, row_step);
  p.shift = 128 * std::floor(random.between(-1e6, 1e6));
  p.term = kind == Sum::products ? 0 : down32(p.r.n * p.r.n - p.r.e * p.r.e);
  return p;
}
/// What t may be at most of a row that must stay.
inline Real int8_edge(const BoundModel& model, const Int8Pair& p) {
  if (model.sum == Sum::products) {
    const Real canonical = (static_cast<Real>(model.dims) / 32 + 8) * u64 * (p.q.n + p.q.e) * (p.r.n + p.r.e);
    return static_cast<Real>(p.theta) + static_cast<Real>(p.q.e) * (p.r.n + p.r.e) + static_cast<Real>(p.q.n) * p.r.e +
           canonical;
  }
  const Real a = static_cast<Real>(p.theta) + p.q.e;
  return a * a - static_cast<Real>(p.query_square) + 2 * a * p.r.e;
}

/// The smallest whole sum of products whose t is not beyond the edge.
inline Real int8_least(const BoundModel& model, const Int8Pair& p) {
  return ceill((static_cast<Real>(p.term) - int8_edge(model, p)) / p.unit);
}

/// It calls body(model, pair, least sum) for many pairs of distances and of products, until one fails.
template <class Body>
void each_pair_of_bytes(const Body& body) {
  Random random;
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int i = 0; i < 100000; ++i) {
      const BoundModel model(metric, DistanceType::f32, 1 + i % 500, 1, 0);
      const Int8Pair pair = draw_bytes(random, model.sum, i);
      body(model, pair, int8_least(model, pair));
      if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace vicinal
