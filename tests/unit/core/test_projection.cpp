// Projections (core/projection.hpp) beside their definition in long double: no distance of projected rows is larger than that of the rows, and what is computed
// errs by less than the bound allows for. tests/mutants/run.py breaks the header line by line and expects this file to notice.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "core/projection.hpp"

namespace vicinal::projections {
namespace {

using Real = long double;
using Row = std::vector<double>;

constexpr Real u64 = 0x1p-53L;

Projection projection_of(std::int64_t dims, std::span<const double> directions) {
  return {dims, directions, [] {}};
}

/// Rows of random numbers: of even sizes, of sizes from 2^-60 to 2^60, of one column, and of whole numbers.
Row random_row(std::mt19937_64& random, std::int64_t dims, int kind) {
  std::normal_distribution<double> gauss;
  Row row(static_cast<std::size_t>(dims));
  for (double& x : row)
    x = kind == 3 ? std::floor(4 * gauss(random))
                  : std::ldexp(gauss(random), kind == 1 ? static_cast<int>(random() % 120) - 60 : 0);
  if (kind == 2)
    for (std::size_t i = 1; i < row.size(); ++i) row[i] = 0;
  return row;
}

/// Orthonormal to rounding, by Gram and Schmidt; then turned towards each other by `skew` and made `length` long.
std::vector<double> directions(std::mt19937_64& random, std::int64_t count, std::int64_t dims, double skew = 0,
                               double length = 1) {
  std::vector<std::vector<Real>> rows;
  while (static_cast<std::int64_t>(rows.size()) < count) {
    const Row from = random_row(random, dims, 0);
    std::vector<Real> row(from.begin(), from.end());
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& other : rows) {
        Real product = 0;
        for (std::size_t i = 0; i < row.size(); ++i) product += row[i] * other[i];
        for (std::size_t i = 0; i < row.size(); ++i) row[i] -= product * other[i];
      }
    Real square = 0;
    for (const Real x : row) square += x * x;
    for (Real& x : row) x /= sqrtl(square);
    rows.push_back(row);
  }
  std::vector<double> all;
  for (std::size_t j = 0; j < rows.size(); ++j)
    for (std::size_t i = 0; i < rows[j].size(); ++i)
      all.push_back(static_cast<double>((rows[j][i] + static_cast<Real>(skew) * (j > 0 ? rows[j - 1][i] : 0)) *
                                        static_cast<Real>(length)));
  return all;
}

/// (B x, sqrt(|x|^2 - |B x|^2)) of the matrix as it is.
std::vector<Real> projected(const Projection& projection, const Row& x) {
  std::vector<Real> y;
  Real square = 0;
  for (const double value : x) square += static_cast<Real>(value) * value;
  for (std::int64_t j = 0; j < projection.directions(); ++j) {
    Real sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += static_cast<Real>(projection.matrix()[static_cast<std::size_t>(j * projection.stride()) + i]) * x[i];
    y.push_back(sum);
    square -= sum * sum;
  }
  y.push_back(square > 0 ? sqrtl(square) : 0);
  return y;
}

Row computed(const Projection& projection, const Row& x) {
  Row y;
  double square = 0, products = 0;
  for (const double value : x) square += value * value;
  for (std::int64_t j = 0; j < projection.directions(); ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += static_cast<double>(projection.matrix()[static_cast<std::size_t>(j * projection.stride()) + i]) * x[i];
    y.push_back(sum);
    products += sum * sum;
  }
  y.push_back(Projection::left_over(square, products));
  return y;
}

template <class A, class B>
Real distance(const A& a, const B& b) {
  Real sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (static_cast<Real>(a[i]) - b[i]) * (static_cast<Real>(a[i]) - b[i]);
  return sqrtl(sum);
}
Real length(const Row& x) { return distance(x, Row(x.size())); }

/// The norm of the matrix, from below, by powers of B^T B.
Real norm(const Projection& projection, std::mt19937_64& random) {
  Row x = random_row(random, projection.dims(), 0);
  Real found = 0;
  for (int i = 0; i < 60; ++i) {
    const Real before = length(x);
    std::vector<Real> y = projected(projection, x);
    y.pop_back();
    Real square = 0;
    for (const Real value : y) square += value * value;
    found = sqrtl(square) / before;
    Row next(x.size());
    for (std::size_t c = 0; c < x.size(); ++c) {
      Real sum = 0;
      for (std::size_t j = 0; j < y.size(); ++j)
        sum += y[j] * projection.matrix()[j * static_cast<std::size_t>(projection.stride()) + c];
      next[c] = static_cast<double>(sum / sqrtl(square));
    }
    x = next;
  }
  return found;
}

struct Shape {
  std::int64_t dims, count;
};
constexpr Shape shapes[] = {{4, 1}, {5, 2}, {16, 7}, {33, 16}, {64, 63}, {200, 20}, {300, 64}};

TEST(Bound, ProjectionsBringNothingFartherApart) {
  std::mt19937_64 random(46);
  for (const Shape shape : shapes)
    for (const double skew : {0.0, 1e-3, 0.02, -0.02}) {
      const Projection projection = projection_of(
          shape.dims, directions(random, shape.count, shape.dims, skew, skew != 0 ? 0.9 + 10 * std::fabs(skew) : 1));
      ASSERT_TRUE(projection.present());
      ASSERT_EQ(projection.columns(), shape.count + 1);
      ASSERT_LE(norm(projection, random), 1 + 1e-18L) << shape.dims << " x " << shape.count;
      ASSERT_GE(norm(projection, random), 0.85L);
      for (int i = 0; i < 24; ++i) {
        const Row a = random_row(random, shape.dims, i % 4);
        Row b = random_row(random, shape.dims, i / 4 % 4);
        if (i % 3 == 0)
          for (std::size_t c = 0; c < b.size(); ++c) b[c] = a[c] + 1e-3 * b[c];
        ASSERT_LE(distance(projected(projection, a), projected(projection, b)),
                  distance(a, b) * (1 + 1e-15L) + (length(a) + length(b)) * 1e-9L);
      }
    }
}

TEST(Bound, ProjectionsErrByLessThanTheySay) {
  std::mt19937_64 random(47);
  for (const Shape shape : shapes) {
    const Projection projection = projection_of(shape.dims, directions(random, shape.count, shape.dims));
    const double d = static_cast<double>(shape.dims), p = static_cast<double>(shape.count);
    // The last column's square has the errors of both sums of squares and twice those of the products.
    const double square = 2 * (d + 2) * std::sqrt(p) + 2 * (d + p) + 8;
    ASSERT_GE(projection.roundings(), (d + 2) * std::sqrt(p) + std::sqrt(square * 0x1p53));
    ASSERT_LE(projection.roundings(), ((d + 2) * std::sqrt(p) + std::sqrt(square * 0x1p53)) * 1.01 + 4);
    for (int i = 0; i < 24; ++i) {
      Row x = random_row(random, shape.dims, i % 4);
      if (i % 5 == 4) {  // in the span of the directions, which leave next to nothing of it
        std::fill(x.begin(), x.end(), 0.0);
        for (std::int64_t j = 0; j < shape.count; ++j)
          for (std::size_t c = 0; c < x.size(); ++c)
            x[c] += std::ldexp(
                static_cast<double>(projection.matrix()[static_cast<std::size_t>(j * projection.stride()) + c]),
                static_cast<int>(random() % 8));
      }
      ASSERT_LE(distance(projected(projection, x), computed(projection, x)),
                static_cast<Real>(projection.roundings()) * u64 * length(x) + Projection::underflow);
    }
  }
}

TEST(Bound, ProjectionsOfTinyRowsErrByUnderflowAtMost) {
  std::mt19937_64 random(48);
  const Projection projection = projection_of(64, directions(random, 15, 64));
  for (int exponent = -1060; exponent < -480; exponent += 20) {
    Row x = random_row(random, 64, 0);
    for (double& value : x) value = std::ldexp(value, exponent);
    ASSERT_LE(distance(projected(projection, x), computed(projection, x)),
              static_cast<Real>(projection.roundings()) * u64 * length(x) + static_cast<Real>(Projection::underflow));
  }
  EXPECT_LT(Projection::underflow, 1e-120) << "of rows whose elements are about 1";
}

TEST(Bound, DirectionsThatAreFarFromOrthonormalAreNone) {
  std::mt19937_64 random(49);
  std::vector<double> twice = directions(random, 4, 20);
  std::copy_n(twice.begin(), 20, twice.begin() + 20);
  EXPECT_FALSE(projection_of(20, twice).present());
  EXPECT_FALSE(projection_of(20, directions(random, 4, 20, 0, 3)).present());
  std::vector<double> broken = directions(random, 4, 20);
  broken[33] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(projection_of(20, broken).present());
  broken[33] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(projection_of(20, broken).present());
  // Zeros among them say nothing and do no harm.
  std::vector<double> short_ones = directions(random, 4, 20);
  std::fill_n(short_ones.begin() + 40, 20, 0.0);
  EXPECT_TRUE(projection_of(20, short_ones).present());
}

TEST(Bound, WhatIsLeftOfARow) {
  EXPECT_EQ(Projection::left_over(25, 9), 4);
  EXPECT_EQ(Projection::left_over(9, 9 + 1e-12), 0) << "of a row in the span of the directions";
  EXPECT_TRUE(std::isnan(
      Projection::left_over(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity())))
      << "such a row is never excluded";
}

TEST(Bound, NoProjectionLeavesARowAsItIs) {
  const Projection none;
  EXPECT_FALSE(none.present());
  EXPECT_EQ(none.roundings(), 0);
  EXPECT_EQ(none.bytes(), 0);
}

TEST(Bound, TheMatrixIsFilledUpWithZeros) {
  std::mt19937_64 random(50);
  const Projection projection = projection_of(21, directions(random, 3, 21));
  ASSERT_EQ(projection.stride(), 32);
  ASSERT_EQ(projection.bytes(), 3 * 32 * 4);
  for (std::int64_t j = 0; j < 3; ++j)
    for (std::int64_t i = 21; i < 32; ++i) EXPECT_EQ(projection.matrix()[j * 32 + i], 0);
}

}  // namespace
}  // namespace vicinal::projections
