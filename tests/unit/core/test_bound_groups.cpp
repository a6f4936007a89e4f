// The proof of one comparison for the rows of a group (core/bound_groups.hpp) under worst-case constructions, in long double: products at the
// least that a row which must stay can have, whole where that is the edge itself. tests/mutants/run.py breaks the header line by line and
// expects this file to notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bytes_at_theta.hpp"
#include "core/bound_groups.hpp"

namespace vicinal::groups {
namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Row {
  FilterNorms norms;
  float term;
};
/// A query, rows that share a step, and what is known of the query's neighbours.
struct Case {
  FilterNorms q;
  double theta = 0, query_square = 0, query_inverse = 1, row_inverse = 1, unit = 1;
  std::vector<Row> rows;

  Case(Random& random, Sum kind, int i) {
    const auto query_step = static_cast<float>(random.magnitude(-12, -5)),
               row_step = static_cast<float>(random.magnitude(-12, -5));
    unit = int8_unit(kind, query_step, row_step);
    row_inverse = 1 / static_cast<double>(row_step);
    query_inverse = 1 / int8_unit(kind, query_step, 1);
    q = {i % 5 == 0 ? 0 : random.magnitude(-12, -3), random.between(0.5, 2)};
    query_square = q.n * q.n;
    theta = kind == Sum::products ? random.between(-2, 2) : random.between(0.01, 4);
    for (int r = 0; r < 16; ++r) {
      const FilterNorms norms{i % 7 == 0 ? 0 : random.magnitude(-12, -3), random.between(0.5, 2)};
      rows.push_back({norms, kind == Sum::products ? 0 : down32(norms.n * norms.n - norms.e * norms.e)});
    }
  }
  /// The least product of a row that must stay, before it is raised to a whole number.
  Real least_of(const BoundModel& model, const Row& row) const {
    if (model.sum == Sum::products) {
      const Real canonical =
          (static_cast<Real>(model.dims) / 32 + 8) * 0x1p-53L * (q.n + q.e) * (row.norms.n + row.norms.e);
      return -(theta + static_cast<Real>(q.e) * (row.norms.n + row.norms.e) + static_cast<Real>(q.n) * row.norms.e +
               canonical) /
             unit;
    }
    const Real a = static_cast<Real>(theta) + q.e;
    return (row.term - a * a + static_cast<Real>(query_square) - 2 * a * row.norms.e) / unit;
  }
  /// Moves the query so that the edge of a row is a whole number.
  Real make_whole(const BoundModel& model, const Row& row) {
    const Real least = least_of(model, row), whole = roundl(least);
    if (model.sum == Sum::products) theta -= static_cast<double>((whole - least) * unit);
    else query_square += static_cast<double>((whole - least) * unit);
    return whole;
  }
  float threshold(const BoundModel& model) const {
    RowGroup group;
    for (const Row& row : rows) take_row(group, row.term, row.norms);
    const ThresholdCoeffsF32 line = threshold_coeffs_f32(threshold_coeffs(model, theta, query_square, q));
    return group_threshold(group_coeffs(line, static_cast<float>(query_inverse)), group_norms(group, row_inverse));
  }
  Real size() const {
    Real most = 0;
    for (const Row& row : rows)
      most = std::max(most, fabsl(static_cast<Real>(row.term)) + row.norms.n * (1 + static_cast<Real>(q.e)));
    return (most + query_square + (theta + q.e) * (theta + q.e) + 4 * q.n + fabsl(static_cast<Real>(theta))) / unit;
  }
};

TEST(Bound, AGroupIsKeptForEachOfItsRowsAtTheta) {
  Random random(44);
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int i = 0; i < 100000; ++i) {
      const BoundModel model(metric, DistanceType::f32, 1 + i % 500, 1, 0);
      Case c(random, model.sum, i);
      const auto which = static_cast<std::size_t>(i % 16);
      const Real whole = c.make_whole(model, c.rows[which]);
      if (i % 3 == 0) std::fill(c.rows.begin(), c.rows.end(), Row(c.rows[which]));
      const float threshold = c.threshold(model);
      ASSERT_GE(whole, threshold) << metric_info(metric).name << " theta " << c.theta << " unit " << c.unit;
      for (const Row& row : c.rows)
        ASSERT_GE(ceill(c.least_of(model, row) - 1e-6L), threshold) << metric_info(metric).name;
      // Of equal rows it is as large as it may be, but for its rounding.
      if (i % 3 == 0) {
        ASSERT_GE(threshold, whole - 0.07L - c.size() * 0x1p-17L) << metric_info(metric).name;
      }
    }
}

