// The proof of the filter under worst-case constructions: every term of the bound is met from below by data that the
// theory allows (quantization errors aligned with the difference, chains that err as far as they can, sums at the edge of their
// error), computed in long double. A bound that is too small fails here; the tightest ones must also be met within 1 %.
// tests/mutants/run.py breaks src/core/bound.hpp line by line and expects this file to notice.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bytes_at_theta.hpp"
#include "core/bound_quick.hpp"
#include "core/largest_error.hpp"

namespace vicinal {
namespace {
constexpr Real u32 = 0x1p-24L;

const std::vector<Metric> distances = {Metric::sqeuclidean, Metric::euclidean, Metric::cosine,
                                       Metric::correlation, Metric::l1,        Metric::linf};

TEST(Bound, DirectedRoundingNeverCrosses) {
  Random random;
  for (int i = 0; i < 200000; ++i) {
    double v = random.magnitude(-160, 126) * (i % 2 ? 1 : -1);
    if (i % 5 == 0) v = static_cast<double>(static_cast<float>(v));
    const double up = up32(v), down = down32(v), room = std::fabs(v) * 0x1.1p-22 + 0x1p-147;
    ASSERT_GE(up, v);
    ASSERT_LE(down, v);
    ASSERT_LE(up - v, room);
    ASSERT_LE(v - down, room);
  }
  EXPECT_GT(up32(0x1p-160), 0.0F);
  EXPECT_LT(down32(-0x1p-160), 0.0F);
}

// d fused multiply-adds err by at most d u / (1 - d u) of the sum of magnitudes; the epilogue by 6 u of (|q| + |r|)^2.
TEST(Bound, ChainConstantsAreThoseOfTheTheory) {
  for (const std::int64_t d : {1, 2, 7, 64, 129, 784, 4096, 100000, 1000000})
    for (const int chain : {1, 2}) {
      const BoundModel model(Metric::euclidean, DistanceType::f32, d, 1, chain);
      const Real nu = chain * static_cast<Real>(d) * u32, alpha = nu / (1 - nu);
      EXPECT_GE(model.alpha, alpha * (1 - 1e-12L)) << d;
      EXPECT_LE(model.alpha, alpha * 1.01L) << d;
      EXPECT_GE(model.kappa, (alpha / 2 + 6 * u32) * (1 - 1e-12L)) << d;
      EXPECT_LE(model.kappa, (alpha / 2 + 6 * u32) * 1.01L) << d;
    }
  EXPECT_TRUE(std::isinf(BoundModel(Metric::euclidean, DistanceType::f32, 20000000, 1, 1).alpha));
}

// The sums were computed with up to d + 1 roundings each, and x' itself with one an element, all in one direction.
TEST(Bound, NormsCoverSumsAtTheEdgeOfTheirError) {
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::l1, Metric::linf})
    for (const std::int64_t d : {1, 32, 1000, 30000})
      for (const double quantization_error : {0.0, 1e-12, 1e-4, 1.0}) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 1);
        const Real edge = static_cast<Real>(d + 1) * u64;
        const QuantizationErrors facts{
            1, 1, quantization_error * quantization_error, quantization_error, quantization_error, 1};
        const FilterNorms norms = filter_norms(model, facts);
        const bool squared = model.sum == Sum::squares;
        const Real error = quantization_error * (squared                        ? sqrtl(1 + edge)
                                                 : model.sum == Sum::magnitudes ? 1 + edge
                                                                                : 1);
        const Real evaluated = model.unit ? (static_cast<Real>(d) / 64 + 7) * u64 : u64;
        EXPECT_GE(norms.e, error + evaluated)
            << metric_info(metric).name << " d=" << d << " quantization_error " << quantization_error;
        EXPECT_GE(norms.n, squared ? sqrtl(1 + edge) : 1 + edge) << metric_info(metric).name << " d=" << d;
        EXPECT_LE(norms.e, quantization_error * (1 + 1e-9L) + 1e-9L);
        EXPECT_LE(norms.n, 1 + 1e-9L);
      }
}

// A rotation may err by all that it says besides, in the direction of the quantization error.
TEST(Bound, NormsCoverARotation) {
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product})
    for (const double roundings : {9.0, 21.0, 33.0}) {
      BoundModel model(metric, DistanceType::f32, 100, 1, 0);
      const QuantizationErrors facts{4, 4, 1e-6, 0, 0, 0};
      const Real before = filter_norms(model, facts).e;
      model.transformed = roundings;
      const Real after = filter_norms(model, facts).e;
      EXPECT_GE(after, before + roundings * u64 * 2 * (1 - 1e-6L)) << metric_info(metric).name;
      EXPECT_LE(after, before + roundings * u64 * 4);
    }
}

// What is left of two rows may point anywhere: of rows of lengths 2 and 3 products differ by 12, and squares by 24.
TEST(Bound, ErrorsOfProjectedRows) {
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product}) {
    BoundModel model(metric, DistanceType::f32, 100, 1, 0);
    const FilterNorms q{1e-3, 2}, r{1e-3, 3};
    const double before = largest_error(model, q, r, 1), after = largest_projected_error(model, q, r, 1);
    const double least = metric == Metric::inner_product ? 12 : std::sqrt(24.0);
    EXPECT_GE(after, before + least * (1 - 1e-9)) << metric_info(metric).name;
    EXPECT_LE(after, before + least * 1.01) << metric_info(metric).name;
    // What underflow adds is part of the error.
    const QuantizationErrors facts{4, 4, 0, 0, 0, 0};
    const double error = filter_norms(model, facts).e;
    model.underflow = 0.5;
    EXPECT_GE(filter_norms(model, facts).e, error + 0.5 * (1 - 1e-9));
    EXPECT_LE(filter_norms(model, facts).low, 2 - 0.5) << metric_info(metric).name;
  }
}

