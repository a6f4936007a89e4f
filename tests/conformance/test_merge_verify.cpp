// merge beyond its algebra (missing entries, errors), knn_into, and verify on claims doctored in known ways.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;
using vicinal::Fault;
using vicinal::KnnOptions;
using vicinal::Neighbors;
using vicinal::NeighborsView;

KnnOptions nearest_k(std::int64_t k, Metric metric = Metric::euclidean) {
  KnnOptions options;
  options.k = k;
  options.metric = metric;
  return options;
}

TEST(Merge, SkipsMissingEntriesOfPaddedParts) {
  Rng rng(31);
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::hamming}) {
    const DType type = metric == Metric::hamming ? DType::u8 : DType::f32;
    const Table corpus = mixed_table(rng, type, 30, 5), queries = mixed_table(rng, type, 4, 5);
    std::vector<Neighbors> parts;
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 20}, {23, 7}}) {
      KnnOptions options = nearest_k(12, metric);
      options.pad = true;
      options.first_id = first;
      parts.push_back(vicinal::knn(corpus.points().slice(first, count), queries.points(), options));
    }
    const std::vector<NeighborsView> views = {parts[0].view(), parts[1].view(), parts[2].view()};
    EXPECT_EQ(difference(vicinal::merge(views, {12, metric, false}),
                         vicinal::knn(corpus.points(), queries.points(), nearest_k(12, metric))),
              "");
    EXPECT_EQ(vicinal::merge(views, {0, metric, false}).k(), 12);
    KnnOptions padded = nearest_k(40, metric);
    padded.pad = true;
    const Neighbors filled = vicinal::merge(views, {40, metric, true});
    ASSERT_NE(filled.counts(), nullptr);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(filled.counts()[i], 12 + 3 + 7);
    EXPECT_EQ(filled.id(0, 39), -1);
    EXPECT_EQ(filled.distance(0, 39), vicinal::knn(corpus.points(), queries.points(), padded).distance(0, 39));
    EXPECT_EQ(refusal([&, m = metric] { vicinal::merge(views, {40, m, false}); }).code, ErrorCode::invalid_argument);
  }
}

TEST(Merge, RefusesPartsThatDoNotFit) {
  Rng rng(32);
  const Table corpus = gaussian(rng, DType::f32, 40, 5), wide = gaussian(rng, DType::f64, 40, 5),
              queries = gaussian(rng, DType::f32, 4, 5);
  const Neighbors a = vicinal::knn(corpus.points(), queries.points(), nearest_k(5));
  const Neighbors fewer = vicinal::knn(corpus.points(), queries.points().slice(0, 3), nearest_k(5));
  const Neighbors other = vicinal::knn(wide.points(), queries.points(), nearest_k(5));
  const auto refused = [](const std::vector<NeighborsView>& parts, std::int64_t k) {
    return refusal([&] { vicinal::merge(parts, {k, Metric::euclidean, false}); }).code;
  };
  EXPECT_EQ(refused({a.view(), fewer.view()}, 5), ErrorCode::invalid_argument);
  EXPECT_EQ(refused({a.view(), other.view()}, 5), ErrorCode::invalid_argument);
  EXPECT_EQ(refused({}, 5), ErrorCode::invalid_argument);
  EXPECT_EQ(refused({a.view()}, -1), ErrorCode::invalid_argument);
}

TEST(KnnInto, WritesTheSameBitsIntoTheCallersMemory) {
  Rng rng(33);
  const Table corpus = gaussian(rng, DType::f32, 400, 12), queries = gaussian(rng, DType::f32, 9, 12);
  const Neighbors want = vicinal::knn(corpus.points(), queries.points(), nearest_k(15));
  std::vector<std::int64_t> ids(9 * 15, -7), counts(9, -7);
  std::vector<float> distances(9 * 15, -7);
  const NeighborsView out{ids.data(), distances.data(), vicinal::DistanceType::f32, 9, 15, counts.data()};
  const vicinal::Report report = vicinal::knn_into(out, corpus.points(), queries.points(), nearest_k(15));
  EXPECT_TRUE(report.certificate.all());
  EXPECT_EQ(report.certificate.queries, 9);
  EXPECT_EQ(std::memcmp(ids.data(), want.ids(), sizeof(std::int64_t) * ids.size()), 0);
  EXPECT_EQ(std::memcmp(distances.data(), want.distances(), sizeof(float) * distances.size()), 0);
  EXPECT_EQ(counts, std::vector<std::int64_t>(9, 15));
  const vicinal::Corpus prepared(corpus.points(), {.metric = Metric::euclidean});
  std::vector<std::int64_t> again(9 * 15, -7);
  prepared.knn_into({again.data(), distances.data(), vicinal::DistanceType::f32, 9, 15, nullptr}, queries.points(),
                    {.k = 15});
  EXPECT_EQ(again, ids);
}

