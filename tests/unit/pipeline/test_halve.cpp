// Plans of the CPU that are halved when memory was refused: of the two ways, the one that leaves less.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backend/backend.hpp"
#include "core/text.hpp"
#include "pipeline/knn.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

struct HalvedSearch {
  const char* filter;
  std::int64_t rows, queries, cols, k;
  bool graph = false;
};

/// It returns the bytes that a plan takes whose cascade is this filter and the precision without one.
std::int64_t bytes(SearchPlan plan, const std::string& filter, const ProblemShape& problem) {
  plan.cascade = {filter, "canonical"};
  return cpu_backend().search().bytes(plan, problem);
}

TEST(Halve, LeavesNoMoreThanHalfOfTheQueriesDoes) {
  for (const HalvedSearch& one :
       {HalvedSearch{"int8", 20'000, 20'000, 768, 10}, HalvedSearch{"int8", 1'000'000, 200'000, 128, 10},
        HalvedSearch{"f32", 300'000, 1'000, 384, 100}, HalvedSearch{"f32", 20'000, 300'000, 64, 1'000},
        HalvedSearch{"f32", 1'000'000, 1'000'000, 768, 10, true},
        HalvedSearch{"int8", 100'000, 100'000, 128, 10, true}}) {
    SCOPED_TRACE(cat(one.filter, ": ", one.queries, " queries, ", one.rows, " x ", one.cols, ", k = ", one.k));
    KnnOptions options{.k = one.k, .memory = {.host = std::int64_t{64} << 30}};
    options.run = {.device = "cpu", .threads = 8, .filter = one.filter};
    const Shape rows{one.rows, one.cols, DType::f32}, queries{one.queries, one.cols, DType::f32};
    const ProblemShape problem =
        one.graph ? graph_problem(rows, {.search = options}) : knn_problem(rows, queries, options);
    const SearchPlan plan = make_plan(cpu_backend(), problem, options);
    ASSERT_EQ(plan.symmetric, one.graph);
    SearchPlan halved = plan;
    Stats stats;
    for (int round = 0; round < 5; ++round) {
      SearchPlan fewer = halved;
      fewer.symmetric = false;
      fewer.query_batch = std::max(halved.multiples.queries, (halved.query_batch + 1) / 2);
      const std::int64_t before = bytes(halved, one.filter, problem);
      if (!halve(halved, one.filter, cpu_backend(), problem, stats)) break;
      EXPECT_LT(bytes(halved, one.filter, problem), before) << "round " << round;
      EXPECT_LE(bytes(halved, one.filter, problem), bytes(fewer, one.filter, problem)) << "round " << round;
    }
    EXPECT_FALSE(halved.symmetric);
    EXPECT_FALSE(stats.notes.empty());
  }
}

}  // namespace
}  // namespace vicinal
