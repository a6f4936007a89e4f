// The distances that only an index has, against their definitions in long double, and our logarithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "backend/backend.hpp"
#include "core/measures/dtw.hpp"
#include "core/measures/emd.hpp"
#include "core/measures/hellinger.hpp"
#include "core/measures/jensen_shannon.hpp"
#include "core/measures/kullback_leibler.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/permutation/warping.hpp"
#include "vicinal/error.hpp"
#include "vicinal/permutation_index.hpp"
#include "vicinal/search.hpp"

namespace measured {
namespace {

using namespace vicinal;

TEST(Measures, LogarithmIsWithinOneAndAHalfUnits) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    double x;
    const std::uint64_t bits = i % 2 == 0 ? random() >> 1 : 0x3FE0000000000000 + random() % 0x20000000000000;
    std::memcpy(&x, &bits, sizeof x);
    if (!(x > 0) || !std::isfinite(x)) continue;
    const long double truth = std::log(static_cast<long double>(x));
    const double found = measures::log(x), unit = std::fabs(std::nextafter(found, 1e9) - found);
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(found) - truth)) / unit);
  }
  EXPECT_LT(worst, 1.5);
  EXPECT_EQ(measures::log(1.0), 0.0);
}

std::vector<double> histogram(std::mt19937& random, std::size_t cols, const std::vector<double>* near) {
  std::vector<double> row(cols);
  double sum = 0;
  for (std::size_t i = 0; i < cols; ++i) {
    row[i] = random() % 4 == 0 ? 0 : static_cast<double>(1 + random() % 1000);
    if (near != nullptr) row[i] = (*near)[i] * (1 + 1e-6 * static_cast<double>(random() % 100));
    sum += row[i];
  }
  if (sum == 0) sum = row[0] = 1;
  for (double& value : row) value /= sum;
  return row;
}

TEST(Measures, AreTheirDefinitions) {
  std::mt19937 random(2);
  using Wide = long double;
  for (int round = 0; round < 400; ++round) {
    const std::size_t cols = 1 + random() % 70;
    const std::vector<double> p = histogram(random, cols, nullptr),
                              q = histogram(random, cols, round % 3 == 0 ? &p : nullptr);
    const auto d = static_cast<std::int64_t>(cols);
    Wide js = 0, kl = 0, roots = 0, carried = 0, moved = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      const Wide a = p[i], b = q[i], m = (a + b) / 2;
      if (a > 0) js += a * std::log(a / m) / 2;
      if (b > 0) js += b * std::log(b / m) / 2;
      if (b > 0) kl += a > 0 ? b * std::log(b / a) : HUGE_VALL;
      roots += (std::sqrt(a) - std::sqrt(b)) * (std::sqrt(a) - std::sqrt(b));
      if (i + 1 < cols) moved += std::fabs(carried += a - b);
    }
    const auto near = [&](double found, Wide truth, double relative) {
      EXPECT_NEAR(found, static_cast<double>(truth), relative * static_cast<double>(truth) + 1e-17) << round;
    };
    // The definition cancels in long double as well: 2^-63 of the mass, and a root.
    if (js > 1e-8L) near(measures::jensen_shannon(p.data(), q.data(), d, 0), std::sqrt(js), 1e-11);
    if (std::isinf(kl)) EXPECT_TRUE(std::isinf(measures::kullback_leibler(p.data(), q.data(), d, 0)));
    else EXPECT_NEAR(measures::kullback_leibler(p.data(), q.data(), d, 0), static_cast<double>(kl), 1e-14);
    if (roots > 1e-12L) near(measures::hellinger(p.data(), q.data(), d, 0), std::sqrt(roots / 2), 1e-12);
    EXPECT_NEAR(measures::emd(p.data(), q.data(), d, 0), static_cast<double>(moved), 1e-14);
    EXPECT_EQ(measures::jensen_shannon(p.data(), p.data(), d, 0), 0);
    EXPECT_EQ(measures::jensen_shannon(p.data(), q.data(), d, 0), measures::jensen_shannon(q.data(), p.data(), d, 0));
    EXPECT_EQ(measures::hellinger(p.data(), q.data(), d, 0), measures::hellinger(q.data(), p.data(), d, 0));
    EXPECT_EQ(measures::kullback_leibler(p.data(), p.data(), d, 0), 0);
  }
}

double warped_by_table(const std::vector<double>& a, const std::vector<double>& b, std::size_t window) {
  const std::size_t d = a.size();
  std::vector<std::vector<double>> cost(d + 1, std::vector<double>(d + 1, HUGE_VAL));
  cost[0][0] = 0;
  for (std::size_t i = 1; i <= d; ++i)
    for (std::size_t j = 1; j <= d; ++j)
      if (window == 0 || (i > j ? i - j : j - i) <= window)
        cost[i][j] = std::min({cost[i - 1][j - 1], cost[i - 1][j], cost[i][j - 1]}) + std::fabs(a[i - 1] - b[j - 1]);
  return cost[d][d];
}

TEST(Measures, WarpingIsTheTablesToTheBit) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::size_t d = 1 + random() % 24, window = random() % 8;
    constexpr int lanes = 4;
    std::vector<double> query(d), side_by_side(d * lanes), costs((d + 1) * lanes);
    std::vector<std::vector<double>> rows(lanes, std::vector<double>(d));
    for (double& value : query) value = static_cast<double>(random() % 1000) / 7;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      for (std::size_t j = 0; j < d; ++j)
        side_by_side[j * lanes + lane] = rows[lane][j] = static_cast<double>(random() % 1000) / 7;
    double together[lanes], alone;
    measures::dtw<lanes>(query.data(), side_by_side.data(), static_cast<std::int64_t>(d),
                         static_cast<std::int64_t>(window), costs.data(), together);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      measures::dtw<1>(query.data(), rows[lane].data(), static_cast<std::int64_t>(d), static_cast<std::int64_t>(window),
                       costs.data(), &alone);
      EXPECT_EQ(together[lane], warped_by_table(query, rows[lane], window)) << d << " window " << window;
      EXPECT_EQ(alone, together[lane]);
    }
  }
}