TEST(Bound, RowTermIsBelowItsExactValue) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const auto d = static_cast<std::int64_t>(random.magnitude(0, 12));
    const BoundModel model(Metric::euclidean, DistanceType::f32, d, 1, 1);
    const double n = random.magnitude(-20, 20), e = n * random.magnitude(-30, -2);
    const FilterNorms norms{e, n};
    const Real exact = static_cast<Real>(n) * n * (1 - static_cast<Real>(d) * u64) - static_cast<Real>(e) * e -
                       static_cast<Real>(model.kappa) * n * n;
    const double term = row_term(model, {n * n, n * n, e * e, e, e, n}, norms);
    ASSERT_LE(static_cast<Real>(term), exact) << "d=" << d;
    ASSERT_GE(static_cast<Real>(term), exact - 1e-6L * n * n);
  }
  const BoundModel ip(Metric::inner_product, DistanceType::f32, 8, 1, 1);
  EXPECT_EQ(row_term(ip, {1, 1, 0, 0, 0, 1}, {0, 1}), 0.0F);
}

TEST(Bound, RowsThatFloatCannotHoldAreNeverExcluded) {
  const double nan = std::nan("");
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::l1, Metric::cosine}) {
    const BoundModel model(metric, DistanceType::f32, 8, 1, 1);
    for (const FilterNorms norms : {FilterNorms{0, 1e39}, FilterNorms{0, infinite}, FilterNorms{infinite, 1},
                                    FilterNorms{nan, 1}, FilterNorms{0, nan}})
      EXPECT_EQ(row_term(model, {1, 1, 0, 0, 0, 1}, norms), -std::numeric_limits<float>::infinity())
          << metric_info(metric).name;
  }
}

// Queries reach 2^61 in filter units (products: about 1), so a chain over such a row can leave float half way and end
// as an infinity of either sign; t > thr would then exclude a row that nobody measured.
TEST(Bound, RowsWhoseProductsMayOverflowAreNeverExcluded) {
  for (const auto& [metric, query] : {std::pair{Metric::inner_product, 2.0}, std::pair{Metric::euclidean, 0x1p61}})
    for (const std::int64_t d : {8, 64, 4096})
      for (int exponent = 0; exponent <= 127; ++exponent) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 1);
        const double n = std::ldexp(1.0, exponent);
        const float term = row_term(model, {n * n, n * n, 0, 0, 0, n}, {0, n});
        const bool may_overflow = n * query * std::sqrt(static_cast<double>(d)) >= 0x1p127;
        EXPECT_TRUE(!may_overflow || term == -std::numeric_limits<float>::infinity())
            << metric_info(metric).name << " d=" << d << " |r|=2^" << exponent;
      }
}

// The farthest true distance at which a row can still have a key <= K: half an ulp of the key, then the canonical error.
Real farthest_with_key(Metric metric, DistanceType type, std::int64_t d, double key) {
  Real value = key;
  if (type == DistanceType::f32) {
    const auto k = static_cast<float>(key);
    value = (static_cast<Real>(k) + std::nextafterf(k, INFINITY)) / 2;  // the midpoint may round to even, down to K
  }
  const Real canonical = (static_cast<Real>(d) / 32 + 8) * u64;
  const Real cosine_error = (static_cast<Real>(d) / 16 + 12) * u64;
  switch (metric) {
    case Metric::sqeuclidean: return sqrtl(value / (1 - canonical));
    case Metric::euclidean: return value * (1 + u64) / sqrtl(1 - canonical);
    case Metric::cosine:
    case Metric::correlation: return sqrtl(2 * (value + cosine_error));
    case Metric::l1: return value / (1 - canonical);
    default: return value / (1 - u64);
  }
}

TEST(Bound, ThetaCoversTheRoundingOfKeys) {
  Random random;
  for (const Metric metric : distances)
    for (const DistanceType type : {DistanceType::f32, DistanceType::f64})
      for (const std::int64_t d : {1, 64, 1000, 50000})
        for (int i = 0; i < 600; ++i) {
          const bool angular = metric == Metric::cosine || metric == Metric::correlation;
          double key = i == 0    ? 0.0
                       : angular ? random.magnitude(-60, 0)
                                 : random.magnitude(type == DistanceType::f32 ? -148 : -400, 100);
          if (type == DistanceType::f32) key = static_cast<double>(static_cast<float>(key));
          if (i % 7 == 1 && key > 0) key = std::ldexp(1.0, std::ilogb(key));  // there half an ulp is the largest share
          const double scale = angular ? 1 : 0x1p-3;
          const BoundModel model(metric, type, d, scale, 1);
          const Real farthest = farthest_with_key(metric, type, d, key) * scale;
          const double theta = theta_of_key(model, key, 1);
          ASSERT_GE(theta, farthest) << metric_info(metric).name << " key " << key << " d=" << d;
          const Real room =
              angular ? sqrtl(farthest * farthest + 4 * (static_cast<Real>(d) / 16 + 18) * u64) : farthest;
          ASSERT_TRUE(key <= 0x1p-100 || theta <= room * (1 + 0x1p-21L))
              << metric_info(metric).name << " key " << key << " d=" << d;
        }
}

