// The parts of the permutation index, each against the plainest way to say it: random numbers, orders and their forms, scores of
// every instruction set, the partition by counting, edits of one pair, bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "cpu/isa/table.hpp"
#include "cpu/permutation/pattern.hpp"
#include "permutation/bounds.hpp"
#include "permutation/permutants.hpp"
#include "permutation/philox.hpp"
#include "permutation/ranks.hpp"
#include "permutation/top_c_partition.hpp"
#include "unit/permutation/sorted_scores.hpp"

namespace permutation_ranks {
namespace {

using namespace vicinal;

TEST(Philox, GivesThePublishedNumbers) {  // of Random123's kat_vectors
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Permutants, RandomIdsAreDifferentAndEvenlySpread) {
  std::map<std::int64_t, int> drawn;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const std::vector<std::int64_t> ids = random_ids(5, 10, seed, false);
    EXPECT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()).size(), 5u);
    for (const std::int64_t id : ids) ++drawn[id];
  }
  ASSERT_EQ(drawn.size(), 10u);
  for (const auto& [id, times] : drawn) EXPECT_NEAR(times, 300, 60) << id;  // 5 standard deviations
  EXPECT_EQ(random_ids(1000, 1000, 1, true).size(), 1000u);
  EXPECT_NE(random_ids(5, 1000, 1, true), random_ids(5, 1000, 1, false));
}

/// Ranks by their definition.
std::vector<std::int64_t> ranks_of(const std::vector<double>& distances) {
  std::vector<std::int64_t> ranks(distances.size());
  for (std::size_t p = 0; p < ranks.size(); ++p)
    for (std::size_t o = 0; o < ranks.size(); ++o)
      ranks[p] += distances[o] < distances[p] || (distances[o] == distances[p] && o < p);
  return ranks;
}

std::int64_t score_of(const RankLayout& layout, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::int64_t> x = ranks_of(a), y = ranks_of(b);
  const std::int64_t half = layout.permutants / 2;
  std::int64_t sum = 0;
  for (std::size_t p = 0; p < x.size(); ++p) {
    if (layout.form == RankForm::bits) {
      sum += (x[p] >= half) != (y[p] >= half);
      continue;
    }
    if (layout.distance == RankDistance::kendall) {
      for (std::size_t o = 0; o < p; ++o) sum += (x[p] < x[o]) != (y[p] < y[o]);
      continue;
    }
    if (layout.form == RankForm::prefix) x[p] = std::min(x[p], layout.prefix), y[p] = std::min(y[p], layout.prefix);
    const std::int64_t d = std::abs(x[p] - y[p]);
    sum += layout.distance == RankDistance::rho ? d * d : d;
  }
  return sum;
}

TEST(Ranks, ScoresAreThoseOfTheirDefinitionsOnEveryInstructionSet) {
  std::mt19937 random(1);
  const std::vector<const cpu::Scores*> sets = {&cpu::scores_plain, &cpu::find_instruction_set("avx2").scores};
  for (const std::int64_t m : {1, 2, 5, 16, 17, 33, 64, 65, 128, 256, 300}) {
    for (const RankForm form : {RankForm::ranks, RankForm::prefix, RankForm::bits}) {
      for (const RankDistance distance : {RankDistance::footrule, RankDistance::rho, RankDistance::kendall}) {
        if (form == RankForm::prefix && distance == RankDistance::kendall) continue;
        const RankLayout layout(distance, form, m, 0);
        constexpr std::size_t rows = 5;
        std::vector<std::vector<double>> all(rows + 1, std::vector<double>(static_cast<std::size_t>(m)));
        for (std::vector<double>& one : all)
          for (double& value : one) value = static_cast<double>(random() % 40);  // many ties
        if (m > 2)
          for (std::size_t p = 0; p < all[1].size(); ++p)
            all[0][p] = -all[1][p] - static_cast<double>(p) / 1000;  // nearly reversed
        OrderWriter writer(layout);
        std::vector<std::uint8_t> table(rows * static_cast<std::size_t>(layout.stride)), scratch;
        for (std::size_t row = 0; row < rows; ++row) {
          writer.write(all[row].data(), table.data() + row * static_cast<std::size_t>(layout.stride));
          EXPECT_TRUE(is_order(layout, table.data() + row * static_cast<std::size_t>(layout.stride), scratch));
        }
        for (const cpu::Scores* set : sets) {
          for (const std::size_t query : {std::size_t{1}, rows}) {
            RankScorer scorer(layout, *set);
            scorer.start(all[query].data());
            std::uint32_t scores[rows];
            scorer.score(table.data(), rows, scores);
            for (std::size_t row = 0; row < rows; ++row) {
              EXPECT_EQ(scores[row], score_of(layout, all[query], all[row]))
                  << set->name << " m=" << m << " form " << rank_form_name(form) << " " << rank_distance_name(distance);
              EXPECT_LE(scores[row], layout.largest());
            }
          }
        }
      }
    }
  }
}