TEST(KnnInto, RefusesAViewOfAnotherShapeOrType) {
  Rng rng(34);
  const Table corpus = gaussian(rng, DType::f32, 40, 5), queries = gaussian(rng, DType::f32, 4, 5);
  std::vector<std::int64_t> ids(100);
  std::vector<double> distances(100);
  const auto refused = [&](vicinal::DistanceType type, std::int64_t rows, std::int64_t k) {
    return refusal([&] {
             vicinal::knn_into({ids.data(), distances.data(), type, rows, k, nullptr}, corpus.points(),
                               queries.points(), nearest_k(5));
           })
        .code;
  };
  EXPECT_EQ(refused(vicinal::DistanceType::f32, 3, 5), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(vicinal::DistanceType::f32, 4, 6), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(vicinal::DistanceType::f64, 4, 5), ErrorCode::invalid_argument);
  EXPECT_FALSE(refused(vicinal::DistanceType::f32, 4, 5));
}

// A corpus with ties: rows 2i and 2i + 1 are equal, so every distance appears at least twice.
class Verify : public testing::Test {
 protected:
  void SetUp() override {
    Rng rng(35);
    std::vector<double> values(100 * 6);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i / 6 % 2 == 1 ? values[i - 6] : rng.gauss();
    corpus = Table(DType::f32, 100, 6, values);
    queries = gaussian(rng, DType::f32, 8, 6);
    truth = vicinal::knn(corpus.points(), queries.points(), nearest_k(k));
    ids.assign(truth.ids(), truth.ids() + 8 * k);
    const auto* d = static_cast<const float*>(truth.distances());
    distances.assign(d, d + 8 * k);
  }
  vicinal::Verdict verdict(double tolerance = 0, bool with_distances = true) const {
    vicinal::Claim claim{8, k, ids.data(), with_distances ? distances.data() : nullptr, vicinal::DistanceType::f32};
    vicinal::VerifyOptions options;
    options.relative_tolerance = tolerance;
    return vicinal::verify(corpus.points(), queries.points(), claim, options);
  }
  std::int64_t& id(std::int64_t row, std::int64_t rank) { return ids[static_cast<std::size_t>(row * k + rank)]; }
  float& distance(std::int64_t row, std::int64_t rank) { return distances[static_cast<std::size_t>(row * k + rank)]; }

  static constexpr std::int64_t k = 5;  // odd: the last pair is split by a tie at rank k
  Table corpus, queries;
  Neighbors truth;
  std::vector<std::int64_t> ids;
  std::vector<float> distances;
};

TEST_F(Verify, AcceptsTheTruth) {
  const auto got = verdict();
  EXPECT_EQ(got.rows, 8);
  EXPECT_EQ(got.correct, 8);
  EXPECT_EQ(got.recall, 1.0);
  EXPECT_TRUE(got.faults.empty());
  EXPECT_EQ(difference(got.truth, truth), "");
}

TEST_F(Verify, NamesWrongTieOrderAndDistance) {
  std::swap(id(1, 0), id(1, 1));                               // a tied pair in the other order
  id(2, 4) = id(2, 4) + 1;                                     // the other one of the pair split at rank k
  id(3, 2) = 999;                                              // no such row
  id(4, 3) = id(4, 2);                                         // one row twice
  distance(5, 1) = std::nextafterf(distance(5, 1), INFINITY);  // one bit
  for (std::int64_t j = 0; j < k; ++j)
    id(6, j) = truth.id(7, j) == truth.id(6, j) ? (truth.id(6, j) + 50) % 100 : truth.id(7, j);
  const auto got = verdict();
  EXPECT_EQ(got.correct, 2);
  EXPECT_EQ(got.tie_order, 2);
  EXPECT_EQ(got.distance, 1);
  EXPECT_EQ(got.wrong, 3);
  ASSERT_EQ(got.faults.size(), 6u);
  const std::vector<Fault> want = {Fault::tie_order, Fault::tie_order, Fault::wrong,
                                   Fault::wrong,     Fault::distance,  Fault::wrong};
  const std::vector<std::int64_t> ranks = {0, 4, 2, 3, 1};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(got.faults[i].row, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(got.faults[i].fault, want[i]) << "row " << i + 1;
    EXPECT_TRUE(i >= ranks.size() || got.faults[i].rank == ranks[i])
        << "row " << i + 1 << " rank " << got.faults[i].rank;
  }
  EXPECT_LT(got.recall, 1.0);
  EXPECT_GT(got.recall, 0.5);
}

TEST_F(Verify, WithoutDistancesOnlyIdsCount) {
  distance(5, 1) *= 2;
  EXPECT_EQ(verdict(0, false).correct, 8);
  EXPECT_EQ(verdict().distance, 1);
}

TEST_F(Verify, ToleranceForgivesRoundingOfOtherTools) {
  distance(5, 1) *= 1 + 1e-6f;
  EXPECT_EQ(verdict(1e-5).correct, 8);
  EXPECT_EQ(verdict(1e-8).distance, 1);
  EXPECT_GT(verdict(1e-5).largest_relative_difference, 5e-7);
  EXPECT_LT(verdict(1e-5).largest_relative_difference, 5e-6);
}