// f64 keys that underflowed: terms below 2^-1075 underflow, d of them.
TEST(Bound, ThetaOfAZeroKeyCoversUnderflow) {
  for (const std::int64_t d : {1, 1000}) {
    const Real largest_lost = sqrtl(static_cast<Real>(d)) * powl(2, -537.5L);
    EXPECT_GE(theta_of_key(BoundModel(Metric::euclidean, DistanceType::f64, d, 1, 1), 0, 1), largest_lost);
    EXPECT_GE(theta_of_key(BoundModel(Metric::sqeuclidean, DistanceType::f64, d, 1, 1), 0, 1), largest_lost);
    EXPECT_GE(theta_of_key(BoundModel(Metric::sqeuclidean, DistanceType::f32, d, 1, 1), 0, 1), 0x1p-75L);
    EXPECT_GE(theta_of_key(BoundModel(Metric::l1, DistanceType::f32, d, 1, 1), 0, 1), 0x1p-150L);
  }
}

TEST(Bound, ThetaOfAnInnerProductCoversItsRoundingInBothSigns) {
  Random random;
  const BoundModel model(Metric::inner_product, DistanceType::f32, 64, 0.25, 1);
  for (int i = 0; i < 2000; ++i) {
    const auto key = static_cast<float>(random.magnitude(-148, 100) * (i % 2 ? 1 : -1));
    const Real edge = (static_cast<Real>(key) + std::nextafterf(key, INFINITY)) / 2 * 0.25L * 8;
    ASSERT_GE(theta_of_key(model, key, 8), edge) << key;
    ASSERT_LE(theta_of_key(model, key, 8), edge + fabsl(edge) * 0x1p-21L + 0x1p-140L) << key;
  }
  EXPECT_EQ(theta_of_key(model, infinite, 8), infinite);
}

struct Pair {
  FilterNorms q, r;
  double theta, query_square;
};
Pair draw_pair(Random& random, double spread) {
  Pair p;
  p.q.n = 1;
  p.r.n = random.between(1, 1 + spread);
  p.q.e = random.magnitude(-30, -6);
  p.r.e = random.magnitude(-30, -6);
  p.query_square = p.q.n * p.q.n;
  // The triangle inequality bounds where theta can be with both quantization errors along the difference.
  p.theta = random.between(p.r.n - p.q.n, 0.99 * (p.q.n + p.r.n));
  return p;
}

// Both quantization errors point along the difference and the chain errs upward: t is as large as a row at distance theta can make it.
TEST(Bound, ThresholdKeepsARowAtThetaAndIsMetWithinOnePercent) {
  Random random;
  for (const Metric metric : {Metric::euclidean, Metric::cosine})
    for (const std::int64_t d : {1, 128, 4096})
      for (int i = 0; i < 3000; ++i) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 1);
        const Pair p = draw_pair(random, 0.01);
        const Real delta = static_cast<Real>(p.theta) + p.q.e + p.r.e, square = p.r.n * p.r.n;
        const Real product = (static_cast<Real>(p.query_square) + square - delta * delta) / 2;
        const Real chain_error = static_cast<Real>(model.alpha) * p.q.n * p.r.n;
        const Real term = square - static_cast<Real>(p.r.e) * p.r.e - static_cast<Real>(model.kappa) * square;
        const Real t = -2 * (product - chain_error) + term;
        const Real base = static_cast<Real>(p.theta) * p.theta - p.query_square;
        const auto limit = static_cast<Real>(threshold(model, p.theta, p.query_square, p.q, p.r));
        ASSERT_GE(limit, t) << metric_info(metric).name << " d=" << d << " theta " << p.theta;
        ASSERT_LE(limit - base, (t - base) * 1.01L + 12 * u32 * 4) << metric_info(metric).name << " d=" << d;
        // As a line: never below.
        ASSERT_GE(static_cast<Real>(int8_bound(float_threshold_coeffs(model, p.theta, p.query_square, p.q), p.r)), t)
            << metric_info(metric).name << " d=" << d;
        // Maxima of a tile are larger than the row's own, never smaller.
        const FilterNorms tile{p.r.e * 3, p.r.n * 2};
        ASSERT_GE(static_cast<Real>(threshold(model, p.theta, p.query_square, p.q, tile)), t);
      }
}

TEST(Bound, ThresholdOfInnerProductCoversEachTermAlone) {
  Random random;
  for (const std::int64_t d : {1, 128, 4096})
    for (int i = 0; i < 5000; ++i) {
      BoundModel model(Metric::inner_product, DistanceType::f32, d, 1, 1);
      if (i % 2) model.alpha = 0;
      const FilterNorms q{i % 3 == 1 ? 0 : random.magnitude(-20, -2), random.magnitude(-3, 3)};
      const FilterNorms r{i % 3 == 2 ? 0 : random.magnitude(-20, -2), random.magnitude(-3, 3)};
      const double theta = random.between(-2, 2) * q.n * r.n;
      const Real canonical = (static_cast<Real>(d) / 32 + 8) * u64 * (q.n + q.e) * (r.n + r.e);
      const Real slack = static_cast<Real>(q.e) * (r.n + r.e) + static_cast<Real>(q.n) * r.e +
                         static_cast<Real>(model.alpha) * q.n * r.n + canonical;
      ASSERT_GE(ip_slack(model, q, r), slack * (1 - 1e-15L));
      ASSERT_GE(ip_slack(model, q, r) - slack, 6 * u32 * q.n * r.n * 0.99L);
      ASSERT_LE(ip_slack(model, q, r), slack * 1.2L + 7 * u32 * (q.n + q.e) * (r.n + r.e) + 0x1p-100L);
      ASSERT_GE(static_cast<Real>(threshold(model, theta, q.n * q.n, q, r)), theta + slack);
      ASSERT_GE(static_cast<Real>(upper_of(model, static_cast<float>(theta), q.n * q.n, q, r)),
                static_cast<float>(theta) + slack);
    }
}