TEST(Measures, EveryInstructionSetWarpsToTheSameBits) {
  std::mt19937 random(5);
  for (const std::string& set : cpu_backend().device().facts().instruction_sets) {
    const cpu::Warping& warping = cpu::find_instruction_set(set).warping;
    const auto lanes = static_cast<std::size_t>(warping.rows);
    for (const std::size_t d : {1u, 2u, 7u, 30u}) {
      for (const std::size_t window : {0u, 1u, 5u, 40u}) {
        std::vector<double> query(d), side_by_side(d * lanes), costs((d + 1) * lanes), found(lanes);
        for (double& value : query) value = static_cast<double>(random() % 1000) / 7;
        for (double& value : side_by_side) value = static_cast<double>(random() % 1000) / 7;
        warping.warp(query.data(), side_by_side.data(), static_cast<std::int64_t>(d), static_cast<std::int64_t>(window),
                     costs.data(), found.data());
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          std::vector<double> row(d);
          for (std::size_t j = 0; j < d; ++j) row[j] = side_by_side[j * lanes + lane];
          EXPECT_EQ(found[lane], warped_by_table(query, row, window)) << set << " " << d << " window " << window;
        }
      }
    }
  }
}

TEST(Measures, IndexesSearchWithThem) {
  std::mt19937 random(4);
  constexpr std::int64_t count = 400, cols = 20;
  std::vector<double> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<double> one = histogram(random, cols, nullptr);
    for (const double value : one) rows.push_back(value + 0.001);
  }
  for (std::int64_t i = 0; i < count; ++i) {  // of one mass to the last unit, for emd
    const double sum = std::accumulate(rows.begin() + i * cols, rows.begin() + (i + 1) * cols, 0.0);
    for (std::int64_t j = 0; j < cols; ++j) rows[static_cast<std::size_t>(i * cols + j)] /= sum;
  }
  const MatrixView<double> all{rows.data(), count, cols}, asked{rows.data() + 37 * cols, 9, cols};
  for (const Metric metric :
       {Metric::jensen_shannon, Metric::kullback_leibler, Metric::hellinger, Metric::emd, Metric::dtw}) {
    const PermutationIndex index(all, {.metric = metric, .permutants = 16, .window = metric == Metric::dtw ? 3 : 0});
    for (const DistanceType type : {DistanceType::f64, DistanceType::f32}) {
      const Neighbors full = index.knn(asked, {.k = 5, .fraction = 1.0, .distance_type = type}).neighbors;
      const Neighbors exact = index.knn(asked, {.k = 5, .exact = true, .distance_type = type}).neighbors;
      for (std::int64_t q = 0; q < 9; ++q) {
        EXPECT_EQ(full.id(q, 0), 37 + q);
        for (std::int64_t i = 0; i < 5; ++i) {
          EXPECT_EQ(full.id(q, i), exact.id(q, i)) << metric_info(metric).name;
          EXPECT_EQ(full.distance(q, i), exact.distance(q, i));
          EXPECT_LE(full.distance(q, std::max<std::int64_t>(i - 1, 0)), full.distance(q, i));
        }
      }
      if (metric == Metric::hellinger || metric == Metric::emd) {
        EXPECT_LT(exact.stats.reranked, exact.stats.pairs);
      }
    }
  }
  const OwnDistance own = [&](std::int64_t query, const std::uint32_t* objects, std::int64_t n, double* out) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = measures::hellinger(rows.data() + query * cols, rows.data() + objects[i] * cols, cols, 0);
  };
  const PermutationIndex known(count, own, {.permutants = 16}),
      hellinger(all, {.metric = Metric::hellinger, .permutants = 16});
  EXPECT_TRUE(known.own());
  const Neighbors a = known.knn(9, own, {.k = 4, .fraction = 0.2}).neighbors;
  const Neighbors b = hellinger.knn(MatrixView<double>{rows.data(), 9, cols}, {.k = 4, .fraction = 0.2}).neighbors;
  for (std::int64_t q = 0; q < 9; ++q)
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(a.id(q, i), b.id(q, i));
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("nothing was thrown");
  };
  std::vector<double> wrong(rows.begin(), rows.begin() + 2 * cols);
  wrong[3] = -1;
  EXPECT_NE(
      refused([&] {
        PermutationIndex(MatrixView<double>{wrong.data(), 2, cols}, {.metric = Metric::hellinger, .permutants = 1});
      }).find("column 3 is negative"),
      std::string::npos);
  wrong[3] = 5;
  EXPECT_NE(refused([&] {
              PermutationIndex(MatrixView<double>{wrong.data(), 2, cols}, {.metric = Metric::emd, .permutants = 1});
            }).find("equal mass"),
            std::string::npos);
  EXPECT_NE(refused([&] { PermutationIndex(all, {.permutants = 4, .window = 2}); }).find("window is for dtw"),
            std::string::npos);
  EXPECT_NE(refused([&] { known.knn(asked, {.k = 1}); }).find("distance of their own"), std::string::npos);
  EXPECT_NE(refused([&] { known.save("/tmp/a.vicinal"); }).find("cannot be saved"), std::string::npos);
  EXPECT_NE(refused([&] { knn(all, asked, {.metric = Metric::emd}); }).find("searched by PermutationIndex"),
            std::string::npos);
}

}  // namespace
}  // namespace measured
