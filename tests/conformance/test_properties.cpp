// Laws that hold whatever the data: permutation, translation, scaling, prefix, symmetry, self distance, far points,
// and the algebra of merge. No oracle here; the library is compared with itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::KnnOptions;
using vicinal::Neighbors;

class Properties : public testing::TestWithParam<Kind> {
 protected:
  Rng rng{900 + static_cast<std::uint64_t>(GetParam().metric) * 11 + static_cast<std::uint64_t>(GetParam().dtype)};
  KnnOptions ask(std::int64_t k) const {
    KnnOptions options;
    options.metric = GetParam().metric;
    options.k = k;
    return options;
  }
  Table table(std::int64_t n, std::int64_t d) { return mixed_table(rng, GetParam().dtype, n, d); }
};

Table permuted(const Table& table, const std::vector<std::int64_t>& from) {
  Table out = table;
  const std::size_t row = table.bytes.size() / static_cast<std::size_t>(table.n);
  for (std::size_t i = 0; i < from.size(); ++i)
    std::copy_n(table.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(from[i]) * row), row,
                out.bytes.begin() + static_cast<std::ptrdiff_t>(i * row));
  return out;
}

Table joined(const Table& a, const Table& b) {
  Table out = a;
  out.n += b.n;
  out.bytes.insert(out.bytes.end(), b.bytes.begin(), b.bytes.end());
  return out;
}

// With k = n every row is returned, so relabelling the ids of one result and sorting ties gives the other.
TEST_P(Properties, PermutingRowsMapsIds) {
  const Table corpus = table(300, 13), queries = table(6, 13);
  std::vector<std::int64_t> from(300);
  std::iota(from.begin(), from.end(), 0);
  rng.shuffle(from);
  const Neighbors plain = vicinal::knn(corpus.points(), queries.points(), ask(300));
  const Neighbors moved = vicinal::knn(permuted(corpus, from).points(), queries.points(), ask(300));
  for (std::int64_t i = 0; i < 6; ++i) {
    std::vector<std::pair<std::int64_t, double>> a, b;
    for (std::int64_t j = 0; j < 300; ++j) {
      ASSERT_EQ(plain.distance(i, j), moved.distance(i, j)) << "row " << i << " rank " << j;
      a.emplace_back(plain.id(i, j), plain.distance(i, j));
      b.emplace_back(from[static_cast<std::size_t>(moved.id(i, j))], moved.distance(i, j));
    }
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    ASSERT_EQ(a, b) << "row " << i;
  }
}

TEST_P(Properties, SmallerKIsAPrefix) {
  const Table corpus = table(700, 21), queries = table(7, 21);
  const Neighbors wide = vicinal::knn(corpus.points(), queries.points(), ask(100));
  for (const std::int64_t k : {1, 2, 10, 31, 32, 33, 64, 99}) {
    const Neighbors narrow = vicinal::knn(corpus.points(), queries.points(), ask(k));
    for (std::int64_t i = 0; i < 7; ++i)
      for (std::int64_t j = 0; j < k; ++j) {
        ASSERT_EQ(narrow.id(i, j), wide.id(i, j)) << "k=" << k << " row " << i << " rank " << j;
        ASSERT_EQ(narrow.distance(i, j), wide.distance(i, j));
      }
  }
}

TEST_P(Properties, RolesOfQueryAndRowAreSymmetric) {
  const Table a = table(40, 35), b = table(30, 35);
  const Neighbors ab = vicinal::knn(a.points(), b.points(), ask(40)),
                  ba = vicinal::knn(b.points(), a.points(), ask(30));
  std::vector<double> distance(40 * 30);
  for (std::int64_t i = 0; i < 30; ++i)
    for (std::int64_t j = 0; j < 40; ++j) distance[static_cast<std::size_t>(ab.id(i, j) * 30 + i)] = ab.distance(i, j);
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t j = 0; j < 30; ++j)
      ASSERT_EQ(ba.distance(i, j), distance[static_cast<std::size_t>(i * 30 + ba.id(i, j))]) << i << " " << j;
}

TEST_P(Properties, ARowIsAtDistanceZeroOfItself) {
  if (GetParam().metric == Metric::inner_product) return;
  const Table corpus = table(200, 19);
  const Neighbors got = vicinal::knn(corpus.points(), corpus.points(), ask(200));
  for (std::int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(got.distance(i, 0), 0.0) << "row " << i;
    for (std::int64_t j = 0; j < 200; ++j) EXPECT_TRUE(got.id(i, j) != i || got.distance(i, j) == 0) << "row " << i;
  }
}

TEST_P(Properties, ExhaustiveEqualsCertified) {
  const Table corpus = table(1500, 29), queries = table(11, 29);
  KnnOptions options = ask(40);
  const Neighbors certified = vicinal::knn(corpus.points(), queries.points(), options);
  options.proof = vicinal::Proof::exhaustive;
  EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), certified), "");
}

TEST_P(Properties, WorseRowsChangeNothing) {
  const Table corpus = table(400, 15), queries = table(5, 15);
  const Neighbors before = vicinal::knn(corpus.points(), queries.points(), ask(20));
  // Copies of each query's worst rows: all of them rank behind the first 20, and behind equal rows by id.
  const Neighbors all = vicinal::knn(corpus.points(), queries.points(), ask(400));
  std::vector<std::int64_t> worst;
  for (std::int64_t r = 0; r < 400; ++r) {
    bool far = true;
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 20; ++j) far = far && all.id(i, j) != r;
    if (far) worst.push_back(r);
  }
  Table more = permuted(corpus, worst);
  more.n = static_cast<std::int64_t>(worst.size());
  more.bytes.resize(corpus.bytes.size() / 400 * worst.size());
  EXPECT_EQ(difference(vicinal::knn(joined(corpus, more).points(), queries.points(), ask(20)), before), "");
}