// Sums of d rounded differences, and a maximum of rounded differences.
TEST(Bound, ThresholdOfL1AndLinfKeepsARowAtTheta) {
  Random random;
  for (const Metric metric : {Metric::l1, Metric::linf})
    for (const std::int64_t d : {1, 128, 4096, 1000000})
      for (int i = 0; i < 3000; ++i) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 1);
        const FilterNorms q{random.magnitude(-40, -4), 1}, r{random.magnitude(-40, -4), 1};
        const double theta = random.magnitude(-20, 10);
        const Real nu = (metric == Metric::l1 ? static_cast<Real>(d) : 1) * u32;
        const Real seen = (static_cast<Real>(theta) + q.e + r.e) * (1 + nu);
        const auto limit = static_cast<Real>(threshold(model, theta, 1, q, r));
        ASSERT_GE(limit, seen) << metric_info(metric).name << " d=" << d;
        ASSERT_LE(limit, seen * (1 + 1.1L * nu * nu + 0x1p-20L)) << metric_info(metric).name << " d=" << d;
        // The other direction: the chain saw as little as it can of a row at `far`.
        const Real far = theta;
        const auto t = static_cast<float>(std::max(0.0L, (far - q.e - r.e) * (1 - nu)) * (1 - u32));
        ASSERT_GE(static_cast<Real>(upper_of(model, t, 1, q, r)), std::min(far, t / (1 - nu) + q.e + r.e))
            << metric_info(metric).name << " d=" << d;
      }
  EXPECT_TRUE(std::isinf(threshold(BoundModel(Metric::l1, DistanceType::f32, 9000000, 1, 1), 1, 1, {0, 1}, {0, 1})));
}

// The chain errs downward and the stored term is as small as rounding makes it: t promises too little distance.
TEST(Bound, UpperBoundIsAboveTheTrueDistance) {
  Random random;
  for (const Metric metric : {Metric::euclidean, Metric::cosine})
    for (const std::int64_t d : {1, 128, 4096})
      for (int i = 0; i < 3000; ++i) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 1);
        const Pair p = draw_pair(random, 0.01);
        const Real delta = p.theta, square = p.r.n * p.r.n;
        const Real product = (static_cast<Real>(p.query_square) + square - delta * delta) / 2;
        const double term = row_term(
            model, {square < 0 ? 0 : static_cast<double>(square), static_cast<double>(square), p.r.e * p.r.e, 0, 0, 0},
            p.r);
        const auto t = static_cast<float>(-2 * (product + static_cast<Real>(model.alpha) * p.q.n * p.r.n) + term);
        const Real truth = delta + p.q.e + p.r.e;
        const double upper = upper_of(model, t, p.query_square, p.q, p.r);
        ASSERT_GE(upper, truth) << metric_info(metric).name << " d=" << d << " delta " << p.theta;
        const Real slack = 4 * (2 * static_cast<Real>(model.kappa)) * 1.3L + 64 * u32;
        ASSERT_LE(upper, sqrtl(delta * delta + slack) + p.q.e + p.r.e + 1e-6L);
      }
  EXPECT_EQ(upper_of(BoundModel(Metric::euclidean, DistanceType::f32, 8, 1, 1), -INFINITY, 1, {0, 1}, {0, 1}),
            infinite);
  EXPECT_EQ(upper_of(BoundModel(Metric::l1, DistanceType::f32, 8, 1, 1), NAN, 1, {0, 1}, {0, 1}), infinite);
}

TEST(Bound, ValueOfAnUpperBoundIsAboveTheCanonicalValue) {
  Random random;
  for (const Metric metric : distances)
    for (const std::int64_t d : {1, 128, 10000})
      for (int i = 0; i < 500; ++i) {
        const bool angular = metric == Metric::cosine || metric == Metric::correlation;
        const double scale = angular ? 1 : 0x1p5,
                     upper = angular ? random.magnitude(-20, 0) : random.magnitude(-50, 50);
        const BoundModel model(metric, DistanceType::f64, d, scale, 1);
        const Real canonical = (static_cast<Real>(d) / 32 + 8) * u64, truth = static_cast<Real>(upper) / scale;
        const Real value = metric == Metric::sqeuclidean ? truth * truth * (1 + canonical)
                           : angular                     ? truth * truth / 2 + (static_cast<Real>(d) / 16 + 12) * u64
                           : metric == Metric::linf      ? truth * (1 + u64)
                                                         : truth * (1 + canonical);
        ASSERT_GE(value_of_upper(model, upper, 1), value) << metric_info(metric).name << " d=" << d;
        ASSERT_LE(value_of_upper(model, upper, 1), value * (1 + 1e-9L) + 1e-9L) << metric_info(metric).name;
      }
}

TEST(Bound, WhatIsNotFiniteExcludesNothing) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::l1, Metric::linf, Metric::cosine}) {
    const BoundModel model(metric, DistanceType::f32, 16, 1, 1);
    EXPECT_TRUE(std::isinf(threshold(model, infinite, 1, {0, 1}, {0, 1}))) << metric_info(metric).name;
    EXPECT_GT(threshold(model, infinite, 1, {0, 1}, {0, 1}), 0) << metric_info(metric).name;
    EXPECT_GT(threshold(model, infinite, infinite, {0, 1}, {0, 1}), 1e38F) << metric_info(metric).name;
    EXPECT_TRUE(std::isinf(threshold(model, 1, 1, {infinite, 1}, {0, 1}))) << metric_info(metric).name;
  }
}

