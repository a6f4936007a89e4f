// A corpus's last plan is taken over where the same plan would be made, and nowhere else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "pipeline/kept_plan.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

class KeptPlans : public testing::Test {
 protected:
  ProblemShape problem(std::int64_t queries, const KnnOptions& options) const {
    return knn_problem(corpus_, {queries, 24, DType::f32}, options, &made_);
  }
  KeptPlan::Loan asked(std::int64_t queries, const KnnOptions& options) {
    return kept_.plan(cpu_backend(), problem(queries, options), options);
  }
  /// Where the plan of such a search lies: one that is taken over lies where the last one did.
  const SearchPlan* place(std::int64_t queries, const KnnOptions& options) { return &*asked(queries, options); }
  /// The text of the kept plan and of one that is made now are the same.
  void expect_fresh(std::int64_t queries, const KnnOptions& options) {
    const SearchPlan fresh = make_plan(cpu_backend(), problem(queries, options), options);
    const KeptPlan::Loan loan = asked(queries, options);
    const SearchPlan* const kept = &*loan;
    EXPECT_EQ(public_plan(*kept).text(), public_plan(fresh).text());
    EXPECT_EQ(kept->query_batch, fresh.query_batch);
    EXPECT_EQ(kept->row_splits, fresh.row_splits);
    EXPECT_EQ(kept->distance_type, fresh.distance_type);
    EXPECT_EQ(kept->threads, fresh.threads);
    EXPECT_EQ(kept->result_bytes, fresh.result_bytes);
  }

  const Shape corpus_{5000, 24, DType::f32};
  const KnnOptions plain_{.memory = {std::int64_t{1} << 30}};
  const SearchPlan made_ = make_corpus_plan(cpu_backend(), corpus_, plain_);
  KeptPlan kept_;
};

TEST_F(KeptPlans, TheSameSearchTakesTheLastPlanOver) {
  const SearchPlan* const first = place(1, plain_);
  EXPECT_EQ(place(1, plain_), first);
  const KeptPlan::Loan in_use = asked(1, plain_);
  EXPECT_EQ(&*in_use, first);
  EXPECT_NE(place(1, plain_), first);  // one search at a time has it
}

TEST_F(KeptPlans, WhateverAPlanDependsOnMakesAnother) {
  std::vector<KnnOptions> others(8, plain_);
  others[0].k = 11;
  others[1].run.threads = 2;
  others[2].run.filter = "f32";
  others[3].run.instruction_set = "plain";
  others[4].distance_type = DistanceType::f64;
  others[5].proof = Proof::exhaustive;
  others[6].memory.host = std::int64_t{1} << 29;
  const std::vector<std::int64_t> ids{3, 4};
  others[7].eligible.ids = ids;
  for (const KnnOptions& other : others)
    for (const std::int64_t queries : {1, 300, 1}) {
      expect_fresh(queries, plain_);
      expect_fresh(queries, other);
    }
}

TEST_F(KeptPlans, TheEnvironmentIsAskedEachTime) {
  expect_fresh(1, plain_);
  ::setenv("VICINAL_FILTER", "canonical", 1);
  expect_fresh(1, plain_);
  EXPECT_EQ((*asked(1, plain_)).cascade.front(), "canonical");
  ::unsetenv("VICINAL_FILTER");
  expect_fresh(1, plain_);
  EXPECT_NE((*asked(1, plain_)).cascade.front(), "canonical");
}

// Rows are packed by the set that a corpus was made with, whatever the environment names later.
TEST_F(KeptPlans, AnotherSetInTheEnvironmentChangesNothing) {
  const std::vector<std::string>& sets = cpu_backend().device().facts().instruction_sets;
  for (const std::string& set : sets) {
    KnnOptions by_name = plain_;
    by_name.run.instruction_set = set;
    const Shape large{1 << 20, 128, DType::f32};  // of which some sets read bytes first for few queries
    const SearchPlan made = make_corpus_plan(cpu_backend(), large, by_name);
    for (const std::int64_t queries : {1, 4, 16, 300}) {
      const ProblemShape of = knn_problem(large, {queries, 128, DType::f32}, plain_, &made);
      const SearchPlan before = make_plan(cpu_backend(), of, plain_);
      EXPECT_EQ(before.instruction_set, set);
      for (const std::string& other : sets) {
        ::setenv("VICINAL_ISA", other.c_str(), 1);
        const SearchPlan after = make_plan(cpu_backend(), of, plain_);
        ::unsetenv("VICINAL_ISA");
        EXPECT_EQ(public_plan(after).text(), public_plan(before).text()) << set << ", then " << other;
      }
    }
  }
}

TEST_F(KeptPlans, OfLittleMemoryThePlanIsMadeAnew) {
  const SearchPlan whole = make_plan(cpu_backend(), problem(4000, plain_), plain_);
  KnnOptions less = plain_;
  for (const std::int64_t memory : {2 * whole.peak_bytes, whole.peak_bytes * 3 / 2, whole.peak_bytes * 3 / 4}) {
    less.memory.host = memory;
    expect_fresh(4000, less);
    expect_fresh(4000, less);
  }
}

}  // namespace
}  // namespace vicinal
