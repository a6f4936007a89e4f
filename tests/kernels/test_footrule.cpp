// The kernels of the permutation index on the emulator: the candidates of every query are those of a full sort of all footrules.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cuda/permutation/sequence.hpp"
#include "kernels/emulated.hpp"

namespace {

using namespace vicinal::cuda;

TEST(Footrule, CandidatesAreThoseOfAFullSort) {
  std::mt19937 random(5);
  struct Case {
    int permutants;
    std::int64_t objects, queries, candidates, blocks, sample;
    bool fails;  // some queries, by sampling
  };
  for (const Case& c : {Case{5, 300, 3, 1, 4, 300, false},
                        {16, 257, 9, 40, 1, 64, false},
                        {33, 1000, 8, 999, 40, 512, true},
                        {64, 700, 17, 700, 6, 700, false},
                        {4, 8000, 2, 5000, 4, 8000, false},  // more equals than a block puts aside
                        {128, 90, 2, 13, 2, 32, false}}) {
    const auto m = static_cast<std::size_t>(c.permutants);
    const auto words = static_cast<std::size_t>(padded_rank_words(c.permutants));
    const std::int64_t pitch = c.objects + 3;
    const auto orders = [&](std::int64_t count) {
      std::vector<std::vector<std::uint8_t>> all;
      for (std::int64_t i = 0; i < count; ++i) {
        std::vector<std::uint8_t> ranks(m);
        std::iota(ranks.begin(), ranks.end(), std::uint8_t{0});
        if (!all.empty() && random() % 3 == 0) ranks = all[random() % all.size()];
        else std::shuffle(ranks.begin(), ranks.end(), random);
        ranks.resize(4 * words);
        all.push_back(ranks);
      }
      return all;
    };
    const auto objects = orders(c.objects), queries = orders(c.queries);
    const auto word = [](const std::vector<std::uint8_t>& ranks, std::size_t w) {
      std::uint32_t four = 0;
      for (std::size_t i = 0; i < 4; ++i) four |= static_cast<std::uint32_t>(ranks[4 * w + i]) << (8 * i);
      return four;
    };
    std::vector<std::uint32_t> packed(words * static_cast<std::size_t>(pitch)), asked;
    for (std::size_t i = 0; i < objects.size(); ++i)
      for (std::size_t w = 0; w < words; ++w) packed[w * static_cast<std::size_t>(pitch) + i] = word(objects[i], w);
    for (const auto& query : queries)
      for (std::size_t w = 0; w < words; ++w) asked.push_back(word(query, w));

    RanksArgs args{.objects = packed.data(),
                   .pitch = pitch,
                   .count = c.objects,
                   .queries = asked.data(),
                   .query_count = c.queries,
                   .words = static_cast<int>(words),
                   .candidates = c.candidates,
                   .bins = static_cast<std::uint32_t>(m * m / 4 + 1)};
    args.strips = strips_of(c.objects);
    const auto per_query = [&](std::int64_t numbers) {
      return std::vector<std::uint32_t>(static_cast<std::size_t>(c.queries * numbers));
    };
    auto histogram = per_query(args.bins), last = per_query(1), taken = per_query(1), below = per_query(args.strips),
         equal = per_query(args.strips), found = per_query(c.candidates);
    args.histogram = histogram.data(), args.last = last.data(), args.equal_taken = taken.data();
    args.below = below.data(), args.equal = equal.data(), args.found = found.data();
    emulated::Launch launch;
    run_footrule(args, c.blocks, launch);

    auto counts = per_query(1), failed = per_query(1), by_sample = found;
    std::fill(histogram.begin(), histogram.end(), 0u);
    args.capacity = c.fails ? 999 : c.objects;
    std::vector<unsigned long long> list(static_cast<std::size_t>(c.queries * args.capacity));
    args.counts = counts.data(), args.failed = failed.data(), args.list = list.data(), args.found = by_sample.data();
    run_sampled(args, 1, c.sample, launch);
    EXPECT_EQ(std::count(failed.begin(), failed.end(), 0u) < c.queries, c.fails);

    for (std::size_t q = 0; q < queries.size(); ++q) {
      std::vector<std::pair<int, std::uint32_t>> scored;
      for (std::uint32_t i = 0; i < objects.size(); ++i) {
        int score = 0;
        for (std::size_t p = 0; p < m; ++p) score += std::abs(int{queries[q][p]} - int{objects[i][p]});
        scored.emplace_back(score, i);
      }
      std::sort(scored.begin(), scored.end());
      std::vector<std::uint32_t> expected;
      for (std::int64_t i = 0; i < c.candidates; ++i) expected.push_back(scored[static_cast<std::size_t>(i)].second);
      std::sort(expected.begin(), expected.end());
      const auto begin = found.begin() + static_cast<std::ptrdiff_t>(q) * c.candidates;
      EXPECT_EQ(std::vector<std::uint32_t>(begin, begin + c.candidates), expected) << m << " permutants, query " << q;
      const auto sampled = by_sample.begin() + static_cast<std::ptrdiff_t>(q) * c.candidates;
      std::sort(sampled, sampled + c.candidates);
      if (failed[q] != 0) continue;
      EXPECT_EQ(std::vector<std::uint32_t>(sampled, sampled + c.candidates), expected)
          << m << " permutants by a sample, query " << q;
    }
  }
}

}  // namespace