// Norms whose product could leave float half way through a chain: t may be an infinity that means nothing.
TEST(Bound, HugePairsExcludeNothing) {
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int q = -20; q <= 127; q += 7)
      for (int r = 0; r <= 127; ++r) {
        const BoundModel model(metric, DistanceType::f32, 64, 1, 1);
        const float limit =
            threshold(model, 1, std::ldexp(1.0, 2 * q), {0, std::ldexp(1.0, q)}, {0, std::ldexp(1.0, r)});
        ASSERT_TRUE(q + r < 127 || limit == std::numeric_limits<float>::infinity())
            << metric_info(metric).name << " 2^" << q << " 2^" << r;
      }
}

// Real vectors through a real float chain: a row at exactly theta is never excluded, whatever the data.
TEST(Bound, WholeFilterOnVectors) {
  Random random;
  for (int i = 0; i < 40000; ++i) {
    const auto d = static_cast<std::int64_t>(random.magnitude(0, 7));
    const int style = i % 4;
    std::vector<double> q(static_cast<std::size_t>(d)), r(q.size());
    for (std::size_t j = 0; j < q.size(); ++j) {
      const double grid = 1 + 0x1p-23 * std::floor(random.between(0, 4));
      if (style == 0) q[j] = random.between(-1, 1), r[j] = random.between(-1, 1);
      if (style == 1)
        q[j] = grid + 0x1.fp-25, r[j] = grid - 0x1.fp-25;  // quantization errors aligned with the difference
      if (style == 2) q[j] = grid + 0x1.fp-25, r[j] = -grid - 0x1.fp-25;
      if (style == 3) q[j] = (j % 2 ? -1 : 1) * random.between(0.999, 1), r[j] = random.between(0.999, 1);
    }
    for (const auto& [metric, direct] : {std::pair{Metric::euclidean, false},
                                         {Metric::euclidean, true},
                                         {Metric::inner_product, false},
                                         {Metric::l1, false},
                                         {Metric::linf, false}}) {
      BoundModel model(metric, DistanceType::f64, d, 1, direct ? 0 : 1);
      model.direct = direct;
      QuantizationErrors facts[2] = {};
      const std::vector<double>* rows[2] = {&q, &r};
      for (int side = 0; side < 2; ++side)
        for (const double x : *rows[side]) {
          const double xhat = static_cast<float>(x), e = x - xhat;
          QuantizationErrors& f = facts[side];
          f.xx += x * x, f.nn += xhat * xhat, f.ee += e * e, f.e_abs += std::fabs(e), f.n_abs += std::fabs(xhat);
          f.e_max = std::max(f.e_max, std::fabs(e));
        }
      const FilterNorms nq = filter_norms(model, facts[0]), nr = filter_norms(model, facts[1]);
      float sum = 0;
      Real truth = 0;
      for (std::size_t j = 0; j < q.size(); ++j) {
        const auto a = static_cast<float>(q[j]), b = static_cast<float>(r[j]);
        const Real t = static_cast<Real>(q[j]) - r[j];
        switch (model.sum) {
          case Sum::magnitudes:
            sum += std::fabs(a - b);
            truth += fabsl(t);
            break;
          case Sum::largest:
            sum = std::max(sum, std::fabs(a - b));
            truth = std::max(truth, fabsl(t));
            break;
          case Sum::products:
            sum = std::fma(a, b, sum);
            truth -= static_cast<Real>(q[j]) * r[j];
            break;
          default: sum = direct ? std::fma(a - b, a - b, sum) : std::fma(a, b, sum); truth += t * t;
        }
      }
      if (metric == Metric::euclidean) truth = sqrtl(truth);
      const float t = std::fma(direct ? 1.0F : multiplier(model.sum), sum, row_term(model, facts[1], nr));
      const double theta = std::nextafter(static_cast<double>(truth), 10.0);
      ASSERT_LE(t, threshold(model, theta, facts[0].nn, nq, nr))
          << metric_info(metric).name << " d=" << d << " style " << style;
      const ThresholdCoeffs line = coeffs_of_query(model, theta, facts[0].nn, nq);
      ASSERT_LE(t, int8_bound(line, nr)) << metric_info(metric).name << " d=" << d << " style " << style;
      ASSERT_GE(upper_of(model, t, facts[0].nn, nq, nr), truth)
          << metric_info(metric).name << " d=" << d << " style " << style;
      ASSERT_GE(largest_error(model, nq, nr, 1), 0) << metric_info(metric).name;
    }
  }
}

// ---- bytes ----

TEST(Bound, BytesHaveNoErrorOfTheirOwn) {
  const BoundModel model(Metric::euclidean, DistanceType::f32, 1000, 1, 0);
  EXPECT_EQ(model.alpha, 0);
  EXPECT_EQ(model.kappa, 0);
}

TEST(Bound, MaximaOfATileAreOfAllItsRows) {
  FilterNorms tile;
  for (const FilterNorms row : {FilterNorms{1, 7}, FilterNorms{5, 2}, FilterNorms{3, 4}}) take_maxima(tile, row);
  EXPECT_EQ(tile.e, 5);
  EXPECT_EQ(tile.n, 7);
}

