// Memory is planned before work and kept: plan() is pure and honest, a budget below the minimum is refused with a
// figure that suffices, anonymous memory stays within the budget, and many calls leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

#include <unistd.h>

#include "conformance/children.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;
using vicinal::KnnOptions;
using vicinal::Plan;
using vicinal::Shape;

constexpr std::int64_t mib = 1 << 20;

const bool measurable = !sanitized;  // shadow memory is anonymous too

TEST(PlanOfMemory, IsPureAndKeepsItsBudget) {
  Rng rng(60);
  for (int trial = 0; trial < std::max<std::int64_t>(300, scaled(3000)); ++trial) {
    const Kind kind = rng.pick(all_kinds());
    const Shape corpus{rng.log_between(1, 100000000), rng.log_between(1, 4096), kind.dtype},
        queries{rng.log_between(1, 1000000), corpus.cols, kind.dtype};
    KnnOptions options;
    options.metric = kind.metric;
    options.k = rng.log_between(1, std::min<std::int64_t>(corpus.rows, 5000));
    options.run.threads = rng.pick(all_threads);
    options.memory.host = std::int64_t{1} << 40;
    const Plan ample = vicinal::plan(corpus, queries, options);
    EXPECT_EQ(ample.text(), vicinal::plan(corpus, queries, options).text());
    EXPECT_LE(ample.minimum_bytes, ample.peak_bytes);
    EXPECT_EQ(ample.cascade.back(), "canonical");
    EXPECT_EQ(ample.result_bytes,
              queries.rows * options.k * (8 + static_cast<std::int64_t>(vicinal::distance_size(ample.distance_type))));
    for (const std::int64_t budget :
         {ample.minimum_bytes, ample.minimum_bytes + (ample.peak_bytes - ample.minimum_bytes) / 3, ample.peak_bytes}) {
      options.memory.host = budget;
      const Plan plan = vicinal::plan(corpus, queries, options);
      ASSERT_LE(plan.peak_bytes, budget) << kind.text() << " n=" << corpus.rows << " Q=" << queries.rows
                                         << " d=" << corpus.cols << " k=" << options.k;
      ASSERT_EQ(plan.minimum_bytes, ample.minimum_bytes);
      ASSERT_EQ(plan.budget_bytes, budget);
    }
    options.memory.host = ample.minimum_bytes - 1;
    ASSERT_EQ(refusal([&] { vicinal::plan(corpus, queries, options); }).code, ErrorCode::memory_budget);
  }
}

// A tree of all rows answers with one list a thread, a tile of them with one a query.
TEST(PlanOfMemory, TheLeastIsThatOfATreeWhereItTakesLess) {
  const Shape corpus{6678, 1, DType::u8}, queries{3697, 1, DType::u8};
  KnnOptions options{.k = 4034, .run = {.device = "cpu", .threads = 2}};
  options.memory.host = vicinal::plan(corpus, queries, options).minimum_bytes;
  EXPECT_LE(vicinal::plan(corpus, queries, options).peak_bytes, options.memory.host);
  --options.memory.host;
  EXPECT_EQ(refusal([&] { vicinal::plan(corpus, queries, options); }).code, ErrorCode::memory_budget);
}

// Each block of queries reads all rows.
TEST(PlanOfMemory, AFewQueriesBeyondAPanelStayWithIt) {
  const auto plan_of = [](std::int64_t queries, std::int64_t rows = 100'000) {
    return vicinal::plan({rows, 128, DType::f32}, {queries, 128, DType::f32}, {.run = {.device = "cpu", .threads = 2}});
  };
  const std::int64_t panel = plan_of(1).query_block, most = std::max<std::int64_t>(panel + panel / 2, 16);
  EXPECT_EQ(plan_of(panel).query_block, panel);
  for (const std::int64_t queries : {panel + 1, most}) {
    EXPECT_GE(plan_of(queries).query_block, queries);
    EXPECT_GT(plan_of(queries).row_splits, 1) << "threads share the rows";
  }
  const auto of_a_thread = [panel](std::int64_t queries) { return ((queries + 1) / 2 + panel - 1) / panel * panel; };
  EXPECT_EQ(plan_of(most + 1).query_block, of_a_thread(most + 1)) << "a block for each thread";
  // Of rows that no cache holds more of them do, from 2^25 elements on.
  constexpr std::int64_t far = (std::int64_t{1} << 25) / 128 + 1;
  EXPECT_GE(plan_of(32, far).query_block, 32);
  EXPECT_EQ(plan_of(32, far - 1).query_block, of_a_thread(32));
  EXPECT_EQ(plan_of(33, far).query_block, of_a_thread(33));
}

TEST(PlanOfMemory, AllocatesNothingHoweverLargeTheShape) {
  const std::int64_t before = anonymous_bytes();
  for (const std::int64_t rows : {std::int64_t{1} << 33, std::int64_t{1} << 40}) {
    KnnOptions options;
    options.memory.host = std::int64_t{1} << 36;
    const Plan plan = vicinal::plan({rows, 1000, DType::f32}, {1000, 1000, DType::f32}, options);
    EXPECT_LE(plan.peak_bytes, std::int64_t{1} << 36);
  }
  EXPECT_LT(anonymous_bytes() - before, mib);
}