TEST(Bound, AGroupsThresholdIsThatOfItsExtremes) {
  const BoundModel model(Metric::euclidean, DistanceType::f32, 8, 1, 0);
  Random random(44);
  for (int i = 0; i < 1000; ++i) {
    Case c(random, model.sum, i);
    const float all = c.threshold(model);
    Row extreme = c.rows[0];
    for (const Row& row : c.rows) {
      extreme.term = std::min(extreme.term, row.term);
      extreme.norms = {std::max(extreme.norms.e, row.norms.e), std::max(extreme.norms.n, row.norms.n)};
    }
    c.rows = {extreme};
    EXPECT_EQ(c.threshold(model), all);
    c.rows.push_back({{0, 0}, infinity});  // masked
    EXPECT_EQ(c.threshold(model), all);
  }
}

// One part alone, of numbers so large that its rounding is many units.
TEST(Bound, EachPartOfAGroupsThresholdIsLoweredByMoreThanItsRounding) {
  Random random(44);
  for (int i = 0; i < 20000; ++i) {
    const auto query_step = static_cast<float>(random.magnitude(-24, -16)),
               row_step = static_cast<float>(random.magnitude(-24, -16));
    const double unit = static_cast<double>(query_step) * static_cast<double>(row_step);
    const auto value = static_cast<float>(random.between(i % 4 < 2 ? -2 : 0, 2));
    const FilterNorms norms{i % 4 == 2 ? static_cast<double>(value) : 0, i % 4 == 3 ? static_cast<double>(value) : 0};
    const ThresholdCoeffsF32 line{i % 4 == 1 ? value : 0, i % 4 == 2 ? 1.0F : 0, i % 4 == 3 ? 1.0F : 0};
    RowGroup group;
    take_row(group, i % 4 == 0 ? value : 0, norms);
    const Real exact = (i % 4 == 0 ? 1 : -1) * static_cast<Real>(value) / unit;
    const float found = group_threshold(group_coeffs(line, static_cast<float>(1 / static_cast<double>(query_step))),
                                        group_norms(group, 1 / static_cast<double>(row_step)));
    ASSERT_LE(found, exact - fabsl(exact) * 0x1p-22L) << i % 4;
    ASSERT_GE(found, exact - fabsl(exact) * 0x1p-18L - 1) << i % 4;
  }
}