TEST(Bound, BytesKeepARowAtThetaAndDropOneAFewUnitsBeyond) {
  each_pair_of_bytes([](const BoundModel& model, const Int8Pair& p, Real least) {
    const std::int32_t seed = int8_bias(p.term, 1 / p.unit);
    const std::int32_t limit =
        int8_threshold(threshold_coeffs(model, p.theta, p.query_square, p.q), p.r, 1 / p.unit, p.shift);
    const Real sum = least + static_cast<Real>(p.shift) + seed;
    ASSERT_GE(sum, limit) << metric_info(model.metric).name << " theta " << p.theta << " unit " << p.unit;
    ASSERT_LT(sum - 3, limit) << metric_info(model.metric).name;
  });
}

TEST(Bound, ProductsInBytesCoverTheCanonicalErrorAlone) {
  for (const std::int64_t d : {1, 500, 16384}) {
    const BoundModel model(Metric::inner_product, DistanceType::f64, d, 1, 0);
    const FilterNorms q{0, 1e6}, r{0, 1e6};
    const Real canonical = (static_cast<Real>(d) / 32 + 8) * u64 * 1e12L;
    EXPECT_GE(static_cast<Real>(int8_bound(threshold_coeffs(model, 0, 1, q), r)), canonical);
    EXPECT_LE(static_cast<Real>(int8_bound(threshold_coeffs(model, 0, 1, q), r)), canonical * 1.01L);
  }
}

// A limit at a whole number and a seed that came out a little low: the slack is what is between them.
TEST(Bound, LimitsOfBytesCoverTheRoundingOfSeeds) {
  Random random;
  const BoundModel model(Metric::inner_product, DistanceType::f32, 8, 1, 0);
  for (int i = 0; i < 20000; ++i) {
    const double bound = std::floor(random.between(-1e8, 1e8)), unit = 1;
    ThresholdCoeffs line;
    line.base = bound;
    const std::int32_t limit = int8_threshold(line, {}, unit, 0);
    ASSERT_EQ(limit, static_cast<std::int32_t>(-bound));
    line.base = bound + 0x1p-20;
    ASSERT_LE(int8_threshold(line, {}, unit, 0), -bound);
    line.base = bound - 0x1p-12;  // within the slack of the next whole number
    ASSERT_LE(int8_threshold(line, {}, unit, 0), -bound) << "the slack is gone";
  }
  EXPECT_EQ(model.kappa, 0);
}

TEST(Bound, SeedsAndLimitsStayWhereSumsCannotWrap) {
  const float infinity = std::numeric_limits<float>::infinity();
  const double raw = 255.0 * 128 * static_cast<double>(most_int8_dims);
  EXPECT_LT(raw, 0x1p29);
  for (const float term : {-infinity, std::nanf(""), -1e30F, 1e30F, infinity, 0.0F, 1.0F, -1.0F}) {
    const std::int32_t seed = int8_bias(term, 1e3);
    EXPECT_LT(seed + raw, 0x1p31) << term;
    EXPECT_GE(seed - raw, -0x1p31) << term;
  }
  // A row without a bound is not below any limit, whatever the products.
  for (const double base : {-infinite, -1e300, -1e12, 0.0, 1e12, infinite, std::nan("")})
    for (const double shift : {-0x1p29, 0.0, 0x1p29}) {
      ThresholdCoeffs line;
      line.base = base;
      const std::int32_t limit = int8_threshold(line, {1, 1}, 1, shift);
      EXPECT_GE(int8_bias(-infinity, 1e3) - raw, limit) << base;
      EXPECT_GE(int8_bias(std::nanf(""), 1e3) - raw, limit) << base;
      EXPECT_TRUE(base < 1e12 || limit == std::numeric_limits<std::int32_t>::min()) << base;
    }
}

TEST(Bound, WhatBytesSayOfARowIsOnBothSidesOfTheTruth) {
  Random random;
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int i = 0; i < 50000; ++i) {
      const BoundModel model(metric, DistanceType::f32, 1 + i % 500, 1, 0);
      Int8Pair p = draw_bytes(random, model.sum, i);
      if (i % 3 == 0) p.r.e = 0;
      if (i % 3 == 0 && model.sum != Sum::products) p.term = down32(p.r.n * p.r.n);
      const Real product = floorl(random.between(-1, 1) * p.q.n * p.r.n / p.unit);
      const auto sum = static_cast<std::int32_t>(int8_bias(p.term, 1 / p.unit) + product + p.shift);
      const float t = int8_distance(sum, p.unit, p.shift);
      const Real truth = static_cast<Real>(p.term) - p.unit * product;
      ASSERT_LE(t, truth);
      ASSERT_GE(t, truth - 1.1L * p.unit - fabsl(truth) * 0x1p-20L);
      const double upper = int8_upper(model, t, p.unit, p.query_square, p.q, p.r);
      if (model.sum == Sum::products) {
        ASSERT_GE(upper, truth + static_cast<Real>(p.q.e) * (p.r.n + p.r.e) + static_cast<Real>(p.q.n) * p.r.e);
        continue;
      }
      // |r^|^2 - 2g + |q^|^2 of the row itself, whose term was rounded down.
      const Real square = static_cast<Real>(p.r.n) * p.r.n - p.unit * product + p.query_square;
      if (square < 0) continue;
      ASSERT_GE(upper, sqrtl(square) + p.q.e + p.r.e) << "unit " << p.unit;
      ASSERT_LE(upper, sqrtl(square + 2.2L * p.unit + 0x1p-18L) + p.q.e + p.r.e + 1e-6L);
    }
}