TEST(Ranks, LargestScoresAreReached) {
  for (const std::int64_t m : {2, 5, 64, 256, 1024}) {
    std::vector<double> up(static_cast<std::size_t>(m)), down(up.size());
    for (std::size_t p = 0; p < up.size(); ++p) up[p] = static_cast<double>(p), down[p] = -up[p];
    for (const RankDistance distance : {RankDistance::footrule, RankDistance::rho, RankDistance::kendall}) {
      const RankLayout layout(distance, RankForm::ranks, m, 0);
      std::vector<std::uint8_t> row(static_cast<std::size_t>(layout.stride));
      OrderWriter(layout).write(down.data(), row.data());
      RankScorer scorer(layout, cpu::scores_plain);
      scorer.start(up.data());
      std::uint32_t score = 0;
      scorer.score(row.data(), 1, &score);
      EXPECT_EQ(score, layout.largest()) << m << rank_distance_name(distance);
    }
  }
}

TEST(Ranks, RowsThatAreNoOrderAreSeen) {
  const RankLayout ranks(RankDistance::footrule, RankForm::ranks, 4, 0),
      bits(RankDistance::footrule, RankForm::bits, 4, 0);
  std::vector<std::uint8_t> scratch;
  const std::uint8_t twice[16] = {0, 1, 1, 3}, beyond[16] = {0, 1, 2, 4}, good[16] = {3, 1, 2, 0}, two[16] = {3},
                     three[16] = {7}, spare[16] = {0x11};
  EXPECT_FALSE(is_order(ranks, twice, scratch));
  EXPECT_FALSE(is_order(ranks, beyond, scratch));
  EXPECT_TRUE(is_order(ranks, good, scratch));
  EXPECT_TRUE(is_order(bits, two, scratch));
  EXPECT_FALSE(is_order(bits, three, scratch));
  EXPECT_FALSE(is_order(bits, spare, scratch));
}

TEST(TopCPartition, CountingAndSortingAgree) {
  std::mt19937 random(2);
  TopCPartition partition;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t largest =
        round % 3 == 0 ? static_cast<std::uint32_t>(random()) : static_cast<std::uint32_t>(random() % 3000);
    std::vector<std::uint32_t> scores(1 + random() % 500);
    for (std::uint32_t& score : scores) score = static_cast<std::uint32_t>(random() % (std::uint64_t{largest} + 1));
    const auto count = static_cast<std::int64_t>(scores.size()),
               wanted = static_cast<std::int64_t>(1 + random() % scores.size());
    std::vector<std::uint32_t> found(static_cast<std::size_t>(wanted)), expected = first_by_score(scores, wanted);
    partition.by_counting(scores.data(), count, largest, wanted, found.data());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected) << "largest " << largest << ", " << wanted << " of " << count;
  }
}