// Sizes whose products leave 64 bits are refused, not wrapped.
TEST(PlanOfMemory, ShapesBeyondAnyMemoryAreRefused) {
  for (const Shape& shape :
       {Shape{std::int64_t{1} << 62, 8, DType::f32}, Shape{std::int64_t{1} << 40, std::int64_t{1} << 40, DType::f64}}) {
    const Refusal got = refusal([&] { vicinal::plan(shape, {10, shape.cols, shape.dtype}, {}); });
    EXPECT_EQ(got.code, ErrorCode::invalid_argument) << got.message;
  }
  EXPECT_TRUE(refusal([] { vicinal::plan({1000, 8, DType::f32}, {std::int64_t{1} << 62, 8, DType::f32}, {}); }).code);
}

// The way out that the message names must be one.
TEST(PlanOfMemory, TheRefusalNamesABudgetThatSuffices) {
  Rng rng(61);
  const Table corpus = gaussian(rng, DType::f32, 5000, 64), queries = gaussian(rng, DType::f32, 50, 64);
  KnnOptions options;
  options.memory.host = 1000;
  const Refusal got = refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); });
  ASSERT_EQ(got.code, ErrorCode::memory_budget) << got.message;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(got.message, found, std::regex("(?:at least|minimum)[^0-9]*([0-9.]+(?: ?[KMGT]i?B)?)")))
      << got.message;
  options.memory.host = vicinal::parse_bytes(found[1].str());
  EXPECT_EQ(
      check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))), "")
      << got.message;
}

TEST(PlanOfMemory, ExactlyTheMinimumWorks) {
  Rng rng(62);
  for (const Kind& kind : all_kinds()) {
    const Table corpus = mixed_table(rng, kind.dtype, 3000, 24), queries = mixed_table(rng, kind.dtype, 5, 24);
    KnnOptions options;
    options.metric = kind.metric;
    const oracle::Answer want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
    for (const int threads : all_threads) {
      const Setting setting{"auto", "auto", threads, Memory::least, vicinal::Proof::certified};
      KnnOptions least = apply(setting, options, corpus.points(), queries.points());
      EXPECT_EQ(check(corpus.points(), queries.points(), least, want), "") << kind.text();
      --least.memory.host;
      EXPECT_EQ(refusal([&] { vicinal::knn(corpus.points(), queries.points(), least); }).code, ErrorCode::memory_budget)
          << kind.text();
    }
  }
}

class KeptMemory : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 400000, cols = 64;
  void SetUp() override {
    if (!measurable) GTEST_SKIP() << "anonymous memory is not the program's own under a sanitizer";
    path =
        (std::filesystem::temp_directory_path() / ("vicinal-memory-" + std::to_string(::getpid()) + ".bin")).string();
    std::ofstream file(path, std::ios::binary);
    Rng rng(63);
    std::vector<float> block(1000 * cols);
    for (std::int64_t i = 0; i < rows / 1000; ++i) {
      // Halves of random words: about normal, and a hundred times cheaper than a real normal number.
      for (float& v : block) {
        const std::uint64_t bits = rng.bits();
        v = static_cast<float>(static_cast<double>(bits & 0xffff) + static_cast<double>(bits >> 16 & 0xffff) +
                               static_cast<double>(bits >> 32 & 0xffff)) *
            0x1p-15f;
      }
      file.write(reinterpret_cast<const char*>(block.data()),
                 static_cast<std::streamsize>(block.size() * sizeof(float)));
    }
    ASSERT_TRUE(file.good());
  }
  void TearDown() override { std::filesystem::remove(path); }

  struct Run {
    long long peak = -1;
    unsigned long long hash = 0;
    std::string output;
  };
  Run run(const std::string& metric, std::int64_t budget, bool prepared, std::int64_t k = 100) const {
    Run r;
    r.output = run_child("memory", path + " " + std::to_string(rows) + " " + std::to_string(cols) + " 100 " +
                                       std::to_string(k) + " " + metric + " " + std::to_string(budget) + " " +
                                       (prepared ? "1" : "0"));
    std::sscanf(r.output.c_str(), "peak %lld hash %llu", &r.peak, &r.hash);
    return r;
  }
  std::string path;
};

TEST_F(KeptMemory, AnonymousMemoryStaysWithinTheBudgetAndTheBitsStay) {
  for (const std::string metric : {"euclidean", "cosine", "l1"}) {
    const Run ample = run(metric, 0, false);
    ASSERT_GT(ample.peak, 0) << ample.output;
    for (const std::int64_t budget : {64 * mib, 96 * mib})
      for (const bool prepared : {false, true}) {
        const Run kept = run(metric, budget, prepared);
        ASSERT_GT(kept.peak, 0) << kept.output;
        EXPECT_LE(kept.peak, budget + budget / 20) << metric << " budget " << budget << (prepared ? " prepared" : "");
        EXPECT_EQ(kept.hash, ample.hash) << metric << " budget " << budget << (prepared ? " prepared" : "");
      }
  }
}

TEST_F(KeptMemory, LargeKKeepsItToo) {
  const Run ample = run("euclidean", 0, false, 2000), kept = run("euclidean", 64 * mib, false, 2000);
  ASSERT_GT(kept.peak, 0) << kept.output;
  EXPECT_LE(kept.peak, 64 * mib + 64 * mib / 20);
  EXPECT_EQ(kept.hash, ample.hash);
}

TEST(Growth, ThousandsOfCallsLeaveNothingBehind) {
  if (!measurable) GTEST_SKIP() << "anonymous memory is not the program's own under a sanitizer";
  const std::string output = run_child("growth", std::to_string(scaled(2000)));
  long long growth = -1;
  ASSERT_EQ(std::sscanf(output.c_str(), "growth %lld", &growth), 1) << output;
  EXPECT_LE(growth, mib) << output;
}

}  // namespace
}  // namespace conformance