// Rows and queries in whole steps, moved by as much as rounding allows towards each other: they are nearer than their bytes
// say by both quantization errors.
TEST(Bound, BytesOfVectorsWithAlignedQuantizationErrors) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const auto d = static_cast<std::int64_t>(random.magnitude(0, 6));
    const double query_step = static_cast<double>(static_cast<float>(random.between(0.005, 0.01))),
                 row_step = static_cast<double>(static_cast<float>(random.between(0.005, 0.01)));
    const bool aligned = i % 4 != 0;
    const BoundModel model(i % 3 == 0 ? Metric::inner_product : Metric::euclidean, DistanceType::f64, d, 1, 0);
    QuantizationErrors facts[2] = {};
    Real square = 0, product = 0;
    std::int64_t sum = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      const double a = std::floor(random.between(60, 127)), b = std::floor(random.between(-127, -60));
      const double inward = aligned ? 0.499 : random.between(-0.5, 0.5);
      const bool products = model.sum == Sum::products;  // larger is nearer: outwards for those
      const double q = (a - (products ? -inward : inward)) * query_step,
                   r = (products ? -b + inward : b + inward) * row_step;
      const double qhat = a * query_step, rhat = (products ? -b : b) * row_step;
      facts[0].xx += q * q, facts[0].nn += qhat * qhat, facts[0].ee += (q - qhat) * (q - qhat);
      facts[1].xx += r * r, facts[1].nn += rhat * rhat, facts[1].ee += (r - rhat) * (r - rhat);
      square += (static_cast<Real>(q) - r) * (static_cast<Real>(q) - r);
      product += static_cast<Real>(q) * r;
      sum += static_cast<std::int64_t>(a) * static_cast<std::int64_t>(products ? -b : b);
    }
    const FilterNorms q = filter_norms(model, facts[0]), r = filter_norms(model, facts[1]);
    const double unit = int8_unit(model.sum, static_cast<float>(query_step), static_cast<float>(row_step));
    const Real truth = model.sum == Sum::products ? -product : sqrtl(square);
    const double theta = std::nextafter(static_cast<double>(truth), 1e9);
    const std::int32_t seed = int8_bias(row_term(model, facts[1], r), 1 / unit);
    const std::int32_t limit = int8_threshold(threshold_coeffs(model, theta, facts[0].nn, q), r, 1 / unit, 0);
    ASSERT_GE(seed + sum, limit) << metric_info(model.metric).name << " d=" << d;
    ASSERT_GE(int8_upper(model, int8_distance(static_cast<std::int32_t>(seed + sum), unit, 0), unit, facts[0].nn, q, r),
              truth);
  }
}

// Rows and queries whose quantization errors have the worst directions for a bound of their product: along the other one, or along themselves, so that
// lengths are less than those of what they were rounded to. styles as below.
struct WorstPair {
  static constexpr int styles = 5;
  std::vector<double> firsts[2], rounded[2];  // columns in steps, of the query and of the row

  void column(double query, double query_rounded, double row, double row_rounded) {
    firsts[0].push_back(query), rounded[0].push_back(query_rounded);
    firsts[1].push_back(row), rounded[1].push_back(row_rounded);
  }
  static WorstPair draw(Random& random, int style, int columns) {
    constexpr double half = 0.499;
    WorstPair pair;
    const double q = std::floor(random.between(20, 127)), r = std::floor(random.between(20, 127)),
                 small = std::floor(random.between(2, 12)), negative = -std::floor(random.between(0, 2));
    for (int j = 0; j < columns; ++j) switch (style) {
        case 0:  // each one's error along the other, which has nothing there
          pair.column(q, q, half, 0);
          pair.column(half, 0, r, r);
          break;
        case 1:  // a short query that is whole, a long row that was made longer
          pair.column(small, small, negative, negative);
          pair.column(0, 0, r - half, r);
          break;
        case 2:  // the other way round
          pair.column(0, 0, small * 3, small * 3);
          pair.column(126.5, 127, negative, negative);
          break;
        case 3:  // the same direction, a row that was made longer, a query that was made shorter
          pair.column(2 * small + half, 2 * small, small - half, small);
          break;
        default: {
          const double x = random.between(-127, 127), y = random.between(-127, 127);
          pair.column(x, std::nearbyint(x), y, std::nearbyint(y));
        }
      }
    return pair;
  }
  Real sum_of_products() const {
    Real sum = 0;
    for (std::size_t j = 0; j < rounded[0].size(); ++j) sum += static_cast<Real>(rounded[0][j]) * rounded[1][j];
    return sum;
  }
  QuantizationErrors errors(int side, double step) const {
    QuantizationErrors f = {};
    for (std::size_t j = 0; j < firsts[side].size(); ++j) {
      const double x = firsts[side][j] * step, n = rounded[side][j] * step;
      f.xx += x * x, f.nn += n * n, f.ee += (x - n) * (x - n);
    }
    return f;
  }
  Real distance(double query_step, double row_step) const {
    Real square = 0;
    for (std::size_t j = 0; j < firsts[0].size(); ++j) {
      const Real t = static_cast<Real>(firsts[0][j] * query_step) - firsts[1][j] * row_step;
      square += t * t;
    }
    return sqrtl(square);
  }
};

