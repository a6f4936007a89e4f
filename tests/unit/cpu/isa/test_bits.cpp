// Counts of differing bits of every instruction set against the definition, bit by bit (cpu/isa/bits.hpp): which rows are reported for
// which thresholds, their counts, and thresholds that fall while a tile is counted. Inputs end at an inaccessible page, as in test_kernels.cpp.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cpu/isa/table.hpp"
#include "unit/cpu/isa/guarded.hpp"

namespace vicinal::cpu {
namespace {

using Random = std::mt19937_64;
using Hits = std::map<std::pair<int, int>, std::int32_t>;  // count of (query, row)

class BitKernelTest : public ::testing::TestWithParam<const BitKernels*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supported()) GTEST_SKIP() << GetParam()->name << " does not run here";
  }
};

struct Collected {
  Hits hits;
  std::int32_t* thresholds = nullptr;
  std::int32_t lowered_by = 0;  // a query's threshold after each of its reports
};

void collect(void* context, int query, int panel, std::uint32_t rows, const std::int32_t* counts) {
  auto& all = *static_cast<Collected*>(context);
  for (int j = 0; j < panel_rows; ++j) {
    if ((rows >> j & 1) == 0) continue;
    EXPECT_LE(counts[j], all.thresholds[query]);
    EXPECT_TRUE(all.hits.emplace(std::pair{query, panel * panel_rows + j}, counts[j]).second) << "reported twice";
  }
  all.thresholds[query] -= all.lowered_by;
}

std::int32_t differing_bits(std::uint32_t a, std::uint32_t b) {
  std::int32_t count = 0;
  for (int bit = 0; bit < 32; ++bit) count += static_cast<std::int32_t>((a ^ b) >> bit & 1);
  return count;
}

/// Random words of which some rows are near queries, and some are all ones or zeros.
class Scene {
 public:
  Scene(const BitKernels& kernels, std::int64_t words, int queries, int row_panels, std::uint64_t seed)
      : kernels_(kernels), words_(words), count_(queries), rows_count_(row_panels * panel_rows),
        queries_(queries * words), rows_(rows_count_ * words), thresholds_(queries) {
    Random random(seed);
    const auto word = [&](std::uint64_t style) {
      return style == 0 ? 0 : style == 1 ? -1 : static_cast<std::int32_t>(random());
    };
    for (int q = 0; q < queries; ++q)
      for (std::int64_t k = 0, style = static_cast<std::int64_t>(random() % 5); k < words; ++k)
        query(q, k) = word(static_cast<std::uint64_t>(style));
    for (int r = 0; r < rows_count_; ++r) {
      const std::uint64_t style = random() % 5;
      const int like = static_cast<int>(random() % static_cast<unsigned>(queries));
      for (std::int64_t k = 0; k < words; ++k)
        row(r, k) = style == 2 ? query(like, k) ^ static_cast<std::int32_t>(random() % 2) : word(style);
    }
  }
  std::int32_t& query(int q, std::int64_t k) {
    const int lane = q % kernels_.query_lanes, first = q - lane, lanes = std::min(kernels_.query_lanes, count_ - first);
    return queries_[first * words_ + k * lanes + lane];
  }
  std::int32_t& row(int r, std::int64_t k) {
    return rows_[(r / panel_rows * words_ + k) * panel_rows + r % panel_rows];
  }
  std::int32_t count(int q, int r) {
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < words_; ++k)
      sum += differing_bits(static_cast<std::uint32_t>(query(q, k)), static_cast<std::uint32_t>(row(r, k)));
    return sum;
  }
  Hits run(std::int32_t lowered_by) {
    Collected collected{{}, thresholds_.data(), lowered_by};
    kernels_.tile({.queries = queries_.data(),
                   .rows = rows_.data(),
                   .thresholds = thresholds_.data(),
                   .words = words_,
                   .query_count = count_,
                   .row_panels = rows_count_ / panel_rows,
                   .on_hit = collect,
                   .context = &collected});
    return collected.hits;
  }
  int rows_count() const { return rows_count_; }
  std::int32_t& threshold(int q) { return thresholds_[q]; }

 private:
  const BitKernels& kernels_;
  std::int64_t words_;
  int count_, rows_count_;
  Guarded<std::int32_t> queries_, rows_, thresholds_;
};

TEST_P(BitKernelTest, EveryRowWithinTheLimitAndNoOther) {
  const BitKernels& kernels = *GetParam();
  for (const std::int64_t words : {1, 2, 3, 7, 8, 30, 31, 32, 33, 62, 63, 64, 100, 400})
    for (const int queries : {1, 2, 3, 4, 5, 9, 10, 11, 13, 14, 15, 27, 28, 29, 33}) {
      Scene scene(kernels, words, queries, words < 64 ? 3 : 1, static_cast<std::uint64_t>(words * 100 + queries));
      Random random(static_cast<std::uint64_t>(queries));
      Hits want;
      for (int q = 0; q < queries; ++q) {
        const std::int32_t near =
            scene.count(q, static_cast<int>(random() % static_cast<unsigned>(scene.rows_count())));
        const std::int32_t thresholds[] = {near, near - 1, -1, 0, 1 << 30, static_cast<std::int32_t>(words * 16)};
        scene.threshold(q) = thresholds[random() % std::size(thresholds)];
        for (int r = 0; r < scene.rows_count(); ++r)
          if (const std::int32_t count = scene.count(q, r); count <= scene.threshold(q)) want[{q, r}] = count;
      }
      EXPECT_EQ(scene.run(0), want) << words << " words, " << queries << " queries";
    }
}

TEST_P(BitKernelTest, LimitsThatFallBetweenReportsHoldFromThen) {
  Scene scene(*GetParam(), 8, 17, 8, 5);
  for (int q = 0; q < 17; ++q) scene.threshold(q) = 140;
  const Hits hits = scene.run(6);  // collect() expects each count within the threshold of its time
  EXPECT_GT(hits.size(), 17U);
}

INSTANTIATE_TEST_SUITE_P(Tables, BitKernelTest,
                         ::testing::Values(&bits_plain, &bits_avx2, &bits_avx512, &bits_avx512popcnt),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(BitTables, EverySetHasOneThatRunsWhereverItDoes) {
  for (const InstructionSet& set : instruction_sets()) {
    if (!runs_here(set)) continue;
    EXPECT_TRUE(set.bit_kernels().supported()) << set.name;
    EXPECT_TRUE(set.bits[1]->supported()) << set.name;
  }
}

}  // namespace
}  // namespace vicinal::cpu
