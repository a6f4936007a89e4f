// The proof of the second look (core/bound_second.hpp) under worst-case constructions, in long double: what the theory allows is met from
// below, and no term may be larger than it must by more than rounding. tests/mutants/run.py breaks the header line by line and expects this
// file to notice.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/bound_second.hpp"

namespace vicinal::second_look {
namespace {
using Real = long double;
constexpr Real u64 = 0x1p-53L;
constexpr Metric metrics[] = {Metric::euclidean, Metric::cosine, Metric::inner_product};

class Random {
 public:
  double between(double low, double high) { return low + (high - low) * std::generate_canonical<double, 53>(engine_); }
  double magnitude(int low, int high) { return std::ldexp(between(1, 2), static_cast<int>(between(low, high))); }
  SecondNorms norms() {
    SecondNorms one{.n = between(0.5, 2), .coarse = magnitude(-6, -1), .fine = magnitude(-14, -8)};
    one.low = one.n * (1 - magnitude(-50, -12));
    return one;
  }

 private:
  std::mt19937_64 engine_{43};
};

Real slack_of(const SecondNorms& q, double rounded, const SecondNorms& r) {
  return static_cast<Real>(q.fine) * r.n + static_cast<Real>(q.coarse) * r.coarse + static_cast<Real>(rounded) * r.fine;
}
Real canonical_of(const BoundModel& model, const SecondNorms& q, const SecondNorms& r) {
  return (static_cast<Real>(model.dims) / 32 + 8) * u64 * q.n * r.n;
}

TEST(Bound, SecondNormsCoverSumsAtTheEdgeOfTheirError) {
  Random random;
  for (const Metric metric : metrics)
    for (const std::int64_t d : {1, 17, 784, 16384})
      for (int i = 0; i < 200; ++i) {
        const BoundModel model(metric, DistanceType::f32, d, 1, 0);
        const Real of_sums = 1 + (static_cast<Real>(d) + 1) * u64 / 2;  // d + 1 roundings under a root
        const double size = random.magnitude(-3, 3), fine = random.magnitude(-20, -10),
                     coarse = random.magnitude(-9, -2);
        const SecondNorms found =
            second_norms(model, {.xx = size * size, .coarse = coarse * coarse, .fine = fine * fine});
        // x' itself is wrong by an ulp or so, relative to itself, and where rows are divided by their norm to 1.
        const Real evaluated = (static_cast<Real>(d) / 32 + 16) * u64 * (size + (model.unit ? 1 : 0));
        ASSERT_GE(found.n, size * of_sums + evaluated);
        ASSERT_GE(found.coarse, coarse * of_sums + evaluated);
        ASSERT_GE(found.fine, fine * of_sums + evaluated);
        ASSERT_LE(found.low, size * (2 - of_sums) - evaluated);
        ASSERT_NEAR(found.n, size, 1e-10);
        ASSERT_NEAR(found.low, size, 1e-10);
        ASSERT_NEAR(found.coarse, coarse, 1e-10);
        ASSERT_NEAR(found.fine, fine, 1e-10);
      }
  const BoundModel model(Metric::euclidean, DistanceType::f32, 10, 1, 0);
  EXPECT_GE(second_norms(model, {}).low, 0);
}

TEST(Bound, SecondNormsCoverARotation) {
  BoundModel model(Metric::euclidean, DistanceType::f32, 100, 1, 0);
  const SecondQuantizationErrors facts{.xx = 4, .coarse = 1e-4, .fine = 1e-8};
  const SecondNorms before = second_norms(model, facts);
  model.transformed = 33;
  const SecondNorms after = second_norms(model, facts);
  constexpr double error = 33 * 0x1p-53 * 2 * (1 - 0x1p-10);
  EXPECT_GE(after.n, before.n + error * (1 - 0x1p-4));  // of so large a number an ulp is much of the error
  EXPECT_GE(after.coarse, before.coarse + error);
  EXPECT_GE(after.fine, before.fine + error);
  EXPECT_LE(after.low, before.low - error * (1 - 0x1p-4));
}

TEST(Bound, ProjectedRowsHaveNoSecondUpperBound) {
  BoundModel model(Metric::euclidean, DistanceType::f32, 100, 1, 0);
  const SecondNorms norms{.n = 2, .coarse = 1e-2, .fine = 1e-4, .low = 2};
  EXPECT_LT(second_upper(model, 1, 0x1p-10, norms, 2, norms), infinite);
  const double before = second_norms(model, {.xx = 4, .coarse = 1e-4, .fine = 1e-8}).fine;
  model.projected = true;
  model.underflow = 0.5;
  EXPECT_EQ(second_upper(model, 1, 0x1p-10, norms, 2, norms), infinite);
  EXPECT_GE(second_norms(model, {.xx = 4, .coarse = 1e-4, .fine = 1e-8}).fine, before + 0.5 * (1 - 1e-9));
}

TEST(Bound, SecondMaximaOfATileAreOfAllItsRows) {
  SecondNorms tile;
  for (const SecondNorms row : {SecondNorms{1, 7, 3}, SecondNorms{5, 2, 6}, SecondNorms{3, 4, 5}})
    take_maxima(tile, row);
  EXPECT_EQ(tile.n, 5);
  EXPECT_EQ(tile.coarse, 7);
  EXPECT_EQ(tile.fine, 6);
}

TEST(Bound, TheMiddlesOfSecondBytesAreInTheShift) {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    Real truth = 0;
    std::int64_t sum = 0, firsts = 0, quantization_errors = 0;
    for (int k = 0; k < 1 + i % 300; ++k) {
      const auto first = static_cast<std::int64_t>(random.between(-128, 128)),
                 j = static_cast<std::int64_t>(random.between(-128, 128));
      const auto high = static_cast<std::int64_t>(random.between(0, 16)),
                 low = static_cast<std::int64_t>(random.between(0, 16));
      truth += static_cast<Real>(j) / 256 * (16 * static_cast<Real>(high) - 120.5L) +
               static_cast<Real>(first) * (static_cast<Real>(low) - 7.5L) / 16;
      sum += j * high + first * low, firsts += first, quantization_errors += j;
    }
    ASSERT_EQ(static_cast<Real>(sum) / 16 + second_shift(firsts, quantization_errors), truth);
  }
}

TEST(Bound, TheSecondTIsAtMostWhatItStandsFor) {
  Random random;
  for (int i = 0; i < 100000; ++i) {
    const auto t = static_cast<float>(random.between(-1000, 1000)), term = static_cast<float>(random.between(-20, 20));
    const double unit = random.magnitude(-14, -8), shift = std::floor(random.between(-1e6, 1e6)) / 512;
    const auto sum = static_cast<std::int64_t>(random.between(-1e7, 1e7));
    const Real truth = static_cast<Real>(t) + term - unit * (static_cast<Real>(sum) / 16 + shift);
    const float found = second_t(t, term, unit, sum, shift);
    ASSERT_LE(found, truth);
    ASSERT_GE(found, truth - fabsl(truth) * 0x1p-21L - 0x1p-140L);
  }
  EXPECT_EQ(second_t(1, -std::numeric_limits<float>::infinity(), 1, 5, 5), -std::numeric_limits<float>::infinity());
}

TEST(Bound, TheSecondTermLeavesTheSquareOfTheRow) {
  Random random;
  const BoundModel model(Metric::euclidean, DistanceType::f32, 100, 1, 0),
      products(Metric::inner_product, DistanceType::f32, 100, 1, 0);
  for (int i = 0; i < 100000; ++i) {
    const SecondNorms row = random.norms();
    const auto term = static_cast<float>(row.n * row.n * random.between(0.9, 1));
    const Real truth = static_cast<Real>(row.low) * row.low - term;
    ASSERT_LE(second_term(model, row, term), truth);
    ASSERT_GE(second_term(model, row, term), truth - fabsl(truth) * 0x1p-21L - 1e-14L);
    ASSERT_EQ(second_term(products, row, 0.0F), 0.0F);
  }
  for (const BoundModel* form : {&model, &products})
    for (const float bad : {-std::numeric_limits<float>::infinity(), std::nanf("")})
      EXPECT_EQ(second_term(*form, random.norms(), bad), -std::numeric_limits<float>::infinity())
          << "a row without a bound";
}

TEST(Bound, TheSecondLookKeepsARowAtThetaAndDropsOneAHairBeyond) {
  Random random;
  for (const Metric metric : metrics)
    for (int i = 0; i < 100000; ++i) {
      const BoundModel model(metric, DistanceType::f32, 1 + i % 16000, 1, 0);
      SecondNorms q = random.norms(), r = random.norms();
      double rounded = random.between(0.5, 2);
      if (i % 4 != 0) {  // one term alone
        q.fine = i % 4 == 1 ? q.fine : 0;
        q.coarse = i % 4 == 2 ? q.coarse : 0;
        rounded = i % 4 == 3 ? rounded : 0;
      }
      const double theta =
          model.sum == Sum::products ? (i % 5 == 0 ? 0 : random.between(-2, 2)) : random.between(0.01, 4);
      const Real slack = slack_of(q, rounded, r);
      const Real edge = model.sum == Sum::products
                            ? theta + slack + canonical_of(model, q, r)
                            : static_cast<Real>(theta) * theta - static_cast<Real>(q.low) * q.low + 2 * slack;
      const float found = second_threshold(model, theta, q, rounded, r);
      ASSERT_GE(found, edge) << metric_info(metric).name;
      ASSERT_LE(found, edge + fabsl(edge) * 0x1p-21L + 1e-13L) << metric_info(metric).name;
    }
  // Products about 0 of rows without a slack: what the canonical routine errs by is all there is.
  const BoundModel products(Metric::inner_product, DistanceType::f64, 16000, 1, 0);
  EXPECT_GE(second_threshold(products, 0, {.n = 1}, 0, {.n = 1}), canonical_of(products, {.n = 1}, {.n = 1}));
  const BoundModel model(Metric::euclidean, DistanceType::f32, 10, 1, 0);
  EXPECT_TRUE(std::isinf(second_threshold(model, infinite, {.n = 1}, 1, {.n = 1})))
      << "nothing is excluded before k are known";
}

TEST(Bound, WhatTheSecondLookSaysIsOnTheFarSideOfTheTruth) {
  Random random;
  for (const Metric metric : metrics)
    for (int i = 0; i < 100000; ++i) {
      const BoundModel model(metric, DistanceType::f32, 1 + i % 16000, 1, 0);
      SecondNorms q = random.norms(), r = random.norms();
      const double rounded = q.n, unit = i % 3 == 0 ? 0 : random.magnitude(-14, -8);
      // t may be less than what it stands for by a unit, and by the roundings of its parts.
      const Real parts = (q.n + r.n) * (q.n + r.n) * 0x1p-19L, slack = slack_of(q, rounded, r);
      const Real truth = random.between(-1, 3);
      const auto t = static_cast<float>(truth - (1 + 2 * static_cast<Real>(int8_slack)) * unit - parts);
      const double upper = second_upper(model, t, unit, q, rounded, r);
      if (model.sum == Sum::products) {
        ASSERT_GE(upper, truth + slack + canonical_of(model, q, r));
        ASSERT_LE(upper, truth + slack + unit + 1e-3L);
        continue;
      }
      const Real square = static_cast<Real>(q.n) * q.n + truth + 2 * slack;
      if (square < 0) continue;
      ASSERT_GE(upper, sqrtl(square)) << metric_info(metric).name;
      ASSERT_LE(upper * upper, square + unit + 1e-3L);
    }
  for (const Metric metric : metrics) {
    const BoundModel model(metric, DistanceType::f32, 10, 1, 0);
    EXPECT_EQ(second_upper(model, -std::numeric_limits<float>::infinity(), 1, {.n = 1}, 1, {.n = 1}), infinite)
        << "a row without a bound";
  }
}

// Real rows and queries, rounded as rows are, in long double otherwise: elements at the ends of the cells of u and v, all on one side.
TEST(Bound, SecondBytesOfVectorsWithAlignedQuantizationErrors) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const BoundModel model(i % 3 == 0 ? Metric::inner_product : Metric::euclidean, DistanceType::f64, 1 + i % 60, 1, 0);
    const double row_step = static_cast<double>(static_cast<float>(random.between(0.005, 0.01))),
                 query_step = static_cast<double>(static_cast<float>(random.between(0.005, 0.01)));
    SecondQuantizationErrors of_row, of_query;
    double nn = 0;
    Real square = 0, product = 0, rounded_product = 0;
    std::int64_t sum = 0, firsts = 0, quantization_errors = 0;
    for (std::int64_t k = 0; k < model.dims; ++k) {
      const double edge = i % 2 == 0 ? 0.4999 : random.between(-0.5, 0.5);
      const double first = std::floor(random.between(60, 127)), row_first = std::floor(random.between(-127, 127));
      const double low = std::floor(random.between(0, 16)), j = std::floor(random.between(-127, 127));
      const double high = std::nearbyint((row_first + 120.5) / 16);
      const double q = query_step * (first + (j + edge) / 256), r = row_step * (row_first + (low - 7.5 + edge) / 16);
      const double u = row_step * (16 * high - 120.5), v = row_step * (low - 7.5) / 16, p = query_step * j / 256;
      of_row.xx += r * r, of_row.coarse += (r - u) * (r - u),
          of_row.fine += (r - row_step * row_first - v) * (r - row_step * row_first - v);
      of_query.xx += q * q, of_query.coarse += p * p,
          of_query.fine += (q - query_step * first - p) * (q - query_step * first - p);
      nn += query_step * first * query_step * first;
      square += (static_cast<Real>(q) - r) * (static_cast<Real>(q) - r);
      product += static_cast<Real>(q) * r;
      rounded_product += static_cast<Real>(query_step) * first * row_step * row_first;
      sum += static_cast<std::int64_t>(j * high + first * low), firsts += static_cast<std::int64_t>(first),
          quantization_errors += static_cast<std::int64_t>(j);
    }
    const SecondNorms q = second_norms(model, of_query), r = second_norms(model, of_row);
    const double unit = int8_unit(model.sum, static_cast<float>(query_step), static_cast<float>(row_step)),
                 rounded = std::sqrt(nn) * (1 + 1e-13);
    const float term = model.sum == Sum::products ? 0 : down32(of_row.xx * 0.99);
    const float first_t =
        down32(static_cast<double>(static_cast<Real>(term) - (model.sum == Sum::products ? 1 : 2) * rounded_product));
    const float t =
        second_t(first_t, second_term(model, r, term), unit, sum, second_shift(firsts, quantization_errors));
    const Real truth = model.sum == Sum::products ? -product : sqrtl(square);
    const double theta = std::nextafter(static_cast<double>(truth), 1e9);
    ASSERT_LE(t, second_threshold(model, theta, q, rounded, r)) << "d=" << model.dims;
    ASSERT_GE(second_upper(model, t, unit, q, rounded, r), truth) << "d=" << model.dims;
  }
}

}  // namespace
}  // namespace vicinal::second_look