TEST(TopCPartition, PartsOfATeamGiveWhatOneThreadDoes) {
  std::mt19937 random(3);
  TopCPartition alone, shared;
  ThreadPool thread_pool(3, nullptr, {}, 1);
  for (const std::uint32_t largest : {0u, 1u, 40u, 2048u, 90000u, 0xffffffffu}) {
    std::vector<std::uint32_t> scores(70001);
    for (std::uint32_t& score : scores) score = static_cast<std::uint32_t>(random() % (std::uint64_t{largest} + 1));
    const auto count = static_cast<std::int64_t>(scores.size());
    for (const std::int64_t wanted : {std::int64_t{1}, std::int64_t{17}, count / 3, count - 1, count}) {
      std::vector<std::uint32_t> one(static_cast<std::size_t>(wanted)), parts(one.size());
      alone.by_counting(scores.data(), count, largest, wanted, one.data());
      shared.by_counting(scores.data(), count, largest, wanted, parts.data(), thread_pool);
      EXPECT_EQ(one, parts) << "largest " << largest << ", " << wanted << " of " << count;
    }
  }
}

std::int64_t edits_by_table(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::vector<std::int64_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::int64_t corner = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::int64_t change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

TEST(Pattern, EditsAreThoseOfTheTable) {
  std::mt19937 random(3);
  cpu::Pattern pattern(6);
  for (int round = 0; round < 400; ++round) {
    const auto some = [&](std::uint32_t lowest) {
      std::vector<std::uint32_t> codes(random() % (round % 4 == 0 ? 200 : 12));
      for (std::uint32_t& code : codes) code = lowest + static_cast<std::uint32_t>(random() % (7 - lowest));
      return codes;
    };
    const std::vector<std::uint32_t> query = some(0), text = some(1);
    pattern.set(query);
    EXPECT_EQ(pattern.edits(text.data(), static_cast<std::int64_t>(text.size())), edits_by_table(query, text))
        << query.size() << " and " << text.size();
  }
}

/// Points on a line, where |d(q, p) - d(x, p)| is known: what bounds leave must hold everything within the radius.
TEST(Bounds, LeaveEverythingWithinTheRadius) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const TrueDistance euclid(Metric::euclidean, 1);
  constexpr std::int64_t objects = 2000, permutants = 3;
  std::vector<double> at(objects), sample, seen_from = {-0.9, 0.1, 0.7};
  for (double& x : at) x = uniform(random);
  const auto distances = [&](double x) {
    std::vector<double> d;
    for (const double p : seen_from) d.push_back(std::fabs(x - p));
    return d;
  };
  for (std::size_t i = 0; i < objects; i += 3)
    for (const double d : distances(at[i])) sample.push_back(d);
  Bounds bounds(objects, permutants, sample, 1);
  for (std::int64_t i = 0; i < objects; ++i) bounds.note(i, distances(at[static_cast<std::size_t>(i)]).data(), 0);
  bounds.finish();
  EXPECT_TRUE(bounds.fit());
  BoundTest test(bounds, euclid);
  std::int64_t left = 0, inside = 0;
  for (const cpu::Scores* set : {&cpu::scores_plain, &cpu::find_instruction_set("avx2").scores}) {
    for (int query = 0; query < 50; ++query) {
      const double q = uniform(random), radius = query % 5 == 0 ? 0 : 0.05 * std::fabs(uniform(random));
      test.start(distances(q).data(), euclid.of(radius, DistanceType::f64).high);
      std::vector<std::uint32_t> found(objects);
      found.resize(static_cast<std::size_t>(test.within(*set, 0, objects, found.data())));
      left += static_cast<std::int64_t>(found.size());
      for (std::uint32_t i = 0; i < objects; ++i) {
        if (std::fabs(at[i] - q) > radius) continue;
        ++inside;
        EXPECT_TRUE(std::binary_search(found.begin(), found.end(), i)) << at[i] << " and " << q << " within " << radius;
      }
    }
  }
  EXPECT_LT(left, inside + 100 * 40);  // two cells at each end hold about 16 objects each
}

}  // namespace
}  // namespace permutation_ranks