TEST_P(Properties, MergeIsAssociativeAndCommutative) {
  const Table corpus = table(500, 9), queries = table(8, 9);
  std::vector<Neighbors> parts;
  const std::vector<std::int64_t> cuts = {0, 100, 170, 333, 500};
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    KnnOptions options = ask(25);
    options.first_id = cuts[p];
    parts.push_back(vicinal::knn(corpus.points().slice(cuts[p], cuts[p + 1] - cuts[p]), queries.points(), options));
  }
  const auto merge = [&](const Neighbors& a, const Neighbors& b) {
    const std::vector<vicinal::NeighborsView> both = {a.view(), b.view()};
    return vicinal::merge(both, {25, GetParam().metric, false});
  };
  const Neighbors whole = vicinal::knn(corpus.points(), queries.points(), ask(25));
  EXPECT_EQ(difference(merge(merge(merge(parts[0], parts[1]), parts[2]), parts[3]), whole), "");
  EXPECT_EQ(difference(merge(parts[3], merge(parts[2], merge(parts[1], parts[0]))), whole), "");
  EXPECT_EQ(difference(merge(merge(parts[2], parts[0]), merge(parts[1], parts[3])), whole), "");
}

INSTANTIATE_TEST_SUITE_P(All, Properties, testing::ValuesIn(all_kinds()), [](const auto& kind) {
  return metric_name(kind.param.metric) + "_" + vicinal::dtype_name(kind.param.dtype);
});

// Integers move exactly, so every difference and with it every bit stays.
TEST(Laws, TranslationByRepresentableVectorsChangesNothing) {
  Rng rng(901);
  for (const DType type : {DType::f32, DType::f64, DType::i8})
    for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::l1, Metric::linf})
      for (const double step : {1.0, 37.0, 4096.0, 8388608.0}) {
        if (type == DType::i8 && step > 37) continue;
        std::vector<double> a(400 * 24), b(6 * 24), shift(24);
        for (double& v : shift) v = step * static_cast<double>(rng.between(-1, 1));
        for (double& v : a) v = static_cast<double>(rng.between(-20, 20));
        for (double& v : b) v = static_cast<double>(rng.between(-20, 20));
        KnnOptions options;
        options.metric = metric;
        options.k = 50;
        const Neighbors before =
            vicinal::knn(Table(type, 400, 24, a).points(), Table(type, 6, 24, b).points(), options);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] += shift[i % 24];
        for (std::size_t i = 0; i < b.size(); ++i) b[i] += shift[i % 24];
        EXPECT_EQ(
            difference(vicinal::knn(Table(type, 400, 24, a).points(), Table(type, 6, 24, b).points(), options), before),
            "")
            << metric_name(metric) << " by " << step;
      }
}

TEST(Laws, ScalingByAPowerOfTwoScalesKeys) {
  Rng rng(902);
  const std::vector<std::pair<Metric, int>> degree = {
      {Metric::sqeuclidean, 2}, {Metric::inner_product, 2}, {Metric::euclidean, 1},  {Metric::l1, 1},
      {Metric::linf, 1},        {Metric::cosine, 0},        {Metric::correlation, 0}};
  const Table corpus = gaussian(rng, DType::f32, 600, 18, 3, 1), queries = gaussian(rng, DType::f32, 6, 18, 3, 1);
  const auto scaled_by = [](const Table& table, int j) {
    std::vector<double> values = table.rows().value;
    for (double& v : values) v = std::ldexp(v, j);
    return Table(table.dtype, table.n, table.d, values);
  };
  for (const auto& [metric, power] : degree)
    for (const int j : {-40, -7, 1, 13, 50}) {
      KnnOptions options;
      options.metric = metric;
      options.k = 60;
      const Neighbors before = vicinal::knn(corpus.points(), queries.points(), options);
      const Neighbors after = vicinal::knn(scaled_by(corpus, j).points(), scaled_by(queries, j).points(), options);
      for (std::int64_t i = 0; i < 6; ++i)
        for (std::int64_t rank = 0; rank < 60; ++rank) {
          ASSERT_EQ(after.id(i, rank), before.id(i, rank)) << metric_name(metric) << " by 2^" << j;
          ASSERT_EQ(after.distance(i, rank), std::ldexp(before.distance(i, rank), power * j))
              << metric_name(metric) << " by 2^" << j;
        }
    }
}

TEST(Laws, PaddingOfColumnsWithZerosChangesNothing) {
  Rng rng(903);
  for (const Metric metric :
       {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::l1, Metric::linf}) {
    const Table corpus = gaussian(rng, DType::f32, 300, 64), queries = gaussian(rng, DType::f32, 5, 64);
    const auto cleared = [](const Table& table, std::int64_t from) {
      std::vector<double> values = table.rows().value;
      for (std::int64_t i = 0; i < table.n; ++i)
        for (std::int64_t j = from; j < table.d; ++j) values[static_cast<std::size_t>(i * table.d + j)] = 0;
      return Table(table.dtype, table.n, table.d, values);
    };
    const auto narrow = [](vicinal::Points points, std::int64_t cols) {
      points.cols = cols;
      return points;
    };
    for (const std::int64_t d : {1, 5, 31, 32, 33, 63}) {
      const Table c = cleared(corpus, d), q = cleared(queries, d);
      KnnOptions options;
      options.metric = metric;
      options.k = 300;
      EXPECT_EQ(difference(vicinal::knn(c.points(), q.points(), options),
                           vicinal::knn(narrow(c.points(), d), narrow(q.points(), d), options)),
                "")
          << metric_name(metric) << " d=" << d;
    }
  }
}

}  // namespace
}  // namespace conformance
