// Components of distances to the permutants: against the definitions of eigenvectors and of what is done with them, one number at a
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cpu/isa/table.hpp"
#include "permutation/components.hpp"
#include "permutation/ranks.hpp"

namespace permutation_components {
namespace {

using namespace vicinal;

/// Distances that repeat each other: each is a sum of few numbers of its object.
std::vector<double> distances_of(std::int64_t objects, std::int64_t permutants, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  constexpr int hidden = 5;
  std::vector<double> mix(static_cast<std::size_t>(permutants * hidden)), rows;
  for (double& one : mix) one = normal(random);
  for (std::int64_t i = 0; i < objects; ++i) {
    double of[hidden];
    for (double& one : of) one = normal(random);
    for (std::int64_t p = 0; p < permutants; ++p) {
      double sum = 30 + 0.01 * normal(random);
      for (int h = 0; h < hidden; ++h) sum += (hidden - h) * mix[static_cast<std::size_t>(p * hidden + h)] * of[h];
      rows.push_back(sum);
    }
  }
  return rows;
}

TEST(Components, EigenvectorsAreWhatTheirNameSays) {
  ThreadPool thread_pool(1, nullptr, {}, 0);
  for (const std::int64_t n : {1, 2, 3, 17, 64}) {
    const std::vector<double> rows = distances_of(n + 3, n, 1);
    std::vector<double> matrix(static_cast<std::size_t>(n * n), 0);
    const auto at = [&](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * n + j); };
    for (std::int64_t row = 0; row < n + 3; ++row)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) matrix[at(i, j)] += rows[at(row, i)] * rows[at(row, j)];
    const std::vector<double> before = matrix, vectors = diagonalize(matrix, n, thread_pool);
    const double tiny = before[0] * static_cast<double>(n) * 1e-12;
    for (std::int64_t v = 0; v < n; ++v) {
      for (std::int64_t i = 0; i < n; ++i) {
        double image = 0, product = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          image += before[at(i, j)] * vectors[at(v, j)];
          product += vectors[at(i, j)] * vectors[at(v, j)];
        }
        EXPECT_NEAR(image, matrix[at(v, v)] * vectors[at(v, i)], tiny) << n;
        EXPECT_NEAR(product, i == v ? 1 : 0, 1e-12) << n;
      }
    }
  }
}

TEST(Components, TellObjectsApartEachForItself) {
  constexpr std::int64_t m = 24, objects = 2000;
  ThreadPool thread_pool(1, nullptr, {}, 0);
  const std::vector<double> rows = distances_of(objects, m, 2);
  const Components components(m, rows.data(), objects, thread_pool);
  ASSERT_TRUE(components.fit());
  ASSERT_EQ(static_cast<std::int64_t>(components.numbers().size()), Components::numbers_for(m));
  std::vector<double> sums(m * m, 0);
  for (std::int64_t row = 0; row < objects; ++row) {
    double values[m];
    std::uint8_t bytes[m];
    components.write(rows.data() + row * m, bytes);
    for (std::int64_t j = 0; j < m; ++j) {
      double value = 128;
      for (std::int64_t p = 0; p < m; ++p)
        value += (rows[static_cast<std::size_t>(row * m + p)] - components.numbers()[static_cast<std::size_t>(p)]) *
                 components.numbers()[static_cast<std::size_t>((p + 1) * m + j)];
      EXPECT_EQ(bytes[j], static_cast<int>(std::floor(std::clamp(value, 0.0, 255.0))));
      values[j] = value - 128;
    }
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < m; ++j) sums[static_cast<std::size_t>(i * m + j)] += values[i] * values[j] / objects;
  }
  // The widest deviates by 32; no two go together; the narrower, the less.
  EXPECT_NEAR(std::sqrt(sums[0]), 32, 1e-6);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < m; ++j) {
      const double sum = sums[static_cast<std::size_t>(i * m + j)];
      if (i != j) {
        EXPECT_NEAR(sum, 0, 1e-6);
      } else if (i > 0) {
        EXPECT_LE(sum, sums[static_cast<std::size_t>((i - 1) * (m + 1))]);
      }
    }
}

TEST(Components, AreComparedBySquaresOnEveryInstructionSet) {
  ThreadPool thread_pool(1, nullptr, {}, 0);
  for (const std::int64_t m : {1, 2, 16, 17, 64, 100, 256}) {
    RankLayout layout(RankDistance::kendall, RankForm::components, m, 0);  // the distance of ranks does not matter
    const std::vector<double> rows = distances_of(40, m, 3);
    layout.components = std::make_shared<const Components>(m, rows.data(), 40, thread_pool);
    OrderWriter writer(layout);
    std::vector<std::uint8_t> table(static_cast<std::size_t>(40 * layout.stride));
    for (std::int64_t row = 0; row < 40; ++row) writer.write(rows.data() + row * m, table.data() + row * layout.stride);
    for (const cpu::Scores* set : {&cpu::scores_plain, &cpu::find_instruction_set("auto").scores}) {
      RankScorer scorer(layout, *set);
      scorer.start(rows.data() + 7 * m);
      std::uint32_t scores[40];
      scorer.score(table.data(), 40, scores);
      for (std::int64_t row = 0; row < 40; ++row) {
        std::uint32_t sum = 0;
        for (std::int64_t j = 0; j < m; ++j) {
          const int d = table[static_cast<std::size_t>(row * layout.stride + j)] -
                        table[static_cast<std::size_t>(7 * layout.stride + j)];
          sum += static_cast<std::uint32_t>(d * d);
        }
        EXPECT_EQ(scores[row], sum) << set->name << " m=" << m;
        EXPECT_LE(sum, layout.largest());
      }
    }
  }
}

TEST(Components, OfDistancesThatSayNothingOrTooMuch) {
  ThreadPool thread_pool(1, nullptr, {}, 0);
  const double infinity = std::numeric_limits<double>::infinity();
  std::uint8_t bytes[3];
  for (const double value : {0.0, 5e-324, 1.0, 1e308, -1e308}) {  // all alike
    const std::vector<double> rows(30, value);
    const Components components(3, rows.data(), 10, thread_pool);
    EXPECT_TRUE(components.fit());
    components.write(rows.data(), bytes);
    for (const std::uint8_t byte : bytes) EXPECT_EQ(byte, 128) << value;
  }
  for (const double unit : {5e-324, 1e-300, 1e-160, 1e160, 1e307}) {
    std::vector<double> rows;
    for (int i = 0; i < 30; ++i) rows.push_back(unit * (i * i % 17));
    EXPECT_TRUE(Components(3, rows.data(), 10, thread_pool).fit()) << unit;
  }
  EXPECT_FALSE(Components(1, {0, infinity}).fit());
  // Numbers that no build makes, but a file can: still bytes.
  const Components wild(2, {-1e308, 1e308, 1e308, -1e308, -1e308, 1e308});
  const double far[2] = {1e308, -1e308};
  wild.write(far, bytes);
}

}  // namespace
}  // namespace permutation_components
