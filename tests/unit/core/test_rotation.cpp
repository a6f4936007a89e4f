// Rotations (core/rotation.hpp) beside their definition in long double: what they err by is within what the bound allows for, and a column that is larger than
// the rest is spread over them. tests/mutants/run.py breaks the header line by line and expects this file to notice.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/rotation.hpp"
#include "rotation_twin.hpp"

namespace vicinal::rotations {
namespace {

constexpr Real u64 = 0x1p-53L;
constexpr std::int64_t all_dims[] = {1, 2, 3, 4, 5, 7, 8, 16, 24, 33, 64, 96, 100, 127, 128, 200, 256, 784, 1000};

int stages(std::int64_t dims) { return std::bit_width(static_cast<std::uint64_t>(dims)) - 1; }
int passes(std::int64_t dims) { return std::has_single_bit(static_cast<std::uint64_t>(dims)) ? 1 : 2; }

Real length(const std::vector<Real>& x) {
  Real sum = 0;
  for (const Real value : x) sum += value * value;
  return sqrtl(sum);
}

TEST(Bound, RotationsErrByLessThanTheySay) {
  std::mt19937_64 random(44);
  std::normal_distribution<double> gauss;
  for (const std::int64_t d : all_dims) {
    const Rotation rotation(d);
    ASSERT_TRUE(rotation.present());
    // A root, a product and a sum of each stage, each half an ulp of what it makes.
    ASSERT_GE(rotation.roundings(), passes(d) * (stages(d) + 2)) << d;
    ASSERT_LE(rotation.roundings(), passes(d) * (stages(d) + 2) + 2) << d;
    for (int i = 0; i < 12; ++i) {
      std::vector<double> row(static_cast<std::size_t>(d));
      for (double& x : row) x = std::ldexp(gauss(random), i % 3 == 0 ? static_cast<int>(random() % 40) : 0);
      std::vector<Real> difference = rotated({row.begin(), row.end()});
      const Real size = length(difference);
      rotation.apply(row.data());
      for (std::size_t j = 0; j < row.size(); ++j) difference[j] -= row[j];
      ASSERT_LE(length(difference), static_cast<Real>(rotation.roundings()) * u64 * size) << d;
    }
  }
}

TEST(Bound, RotationsKeepLengths) {
  for (const std::int64_t d : all_dims) {
    std::vector<Real> x(static_cast<std::size_t>(d));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Real>(i * i % 17) - 5;
    ASSERT_NEAR(static_cast<double>(length(rotated(x)) / length(x)), 1, 1e-15) << d;
  }
}

TEST(Bound, RotationsSpreadEveryColumn) {
  for (const std::int64_t d : all_dims) {
    const Rotation rotation(d);
    const double even = 1 / std::sqrt(std::ldexp(1, stages(d)));
    for (std::int64_t column = 0; column < d; ++column) {
      std::vector<double> row(static_cast<std::size_t>(d));
      row[static_cast<std::size_t>(column)] = 1;
      rotation.apply(row.data());
      for (const double x : row) ASSERT_LE(std::fabs(x), std::min(1.0, 5 * even) + 1e-12) << d << " column " << column;
    }
    // The transform alone would gather equal elements in one column.
    std::vector<double> equal(static_cast<std::size_t>(d), 1.0);
    rotation.apply(equal.data());
    for (const double x : equal) ASSERT_LE(std::fabs(x), std::min(5.0, 1.5 * std::sqrt(static_cast<double>(d)))) << d;
  }
}

TEST(Bound, RotationsOfQueriesAreThoseOfRows) {
  for (const std::int64_t d : {5, 64, 96}) {
    std::vector<double> row(static_cast<std::size_t>(d), 0.75), query = row;
    Rotation(d).apply(row.data());
    Rotation(d).apply(query.data());
    EXPECT_EQ(row, query);
  }
}

TEST(Bound, NoRotationLeavesARowAsItIs) {
  std::vector<double> row = {1, 2, 3};
  const Rotation none;
  none.apply(row.data());
  EXPECT_EQ(row, (std::vector<double>{1, 2, 3}));
  EXPECT_FALSE(none.present());
  EXPECT_EQ(none.roundings(), 0);
}

}  // namespace
}  // namespace vicinal::rotations
