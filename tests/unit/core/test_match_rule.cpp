// The tests of a match against integers of any length, and our arc cosine against long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/match_rule.hpp"

namespace {

using namespace vicinal;

TEST(MatchRule, ArcCosineIsWithinOneAndAHalfUnits) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    double x = std::uniform_real_distribution<double>(-1, 1)(random);
    if (i % 3 == 1) x = 1 - std::ldexp(std::fabs(x), -static_cast<int>(random() % 53));
    if (i % 3 == 2) x = std::ldexp(x, -static_cast<int>(random() % 60));
    const long double want = std::acos(static_cast<long double>(x));
    const double unit = std::nextafter(static_cast<double>(want), 10) - static_cast<double>(want);
    worst = std::max(worst, static_cast<double>(std::fabs(arc_cosine(x) - want)) / unit);
  }
  EXPECT_LT(worst, 1.5);
  EXPECT_EQ(arc_cosine(1), 0);
  EXPECT_EQ(arc_cosine(0), std::acos(0.0));
  EXPECT_EQ(arc_cosine(-1), std::acos(-1.0));
}

// With r = n / 2^k the border is best 4^k = n^2 second, and the next doubles are on either side of it.
TEST(MatchRule, SquaresAreComparedExactly) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200000; ++i) {
    const int k = 1 + static_cast<int>(random() % 12);
    const auto n = static_cast<std::int64_t>(1 + random() % (std::uint64_t{1} << (k + 1)));
    const double ratio = std::ldexp(static_cast<double>(n), -k);
    if (ratio < 1e-6) continue;
    const auto second = static_cast<std::int64_t>(1 + random() % 1000) << (2 * k);
    const std::int64_t best = n * n * (second >> (2 * k));
    const auto compare = [&](std::int64_t b, double r) {
      return compare_squares(static_cast<double>(b), r, static_cast<double>(second));
    };
    ASSERT_EQ(compare(best, ratio), 0);
    ASSERT_EQ(compare(best - 1, ratio), -1);
    ASSERT_EQ(compare(best + 1, ratio), 1);
    ASSERT_EQ(compare(best, std::nextafter(ratio, 0)), 1);
    ASSERT_EQ(compare(best, std::nextafter(ratio, 10)), -1);
  }
  EXPECT_EQ(compare_squares(0, 0.8, 0), 0);
  EXPECT_EQ(compare_squares(0, 0.8, 1), -1);
  EXPECT_EQ(compare_squares(1, 0.8, 0), 1);
  EXPECT_EQ(compare_squares(16, 0.8, 25), -1);  // the double is above four fifths
  EXPECT_EQ(compare_squares(9007199254740991.0, 1, 9007199254740991.0), 0);
  EXPECT_EQ(compare_squares(9007199254740991.0, 1, 9007199254740990.0), 1);
  EXPECT_EQ(compare_squares(9007199254740990.0, 1, 9007199254740991.0), -1);
  EXPECT_EQ(compare_squares(9007199254740991.0, 1e-6, 9007199254740991.0), 1);
  EXPECT_EQ(compare_squares(9007199254740991.0, 1e6, 1), 1);
}

TEST(MatchRule, ProductsAreNotRounded) {
  EXPECT_EQ(compare_distances(4, 0.8, 5), -1);
  EXPECT_EQ(compare_distances(3, 0.75, 4), 0);
  EXPECT_EQ(compare_distances(3, std::nextafter(0.75, 0), 4), 1);
  EXPECT_EQ(compare_distances(0, 0.8, 0), 0);
  EXPECT_EQ(compare_distances(0, 0.8, 5e-324), -1);
  // The double is above four fifths, by less than fp64 tells of products near its least number.
  for (const double unit : {5e-324, 0x1p-1030, 0x1p-1000, 0x1p-540, 0x1p299, 0x1p1000}) {
    EXPECT_EQ(compare_distances(4 * unit, 0.8, 5 * unit), -1) << unit;
    EXPECT_EQ(compare_distances(3 * unit, 0.75, 4 * unit), 0) << unit;
    EXPECT_EQ(compare_distances(3 * unit, std::nextafter(0.75, 0), 4 * unit), 1) << unit;
  }
}

}  // namespace