// Any tool whose distances are within e of the true ones, relatively, lists rows that tie within 2 e at every rank.
TEST(VerifyTolerance, TakesWhatRoundingCannotTellApartAndNothingElse) {
  Rng rng(36);
  for (const Kind& kind : all_kinds()) {
    // Products may be next to nothing, and then no relative tolerance holds them.
    if (kind.metric == Metric::inner_product || kind.metric == Metric::hamming) continue;
    const Table corpus = mixed_table(rng, kind.dtype, 120, 9), queries = mixed_table(rng, kind.dtype, 6, 9);
    const std::int64_t n = 120, k = 12;
    const Neighbors all = vicinal::knn(corpus.points(), queries.points(), nearest_k(n, kind.metric));
    constexpr double e = 0.02;
    std::vector<std::int64_t> ids(6 * k);
    std::vector<double> distances(6 * k);
    std::int64_t differ = 0;
    for (std::int64_t row = 0; row < 6; ++row) {
      std::vector<std::pair<double, std::int64_t>> seen;
      for (std::int64_t i = 0; i < n; ++i) {
        seen.emplace_back(all.distance(row, i) * (1 + e * (2 * rng.uniform() - 1)), i);
      }
      std::sort(seen.begin(), seen.end());
      for (std::int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>(row * k + i);
        ids[at] = all.id(row, seen[static_cast<std::size_t>(i)].second);
        distances[at] = seen[static_cast<std::size_t>(i)].first;
        differ += ids[at] != all.id(row, i);
      }
    }
    EXPECT_GT(differ, 0) << kind.text();
    vicinal::VerifyOptions options;
    options.search = nearest_k(k, kind.metric);
    options.search.distance_type = all.type();
    options.relative_tolerance = 2.5 * e;
    const auto judged = [&](double tolerance, const void* with) {
      options.relative_tolerance = tolerance;
      return vicinal::verify(corpus.points(), queries.points(), {6, k, ids.data(), with, vicinal::DistanceType::f64},
                             options);
    };
    EXPECT_EQ(judged(2.5 * e, distances.data()).correct, 6) << kind.text();
    EXPECT_EQ(judged(2.5 * e, nullptr).correct, 6) << kind.text();
    EXPECT_GT(judged(2.5 * e, nullptr).near_ties, 0) << kind.text();
    EXPECT_LT(judged(0, nullptr).correct, 6) << kind.text();
    const std::int64_t farthest = all.id(3, n - 1);
    if (!(all.distance(3, n - 1) > 1.2 * all.distance(3, k - 1))) continue;
    ids[3 * k + 5] = farthest;
    const auto wrong = judged(2.5 * e, nullptr);
    ASSERT_EQ(wrong.wrong, 1) << kind.text();
    EXPECT_EQ(wrong.faults[0].row, 3);
    EXPECT_EQ(wrong.faults[0].rank, 5);
    EXPECT_EQ(wrong.faults[0].given, all.distance(3, n - 1)) << kind.text();
    EXPECT_EQ(wrong.faults[0].expected, all.distance(3, 5)) << kind.text();
  }
}

// A claimed row may be as far as no result can be; it is wrong then, and no error.
TEST(VerifyTolerance, ARowBeyondTheTypeIsWrongAndNotARangeError) {
  const Table corpus(DType::f64, 5, 1, {0, 1, 2, 1e100, 1e300}), queries(DType::f64, 1, 1, {0});
  for (const std::int64_t far : {3, 4}) {  // beyond f32, and beyond f64
    const std::int64_t ids[] = {0, far};
    const float distances[] = {0, INFINITY};
    const vicinal::Claim claim{1, 2, ids, distances, vicinal::DistanceType::f32};
    const auto got = vicinal::verify(corpus.points(), queries.points(), claim, {.search = nearest_k(2)});
    ASSERT_EQ(got.wrong, 1);
    EXPECT_EQ(got.faults[0].rank, 1);
    EXPECT_EQ(got.faults[0].given, INFINITY);
  }
}

TEST_F(Verify, NegativeAndMissingIdsAreWrongNotACrash) {
  id(0, 0) = -1;
  id(1, 4) = std::int64_t{1} << 62;
  const auto got = verdict();
  EXPECT_EQ(got.wrong, 2);
}

TEST_F(Verify, RefusesAClaimOfAnotherShape) {
  const vicinal::Claim claim{7, k, ids.data(), nullptr, vicinal::DistanceType::f32};
  EXPECT_EQ(refusal([&] { vicinal::verify(corpus.points(), queries.points(), claim, {}); }).code,
            ErrorCode::invalid_argument);
}

TEST_F(Verify, FirstIdShiftsTheClaim) {
  for (std::int64_t& v : ids) v += 1000;
  vicinal::VerifyOptions options;
  options.search.first_id = 1000;
  const vicinal::Claim claim{8, k, ids.data(), distances.data(), vicinal::DistanceType::f32};
  EXPECT_EQ(vicinal::verify(corpus.points(), queries.points(), claim, options).correct, 8);
}

}  // namespace
}  // namespace conformance
