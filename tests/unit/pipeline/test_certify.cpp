// What is certified, and the check of answers that does not trust it: each kind of wrong answer is refused, whatever its bounds say.
#include "pipeline/certify.hpp"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <limits>
#include <string>

#include "core/metric.hpp"
#include "pipeline/spot_check.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

/// Every search of this program is checked.
class SpotChecked : public testing::Environment {
  void SetUp() override { ::setenv("VICINAL_SPOT_CHECK", "1", 0); }
};
[[maybe_unused]] const testing::Environment* const spot_checked = testing::AddGlobalTestEnvironment(new SpotChecked);

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// 40 rows on a line, 3 queries, 5 neighbours; labels leave query 1 two rows.
struct Answered {
  std::vector<float> rows, queries{0.25F, 3.25F, 39.5F};
  std::vector<std::int64_t> row_labels, query_labels{0, 1, 0};
  KnnOptions options;
  Points corpus, asked{queries.data(), DType::f32, 3, 1};
  Neighbors result;
  SearchSpec spec;

  explicit Answered(bool labels) {
    for (int i = 0; i < 40; ++i) {
      rows.push_back(static_cast<float>(i));
      row_labels.push_back(i == 2 || i == 30 ? 1 : 0);
    }
    corpus = Points(rows.data(), DType::f32, 40, 1);
    options.k = 5;
    options.pad = true;
    options.first_id = 100;
    if (labels) {
      options.eligible.labels = Eligible::Labels::same;
      options.eligible.corpus_labels = row_labels;
      options.eligible.query_labels = query_labels;
    }
    result = knn(corpus, asked, options);
    spec = {.corpus = corpus, .k = 5, .first_id = 100, .filter = RowFilter(options.eligible, 40, 100, false)};
  }
  std::int64_t* ids(std::int64_t query) { return result.view().ids + query * 5; }
  float* distances(std::int64_t query) { return static_cast<float*>(result.view().distances) + query * 5; }

  /// The queries that are not proved, by bounds that say that nothing was left out.
  std::vector<bool> refused(std::vector<std::int64_t> found, double verified_radius = unbounded) const {
    std::vector<double> bounds(3, verified_radius), largest(3);
    const std::vector<std::int64_t> batch{0, 1, 2};
    std::vector<bool> redo(3);
    ThreadPool thread_pool(2, nullptr, {}, 1);
    for (const std::int64_t row :
         certify(result.view(), spec, batch, {bounds.data(), largest.data(), found.data()}, thread_pool))
      redo[static_cast<std::size_t>(row)] = true;
    return redo;
  }
  /// The message of the check, or nothing.
  std::string fault() const {
    try {
      spot_check(result.view(), spec, asked);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      return error.what();
    }
    return "";
  }
};