TEST(Bound, BytesOfFarRowsAreBoundByTheirProduct) {
  Random random;
  int by_product[WorstPair::styles] = {}, by_distance = 0;
  for (int i = 0; i < 50000; ++i) {
    const int style = i % WorstPair::styles;
    const WorstPair pair = WorstPair::draw(random, style, 1 + i / WorstPair::styles % 40);
    const auto step = [&] { return static_cast<double>(static_cast<float>(random.between(0.005, 0.01))); };
    const double query_step = step(), row_step = style == 3 ? query_step : step();
    const auto columns = static_cast<std::int64_t>(pair.firsts[0].size());
    const BoundModel model(Metric::euclidean, DistanceType::f64, columns, 1, 0);
    const QuantizationErrors of_query = pair.errors(0, query_step), of_row = pair.errors(1, row_step);
    const FilterNorms q = filter_norms(model, of_query), r = filter_norms(model, of_row);
    ASSERT_LE(q.low * q.low, of_query.xx);
    ASSERT_GE(r.lowered + of_row.xx * (1 + 0x1p-40), of_row.nn - r.e * r.e);
    const double unit = int8_unit(model.sum, static_cast<float>(query_step), static_cast<float>(row_step));
    const Real truth = pair.distance(query_step, row_step);
    const double theta = std::nextafter(static_cast<double>(truth), 1e9);
    const ThresholdCoeffs line = threshold_coeffs(model, theta, of_query.nn, q);
    if (line.by_n > 0) ++by_product[style];
    else ++by_distance;
    FilterNorms tile;
    take_maxima(tile, r);
    const float term = row_term(model, of_row, r);
    const auto sum = static_cast<std::int32_t>(int8_bias(term, 1 / unit) + pair.sum_of_products());
    ASSERT_GE(sum, int8_threshold(line, tile, 1 / unit, 0)) << "style " << style << ", " << columns << " columns";
    ASSERT_LE(static_cast<Real>(term) - unit * pair.sum_of_products(), int8_bound(line, tile)) << "style " << style;
    ASSERT_LE(static_cast<Real>(term) - unit * pair.sum_of_products(), int8_bound(product_coeffs(theta, q), tile))
        << "style " << style;
    ASSERT_GE(int8_upper(model, int8_distance(sum, unit, 0), unit, of_query.nn, q, tile), truth) << "style " << style;
  }
  for (const int style : {0, 1, 2, 4}) EXPECT_GT(by_product[style], 100) << style;
  EXPECT_GT(by_distance, 1000);
}

// What is known of a query's length decides alone whether products bound it, and never loosens a bound of rows like it.
TEST(Bound, ProductsBoundOnlyWhereTheyAreCloser) {
  const BoundModel model(Metric::euclidean, DistanceType::f32, 100, 1, 0);
  for (const double theta : {0.5, 0.99, 1.01, 1.4, 2.0}) {
    const FilterNorms known{0.01, 1, 0.99995, 0}, unknown{0.01, 1, 0, 0}, row{0.01, 1, 0, 0};
    const double with = int8_bound(threshold_coeffs(model, theta, 1, known), row),
                 without = int8_bound(threshold_coeffs(model, theta, 1, unknown), row);
    EXPECT_EQ(threshold_coeffs(model, theta, 1, unknown).by_n, 0);
    EXPECT_EQ(threshold_coeffs(model, theta, 1, known).by_n > 0, theta > 1) << theta;
    if (theta > 1.1) {
      EXPECT_LT(with, without) << theta;
    }
    EXPECT_LE(with, without + 0.001) << theta;
  }
  // Of floats, and where no squares are bounded, nothing of it is measured.
  const QuantizationErrors errors{1, 1, 1e-6, 0, 0, 0};
  for (const BoundModel& other : {BoundModel(Metric::euclidean, DistanceType::f32, 100, 1, 1),
                                  BoundModel(Metric::inner_product, DistanceType::f32, 100, 1, 0)}) {
    EXPECT_EQ(filter_norms(other, errors).low, 0);
    EXPECT_EQ(filter_norms(other, errors).lowered, 0);
  }
}

// Rows and queries in multiples of one step, moved towards each other or apart by as much as rounding allows.
TEST(Bound, DifferencesOfBytesWithAlignedQuantizationErrors) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const auto d = static_cast<std::int64_t>(random.magnitude(0, 6));
    const auto step = static_cast<float>(random.between(0.005, 0.01));
    const bool together = i % 2 == 0;
    const BoundModel model(i % 4 < 2 ? Metric::l1 : Metric::linf, DistanceType::f64, d, 1, 0);
    QuantizationErrors facts[2] = {};
    Real truth = 0;
    std::int64_t steps = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      const double codes[2] = {std::floor(random.between(1, 127)), std::floor(random.between(-127, -1))};
      double x[2];
      for (int side = 0; side < 2; ++side) {
        const double inward = side == 0 ? -0.499 : 0.499, rounded = codes[side] * step;
        x[side] = rounded + (together ? inward : -inward) * step;
        const double error = std::fabs(x[side] - rounded);
        facts[side].e_abs += error;
        facts[side].e_max = std::max(facts[side].e_max, error);
        facts[side].n_abs += std::fabs(rounded);
      }
      const auto difference = static_cast<std::int64_t>(codes[0] - codes[1]);
      const Real far = static_cast<Real>(x[0]) - x[1];
      truth = model.sum == Sum::largest ? std::max(truth, far) : truth + far;
      steps = model.sum == Sum::largest ? std::max(steps, difference) : steps + difference;
    }
    const FilterNorms q = filter_norms(model, facts[0]), r = filter_norms(model, facts[1]);
    const double theta = std::nextafter(static_cast<double>(truth), 1e9);
    const float t = step * static_cast<float>(steps),
                bound = up32(int8_bound(float_threshold_coeffs(model, theta, 0, q), r));
    ASSERT_LE(t, bound) << metric_info(model.metric).name << " d=" << d;
    ASSERT_LE(steps, difference_limit(bound, static_cast<float>(1 / static_cast<double>(step))));
    ASSERT_GE(upper_of(model, t, 0, q, r), truth);
  }
}

}  // namespace
}  // namespace vicinal
