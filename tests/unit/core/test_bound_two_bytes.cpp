// The proof of refinement by queries in two bytes (core/bound_two_bytes.hpp) under worst-case constructions, in long double: errors
// of both sides point along the difference, so that a row at theta is at its bound. tests/mutants/run.py breaks the header line by line and
// expects this file to notice.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/bound_groups.hpp"
#include "core/bound_two_bytes.hpp"

namespace vicinal::two_bytes {
namespace {
using Real = long double;
using Vector = std::vector<Real>;

Real product(const Vector& a, const Vector& b) {
  Real sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
/// a + factor * b.
Vector moved(Vector a, Real factor, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
Vector scaled(const Vector& a, Real length) { return moved(Vector(a.size()), length / sqrtl(product(a, a)), a); }

/// A query of two bytes a column and a row of one; what they stand for is as near, or has as large a product, as the errors let it.
struct Case {
  BoundModel model;
  double query_step, row_step;
  std::int32_t first = 0, second = 0;  // sums of products of bytes
  FilterNorms query, row;
  double square = 0, true_value = 0;  // of the distance, or of the folded product; rounded up
  float term = 0;

  Case(Metric metric, std::size_t dims, std::mt19937_64& random)
      : model(metric, DistanceType::f32, static_cast<std::int64_t>(dims), 1, 0) {
    const auto between = [&](double low, double high) {
      return low + (high - low) * std::generate_canonical<double, 53>(random);
    };
    query_step = static_cast<double>(static_cast<float>(between(0.005, 0.05)));
    row_step = static_cast<double>(static_cast<float>(between(0.005, 0.05)));
    const bool products = model.sum == Sum::products;
    Vector q(dims), r(dims);
    double values = 0, row_squares = 0;
    for (std::size_t i = 0; i < dims; ++i) {
      const auto byte = [&] { return static_cast<int>(random() % 256) - 128; };
      const int a = byte(), b = byte(), c = products ? a : byte();  // those of large products point the same way
      first += a * c;
      second += b * c;
      const double value = two_byte_value(a, b);
      values += value * value;
      row_squares += static_cast<double>(c) * c;
      q[i] = static_cast<Real>(query_step) * (a + static_cast<Real>(b) / 256);
      r[i] = static_cast<Real>(row_step) * c;
    }
    // Errors of the whole rows.
    const auto e_query = static_cast<Real>(between(0, 0.02)), e_row = static_cast<Real>(between(0, 0.2));
    const Vector apart = moved(q, -1, r);
    const Vector x = products ? moved(q, 1, scaled(r, e_query)) : moved(q, -1, scaled(apart, e_query)),
                 y = products ? moved(r, 1, scaled(x, e_row)) : moved(r, 1, scaled(apart, e_row));
    const Vector between_them = moved(x, -1, y);
    true_value = static_cast<double>(products ? -product(x, y) : sqrtl(product(between_them, between_them)));
    true_value = std::nextafter(true_value, infinite);
    const QuantizationErrors errors =
        two_byte_errors(static_cast<double>(product(x, x)), values, static_cast<double>(e_query * e_query), query_step);
    query = filter_norms(model, errors);
    square = errors.nn;
    const QuantizationErrors of_row{static_cast<double>(product(y, y)),
                                    row_squares * row_step * row_step,
                                    static_cast<double>(e_row * e_row),
                                    0,
                                    0,
                                    0};
    row = filter_norms(model, of_row);
    term = row_term(model, of_row, row);
  }
  bool excluded(double theta) const {
    const double unit = int8_unit(model.sum, static_cast<float>(query_step), static_cast<float>(row_step));
    return product_distance(term, two_byte_product(first, second), unit) >
           two_byte_threshold(model, theta, square, query, row);
  }
};

TEST(Bound, RefinementKeepsEveryRowAtTheta) {
  std::mt19937_64 random(45);
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int i = 0; i < 20000; ++i) {
      const Case c(metric, 1 + static_cast<std::size_t>(i) % 40, random);
      ASSERT_FALSE(c.excluded(c.true_value)) << metric_info(metric).name << " " << i;
    }
}

TEST(Bound, RefinementExcludesWhatIsFarther) {
  std::mt19937_64 random(46);
  int seen = 0;
  for (const Metric metric : {Metric::euclidean, Metric::inner_product})
    for (int i = 0; i < 20000; ++i) {
      const Case c(metric, 2 + static_cast<std::size_t>(i) % 40, random);
      // A row that rounding made longer has a lower term.
      const double square = c.true_value * c.true_value - c.row.lowered,
                   value = metric == Metric::euclidean ? std::sqrt(std::max(square, 0.0)) : c.true_value;
      if (metric == Metric::euclidean && value < 0.25) continue;
      ++seen;
      ASSERT_TRUE(c.excluded(value - std::fabs(value) * 1e-3 - 1e-3)) << metric_info(metric).name << " " << i;
    }
  EXPECT_GT(seen, 39000);
}

TEST(Bound, RefinementKeepsWhatHasNoBound) {
  const BoundModel model(Metric::euclidean, DistanceType::f32, 4, 1, 0);
  const float nothing = two_byte_threshold(model, infinite, 1, {0.1, 1}, {0.1, 1});
  EXPECT_FALSE(product_distance(4, -7, 1) > nothing);
  const float unknown = two_byte_threshold(model, 1, 1, {std::nan(""), 1}, {0.1, 1});
  EXPECT_FALSE(product_distance(4, -7, 1) > unknown);
  EXPECT_FALSE(product_distance(-std::numeric_limits<float>::infinity(), -7, 1) >
               two_byte_threshold(model, 0.1, 1, {0.1, 1}, {0.1, 1}));
}

}  // namespace
}  // namespace vicinal::two_bytes