TEST(Certify, AQueryThatHasFewerRowsThanItIsOwedIsNotProved) {
  const Answered all(false), some(true);
  EXPECT_EQ(all.refused({5, 5, 5}), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(all.refused({5, 4, 0}), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(some.refused({5, 2, 5}), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(some.refused({5, 1, 5}), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(some.refused({5, 3, 5}), (std::vector<bool>{false, true, false})) << "more than there are";
  EXPECT_EQ(some.refused({unknown_count, unknown_count, unknown_count}), (std::vector<bool>{false, false, false}));
}

TEST(Certify, CountsThatTheCallerIsGivenAreThoseOfTheRows) {
  Answered some(true);
  some.result.view().counts[1] = 5;
  EXPECT_EQ(some.refused({5, 2, 5}), (std::vector<bool>{false, true, false}));
}

TEST(Certify, TheLastRowThatIsOwedDecides) {
  const Answered some(true);  // of query 1 the second, at 26.75; the other entries are padding at infinity
  EXPECT_EQ(some.refused({5, 2, 5}, 30), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(some.refused({5, 2, 5}, 20), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(some.refused({5, 2, 5}, -unbounded), (std::vector<bool>{true, true, true}));
}

/// On both sides of the queries that one thread is given, and beyond.
TEST(Certify, ManyQueriesAreToldByAllThreads) {
  ThreadPool thread_pool(3, nullptr, {}, 1);
  for (const std::int64_t queries : {16'384, 16'385, 40'000}) {
    Neighbors found(queries, 1, DistanceType::f32, false);
    std::vector<std::int64_t> rows, counts(static_cast<std::size_t>(queries), 1), far;
    std::vector<double> radii(static_cast<std::size_t>(queries), 2), largest(radii.size());
    for (std::int64_t i = 0; i < queries; ++i) {
      rows.push_back(i);
      found.view().ids[i] = i;
      const bool beyond = i % 1000 == 999 || i + 1 == queries;
      static_cast<float*>(found.view().distances)[i] = beyond ? 3.0F : 1.0F;  // of what was proved
      if (beyond) far.push_back(i);
    }
    const SearchSpec spec{.corpus = Points(nullptr, DType::f32, queries, 1), .k = 1};
    std::vector<std::int64_t> unproved =
        certify(found.view(), spec, rows, {radii.data(), largest.data(), counts.data()}, thread_pool);
    std::sort(unproved.begin(), unproved.end());
    EXPECT_EQ(unproved, far) << queries;
  }
}

TEST(SpotCheck, RightAnswersPassAndEveryKindOfWrongOneIsNamed) {
  const auto after = [](bool labels, const auto& harm) {
    Answered answered(labels);
    EXPECT_EQ(answered.fault(), "");
    harm(answered);
    return answered.fault();
  };
  const auto expect = [&](bool labels, const char* words, const auto& harm) {
    EXPECT_NE(after(labels, harm).find(words), std::string::npos) << words << ": " << after(labels, harm);
  };
  expect(false, "of no row", [](Answered& a) { a.ids(1)[4] = -1; });
  expect(false, "of no row", [](Answered& a) { a.ids(1)[4] = 99; });
  expect(false, "of no row", [](Answered& a) { a.ids(1)[4] = 140; });
  expect(false, "out of order",
         [](Answered& a) { std::swap(a.ids(0)[0], a.ids(0)[1]), std::swap(a.distances(0)[0], a.distances(0)[1]); });
  expect(false, "out of order", [](Answered& a) { a.ids(0)[1] = a.ids(0)[0], a.distances(0)[1] = a.distances(0)[0]; });
  expect(false, "listed twice", [](Answered& a) { a.ids(0)[4] = a.ids(0)[0]; });
  expect(true, "not eligible", [](Answered& a) { a.ids(0)[4] = 102; });
  expect(true, "counts 5 rows of 2", [](Answered& a) { a.result.view().counts[1] = 5; });
  expect(true, "where nothing is left", [](Answered& a) { a.ids(1)[3] = 107; });
}

TEST(SpotCheck, ARowThatIsMissingOrListedAtAnotherDistanceIsFoundSoon) {
  for (const bool missing : {true, false}) {
    Answered answered(false);
    for (int i = 0; i < 5; ++i) {
      if (missing) answered.ids(1)[i] = 115 + i, answered.distances(1)[i] = 11.75F + static_cast<float>(i);
      if (!missing) answered.distances(1)[i] *= 0.5F;
    }
    std::string fault;
    for (int i = 0; i < 100 && fault.empty(); ++i) fault = answered.fault();  // 32 draws of 40 rows each time
    EXPECT_NE(fault.find(missing ? "is nearer than the last entry" : "at another distance"), std::string::npos)
        << fault;
  }
}

TEST(SpotCheck, RangesToo) {
  const Answered answered(false);
  RangeOptions options;
  options.search.first_id = 100;
  SearchSpec spec = {
      .corpus = answered.corpus, .first_id = 100, .filter = RowFilter({}, 40, 100, false), .radius = 3.0};
  CsrNeighbors found = range_search(answered.corpus, answered.asked, 3.0, options);
  EXPECT_NO_THROW(spot_check(found, spec, answered.asked));
  spec.radius = 2.0;
  EXPECT_THROW(spot_check(found, spec, answered.asked), Error) << "rows beyond the radius";
  spec.radius = 30.0;
  int refused = 0;
  for (int i = 0; i < 20; ++i) try {
      spot_check(found, spec, answered.asked);
    } catch (const Error&) {
      ++refused;
    }
  EXPECT_GT(refused, 0) << "rows within it are missing";
}

TEST(SpotCheck, SearchesOfThisProgramAreChecked) { EXPECT_TRUE(spot_checks()); }

}  // namespace
}  // namespace vicinal