TEST(Bound, ThresholdsOfGroupsAtTheEnds) {
  const float unknown = infinity, dead = -infinity, nothing = std::nanf("");
  const RowGroup plain{2.0F, {0.1, 1.5}}, exact{2.0F, {0, 0}}, always{-infinity, {0.1, 1.5}}, far{1.0F, {1e40, 1e40}},
      masked;
  constexpr float most = 127 * 128 * 128;
  for (const double inverse : {0x1p-150, 0x1p-90, 1e-3, 1.0, 1e3, 0x1p60, infinite})
    for (const float query_inverse : {0x1p-55F, 1e-3F, 1.0F, 1e3F}) {
      const auto passes = [&](const ThresholdCoeffsF32& line, const RowGroup& group, float product) {
        return product >= group_threshold(group_coeffs(line, query_inverse), group_norms(group, inverse));
      };
      for (const RowGroup& group : {plain, exact, always, far, masked}) {
        EXPECT_FALSE(passes({dead, 0, 0}, group, most)) << inverse;  // a query that is not there
        EXPECT_FALSE(passes({nothing, 0, 0}, group, most)) << "threshold_coeffs_f32 gives a query without a number up";
        if (group.least == infinity) continue;
        EXPECT_TRUE(passes({unknown, 0, 0}, group, -most)) << inverse;
        EXPECT_TRUE(passes({unknown, unknown, 0}, group, -most)) << inverse;
        EXPECT_TRUE(passes({1, unknown, unknown}, group, -most)) << inverse;
      }
      for (const float base : {-0x1p100F, -1e10F, -1.0F, 1e10F, unknown}) {
        EXPECT_FALSE(passes({base, 1, 1}, masked, most)) << base << " " << inverse << " " << query_inverse;
        if (!(inverse < infinite)) continue;
        EXPECT_TRUE(passes({base, 1, 1}, always, -most)) << base << " " << inverse << " " << query_inverse;
        EXPECT_TRUE(inverse < 1 || passes({base, 1, 1}, far, -most)) << base << " " << inverse << " " << query_inverse;
      }
    }
  EXPECT_LT(group_threshold(group_coeffs({10, 1, 0}, 1), group_norms({-0x1p126F, {0, 0}}, 1e10)), -most);
}

TEST(Bound, TheLoosestOfSeveralQueriesKeepsWhatEachKeeps) {
  Random random(44);
  for (int i = 0; i < 20000; ++i) {
    const auto inverse = static_cast<float>(random.magnitude(3, 12));
    RowGroup alone;
    take_row(alone, static_cast<float>(random.between(-4, 4)),
             {i % 5 == 0 ? 0 : random.magnitude(-12, -3), random.between(0.5, 2)});
    const GroupNorms row = group_norms(alone, random.magnitude(3, 12));
    std::vector<ThresholdCoeffsF32> queries;
    for (int q = 0; q < 8; ++q)
      queries.push_back({static_cast<float>(random.between(-4, 4)), static_cast<float>(random.magnitude(-6, 3)),
                         static_cast<float>(random.magnitude(-12, 1))});
    if (i % 4 == 1) queries[5] = {-infinity, 0, 0};  // given up
    if (i % 4 == 2) queries[3].base = infinity;      // knows nothing
    if (i % 4 == 3) std::fill(queries.begin(), queries.end(), ThresholdCoeffsF32(queries[0]));
    ThresholdCoeffsF32 all = queries[0];
    for (const ThresholdCoeffsF32& query : queries) all = loosest(all, query);
    const float threshold = group_threshold(group_coeffs(all, inverse), row);
    for (const ThresholdCoeffsF32& query : queries)
      ASSERT_LE(threshold, group_threshold(group_coeffs(query, inverse), row));
    if (i % 4 == 3) {
      ASSERT_EQ(threshold, group_threshold(group_coeffs(queries[0], inverse), row));
    }
  }
}

TEST(Bound, DistancesOfProductsAreNeverTooFar) {
  Random random(44);
  for (int i = 0; i < 100000; ++i) {
    const auto term = static_cast<float>(random.between(-4, 4));
    const auto product = static_cast<std::int32_t>(random.between(-0x1p21, 0x1p21));
    const double unit = random.magnitude(-30, -10);
    const Real t = static_cast<Real>(term) - static_cast<Real>(unit) * product;
    const float found = product_distance(term, product, unit);
    ASSERT_LE(found, t);
    ASSERT_GE(found, t - fabsl(t) * 0x1p-21L - (fabsl(term) + fabsl(unit * product)) * 0x1p-49L);
  }
  EXPECT_EQ(product_distance(-infinity, 5, 1), -infinity);
  EXPECT_EQ(product_distance(infinity, 5, 1), infinity);
}

}  // namespace
}  // namespace vicinal::groups
