// Whole searches of a permutation index: with all objects as candidates, or in exact mode, the bits of the exact search; with a share
// of them what a full sort of scores and canonical distances gives; any threads and instruction set; recall as it was promised.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "core/visit_order.hpp"
#include "permutation/permutants.hpp"
#include "permutation/search.hpp"
#include "unit/permutation/sorted_scores.hpp"
#include "vicinal/error.hpp"
#include "vicinal/permutation_index.hpp"
#include "vicinal/search.hpp"

namespace permutation_index {
namespace {

using namespace vicinal;

/// Clusters, so that there are neighbours; every 7th row is a copy of another.
std::vector<float> rows_of(unsigned seed, std::int64_t count, std::int64_t dims) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centres(static_cast<std::size_t>(8 * dims)), rows(static_cast<std::size_t>(count * dims));
  std::mt19937 same(99);
  for (float& value : centres) value = 2 * normal(same);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t centre = static_cast<std::int64_t>(random() % 8);
    for (std::int64_t i = 0; i < dims; ++i)
      rows[static_cast<std::size_t>(row * dims + i)] =
          centres[static_cast<std::size_t>(centre * dims + i)] + normal(random);
    if (row % 7 == 6) std::copy_n(rows.begin() + (row - 5) * dims, dims, rows.begin() + row * dims);
  }
  return rows;
}
MatrixView<float> view(const std::vector<float>& rows, std::int64_t dims) {
  return {rows.data(), static_cast<std::int64_t>(rows.size()) / dims, dims};
}
StringList words(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<std::string> all;
  while (all.size() < count) {
    std::string text = all.empty() || random() % 3 == 0 ? "" : all[random() % all.size()];
    for (unsigned changes = 1 + static_cast<unsigned>(random() % 4); changes > 0 || text.empty();
         changes -= changes > 0)
      random() % 3 == 0 && !text.empty()
          ? void(text[random() % text.size()] = static_cast<char>('a' + random() % 5))
          : void(text += static_cast<char>(random() % 9 == 0 ? ' ' : 'a' + random() % 5));
    all.push_back(text);
  }
  return {std::vector<std::string_view>(all.begin(), all.end()), Encoding::utf8};
}

void expect_same(const Neighbors& a, const Neighbors& b, const std::string& what) {
  ASSERT_EQ(a.rows(), b.rows()) << what;
  ASSERT_EQ(a.k(), b.k()) << what;
  ASSERT_EQ(a.type(), b.type()) << what;
  for (std::int64_t row = 0; row < a.rows(); ++row)
    for (std::int64_t i = 0; i < a.k(); ++i) {
      ASSERT_EQ(a.id(row, i), b.id(row, i)) << what << " query " << row << " rank " << i;
      ASSERT_EQ(a.distance(row, i), b.distance(row, i)) << what << " query " << row << " rank " << i;
    }
}
void expect_same(const CsrNeighbors& a, const CsrNeighbors& b, const std::string& what) {
  ASSERT_EQ(a.entries(), b.entries()) << what;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    ASSERT_EQ(a.count(row), b.count(row)) << what << " query " << row;
    for (std::int64_t i = 0; i < a.count(row); ++i) {
      ASSERT_EQ(a.id(row, i), b.id(row, i)) << what;
      ASSERT_EQ(a.distance(row, i), b.distance(row, i)) << what;
    }
  }
}

TEST(PermutationIndex, WithEverythingOrExactlyGivesTheBitsOfTheExactSearch) {
  constexpr std::int64_t dims = 9;
  const std::vector<float> corpus = rows_of(1, 700, dims), queries = rows_of(2, 12, dims);
  std::vector<std::uint8_t> bits(700 * dims), asked(12 * dims);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint8_t>(std::fabs(corpus[i]) * 7);
  for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = static_cast<std::uint8_t>(std::fabs(queries[i]) * 7);
  for (const MetricInfo& info : metrics()) {
    if (!info.vectors) continue;
    const bool packed = info.metric == Metric::hamming;
    const Points base = packed ? Points(bits.data(), DType::u8, 700, dims) : Points(view(corpus, dims));
    const Points ask = packed ? Points(asked.data(), DType::u8, 12, dims) : Points(view(queries, dims));
    const PermutationIndex index(base, {.metric = info.metric, .permutants = 20});
    for (const DistanceType type : {DistanceType::automatic, DistanceType::f64}) {
      if (packed && type == DistanceType::f64) continue;
      const std::string what = std::string(info.name) + " as " + distance_type_name(type);
      const Neighbors exact = knn(base, ask, {.k = 6, .metric = info.metric, .distance_type = type});
      expect_same(index.knn(ask, {.k = 6, .fraction = 1.0, .distance_type = type}).neighbors, exact, what);
      const PermutationNeighbors bounded = index.knn(ask, {.k = 6, .exact = true, .distance_type = type});
      expect_same(bounded.neighbors, exact, what + " exactly");
      EXPECT_EQ(bounded.recall.low, 1);
      if (info.metric == Metric::euclidean) {
        EXPECT_LT(bounded.neighbors.stats.reranked, bounded.neighbors.stats.pairs / 2);
      }
      const double radius = exact.distance(3, 4);
      const CsrNeighbors within =
          range_search(base, ask, radius, {.search = {.metric = info.metric, .distance_type = type}});
      expect_same(index.range(ask, radius, {.fraction = 1.0, .distance_type = type}).neighbors, within, what);
      expect_same(index.range(ask, radius, {.exact = true, .distance_type = type}).neighbors, within,
                  what + " exactly");
    }
  }
}

TEST(PermutationIndex, StringsToo) {
  const StringList corpus = words(3, 600), queries = words(4, 9);
  for (const Metric metric : {Metric::levenshtein, Metric::normalized_levenshtein, Metric::jaccard}) {
    const std::string what(metric_info(metric).name);
    const PermutationIndex index(corpus.view(), {.metric = metric, .permutants = 12});
    const Neighbors exact = knn(corpus.view(), queries.view(), {.k = 5, .metric = metric});
    expect_same(index.knn(queries.view(), {.k = 5, .fraction = 1.0}).neighbors, exact, what);
    expect_same(index.knn(queries.view(), {.k = 5, .exact = true}).neighbors, exact, what + " exactly");
    const double radius = exact.distance(1, 4);
    expect_same(index.range(queries.view(), radius, {.exact = true}).neighbors,
                range_search(corpus.view(), queries.view(), radius, {.search = {.metric = metric}}), what + " range");
  }
  const std::vector<std::string_view> fixed = {"abcd", "abce", "zzzz", "abzz", "abcd"};
  const StringList same(fixed);
  const PermutationIndex index(same.view(), {.metric = Metric::hamming, .permutants = 3});
  const StringList query(
      std::vector<std::string_view>{"ab\xC3\xA9"
                                    "d"});
  expect_same(index.knn(query.view(), {.k = 3, .exact = true}).neighbors,
              knn(same.view(), query.view(), {.k = 3, .metric = Metric::hamming}), "hamming");
}

/// Every stage by sorting: permutants by distance, objects by score, candidates by distance.
TEST(PermutationIndex, AShareIsWhatAFullSortGives) {
  constexpr std::int64_t dims = 5, count = 300, k = 4;
  const std::vector<float> corpus = rows_of(5, count, dims), queries = rows_of(6, 6, dims);
  for (const RankForm form : {RankForm::ranks, RankForm::prefix, RankForm::bits, RankForm::components}) {
    for (const PermutantChoice choice :
         {PermutantChoice::random, PermutantChoice::farthest_first, PermutantChoice::sss}) {
      const PermutationIndex index(view(corpus, dims), {.permutants = 17, .choice = choice, .seed = 5, .form = form});
      const std::vector<std::int64_t>& permutants = index.permutants();
      ASSERT_EQ(permutants.size(), 17u);
      // All distances, from the exact search at full width.
      std::vector<float> seen_from;
      for (const std::int64_t p : permutants)
        seen_from.insert(seen_from.end(), corpus.begin() + p * dims, corpus.begin() + (p + 1) * dims);
      const auto table = [&](const std::vector<float>& rows) {
        const Neighbors all =
            knn(view(seen_from, dims), view(rows, dims), {.k = 17, .distance_type = DistanceType::f64});
        std::vector<std::vector<double>> distances(static_cast<std::size_t>(all.rows()), std::vector<double>(17));
        for (std::int64_t row = 0; row < all.rows(); ++row)
          for (std::int64_t i = 0; i < 17; ++i)
            distances[static_cast<std::size_t>(row)][static_cast<std::size_t>(all.id(row, i))] = all.distance(row, i);
        return distances;
      };
      const auto objects = table(corpus), asked = table(queries);
      RankLayout layout(RankDistance::footrule, form, 17, 0);
      if (form == RankForm::components) {
        std::vector<double> sampled;
        const VisitOrder order(count);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::vector<double>& one = objects[static_cast<std::size_t>(order.at(i))];
          sampled.insert(sampled.end(), one.begin(), one.end());
        }
        ThreadPool thread_pool(1, nullptr, {}, 0);
        layout.components = std::make_shared<const Components>(17, sampled.data(), count, thread_pool);
      }
      const Neighbors everything = knn(view(corpus, dims), view(queries, dims), {.k = count});
      const PermutationNeighbors found = index.knn(view(queries, dims), {.k = k, .fraction = 0.1});
      OrderWriter writer(layout);
      std::vector<std::uint8_t> rows(static_cast<std::size_t>(count * layout.stride));
      for (std::int64_t i = 0; i < count; ++i)
        writer.write(objects[static_cast<std::size_t>(i)].data(), rows.data() + i * layout.stride);
      for (std::int64_t q = 0; q < 6; ++q) {
        RankScorer scorer(layout, cpu::scores_plain);
        scorer.start(asked[static_cast<std::size_t>(q)].data());
        std::vector<std::uint32_t> scores(count);
        scorer.score(rows.data(), count, scores.data());
        const std::vector<std::uint32_t> chosen = first_by_score(scores, 30);
        std::int64_t rank = 0;
        for (std::int64_t i = 0; i < count && rank < k; ++i) {
          if (std::find(chosen.begin(), chosen.end(), static_cast<std::uint32_t>(everything.id(q, i))) == chosen.end())
            continue;
          EXPECT_EQ(found.neighbors.id(q, rank), everything.id(q, i));
          EXPECT_EQ(found.neighbors.distance(q, rank++), everything.distance(q, i));
        }
        EXPECT_EQ(rank, k);
      }
    }
  }
}

TEST(PermutationIndex, BitsDoNotDependOnThreadsOrInstructionSet) {
  constexpr std::int64_t dims = 12;
  const std::vector<float> corpus = rows_of(7, 3000, dims), queries = rows_of(8, 40, dims);
  for (const RankForm form : {RankForm::ranks, RankForm::components}) {
    const auto run = [&](int threads, const char* set) {
      const Execution execution{.threads = threads, .instruction_set = set};
      const PermutationIndex index(view(corpus, dims),
                                   {.permutants = 24, .choice = PermutantChoice::sss, .form = form, .run = execution});
      return index.knn(view(queries, dims), {.k = 7, .recall = 0.9, .run = execution});
    };
    const PermutationNeighbors one = run(1, "auto");
    for (const auto& [threads, set] : {std::pair{2, "auto"}, {5, "plain"}}) {
      const PermutationNeighbors other = run(threads, set);
      EXPECT_EQ(one.fraction, other.fraction);
      EXPECT_EQ(one.recall.value, other.recall.value);
      expect_same(one.neighbors, other.neighbors, set);
    }
  }
}

/// Few queries over many objects: threads share each of them, and look at the same objects as one thread does.
TEST(PermutationIndex, ThreadsThatShareAQueryGiveItsBits) {
  constexpr std::int64_t dims = 12, count = 40000;
  const std::vector<float> corpus = rows_of(17, count, dims), queries = rows_of(18, 3, dims);
  const StringList strings = words(19, 5000), texts = words(20, 2);
  ASSERT_TRUE(shares_queries(count, 3, 2) && shares_queries(5000, 2, 5) && !shares_queries(count, 3, 1));
  const auto same = [&](const auto& find, const std::string& what) {
    const auto one = find(1);
    for (const int threads : {2, 5}) {
      const auto several = find(threads);
      expect_same(one.neighbors, several.neighbors, what);
      EXPECT_EQ(one.neighbors.stats.candidates, several.neighbors.stats.candidates) << what;
      EXPECT_EQ(one.neighbors.stats.reranked, several.neighbors.stats.reranked) << what;
    }
  };
  for (const Metric metric : {Metric::euclidean, Metric::inner_product}) {
    for (const RankDistance ranks : {RankDistance::footrule, RankDistance::rho, RankDistance::kendall}) {
      const PermutationIndex index(view(corpus, dims), {.metric = metric, .permutants = 24, .rank_distance = ranks});
      const std::string what = std::string(metric_info(metric).name) + " " + rank_distance_name(ranks);
      const auto knn_as = [&](PermutationSearch search) {
        return [&index, &queries, search](int threads) {
          PermutationSearch how = search;
          how.run.threads = threads;
          return index.knn(view(queries, dims), how);
        };
      };
      same(knn_as({.k = 9, .fraction = 0.03}), what);
      if (ranks != RankDistance::footrule) continue;
      same(knn_as({.k = 9, .exact = true}), what + " exactly");
      same(
          [&](int threads) {
            return index.range(view(queries, dims), 9.0, {.exact = true, .run = {.threads = threads}});
          },
          what + " range");
    }
  }
  const PermutationIndex index(strings.view(),
                               {.metric = Metric::levenshtein, .permutants = 12, .form = RankForm::prefix});
  same([&](int threads) { return index.knn(texts.view(), {.k = 5, .fraction = 0.1, .run = {.threads = threads}}); },
       "strings");
  same([&](int threads) { return index.knn(texts.view(), {.k = 5, .exact = true, .run = {.threads = threads}}); },
       "strings exactly");
}

TEST(PermutationIndex, BudgetsChangeNoBitAndAreKnownBeforehand) {
  constexpr std::int64_t dims = 8, count = 20000;
  const std::vector<float> corpus = rows_of(21, count, dims), queries = rows_of(22, 60, dims);
  const PermutationOptions options{.permutants = 16, .run = {.threads = 3}};
  const PermutationPlan built = PermutationIndex::plan_build({count, dims, DType::f32}, options);
  const PermutationIndex index(view(corpus, dims), options);
  EXPECT_GE(built.prepared_bytes, index.bytes());
  EXPECT_LT(built.minimum_bytes, built.peak_bytes);
  PermutationOptions least = options, less = options;
  least.memory.host = built.minimum_bytes;
  less.memory.host = built.minimum_bytes - 1;
  EXPECT_EQ(PermutationIndex::plan_build({count, dims, DType::f32}, least).threads, 1);
  EXPECT_EQ(PermutationIndex(view(corpus, dims), least).permutants(), index.permutants());
  const auto refused = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.code() == ErrorCode::memory_budget;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] { PermutationIndex(view(corpus, dims), less); }));
  for (const PermutationSearch& search : {PermutationSearch{.k = 7, .fraction = 0.02},
                                          {.k = 7, .exact = true},
                                          {.k = 7, .recall = 0.9},
                                          {.k = 7, .recall = 0.9, .tune_on = TuneOn::queries}}) {
    PermutationSearch wide = search;
    wide.run.threads = 3;
    const PermutationPlan plan = index.plan(60, wide);
    const PermutationNeighbors all = index.knn(view(queries, dims), wide);
    EXPECT_EQ(all.neighbors.stats.planned_bytes, plan.peak_bytes);
    EXPECT_LT(plan.minimum_bytes, plan.peak_bytes);
    PermutationSearch narrow = wide;
    for (const std::int64_t bytes : {plan.minimum_bytes, (plan.minimum_bytes + plan.peak_bytes) / 2}) {
      narrow.memory.host = bytes;
      EXPECT_LE(index.plan(60, narrow).peak_bytes, bytes);
      expect_same(index.knn(view(queries, dims), narrow).neighbors, all.neighbors, index.plan(60, narrow).text());
    }
    narrow.memory.host = plan.minimum_bytes - 1;
    EXPECT_TRUE(refused([&] { index.knn(view(queries, dims), narrow); }));
    EXPECT_TRUE(refused([&] { index.plan(60, narrow); }));
  }
}

TEST(PermutationIndex, NoMoreThanAThirdOfTheQueriesIsMeasuredByDefault) {
  for (const double target : {0.01, 0.9, 0.95, 0.99, 0.999}) {
    const std::int64_t least = least_to_tune_on(target);
    EXPECT_LE(3 * measured_for(target, least), least) << target;
    EXPECT_LT(measured_for(target, 100 * least), 2 * least) << target;
  }
  EXPECT_EQ(measured_for(0.9, 30), 30);
  EXPECT_EQ(measured_for(0.9, 1000), 90);
}

TEST(PermutationIndex, RecallIsWhatWasPromised) {
  constexpr std::int64_t dims = 16, k = 10;
  const std::vector<float> corpus = rows_of(9, 4000, dims), queries = rows_of(10, 500, dims);
  const PermutationIndex index(view(corpus, dims), {.permutants = 32});
  const Neighbors truth = knn(view(corpus, dims), view(queries, dims), {.k = k});
  for (const double target : {0.5, 0.9, 0.99}) {  // the last of objects, since 500 queries are few for it
    const PermutationNeighbors found = index.knn(view(queries, dims), {.k = k, .recall = target});
    EXPECT_EQ(found.recall.of_queries, target < 0.99);
    std::int64_t hits = 0;
    for (std::int64_t q = 0; q < 500; ++q)
      for (std::int64_t i = 0; i < k; ++i) hits += found.neighbors.distance(q, i) <= truth.distance(q, k - 1);
    const double recall = static_cast<double>(hits) / (500 * k);
    EXPECT_GE(found.recall.value, target);
    EXPECT_LE(found.recall.low, found.recall.value);
    EXPECT_NEAR(recall, found.recall.value, 3 * (found.recall.high - found.recall.low) + 0.01);
    EXPECT_LT(found.fraction, 1);
    const std::int64_t candidates = found.neighbors.stats.candidates / 500;
    EXPECT_EQ(candidates, std::lround(found.fraction * 4000));
  }
  const PermutationTuning tuned = index.tune({.k = k, .fraction = 0.1});
  EXPECT_GT(tuned.recall.value, 0.5);
  EXPECT_GT(tuned.gain(), 0);
}

TEST(PermutationIndex, SmallSetsAndBadArguments) {
  const std::vector<float> corpus = rows_of(11, 6, 3);
  const auto refused = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      return std::string(error.what());
    }
    ADD_FAILURE() << "nothing was thrown";
    return std::string();
  };
  const PermutationIndex index(view(corpus, 3), {.permutants = 6});
  for (const std::int64_t k : {1, 5, 6}) {
    const Neighbors exact = knn(view(corpus, 3), view(corpus, 3), {.k = k});
    expect_same(index.knn(view(corpus, 3), {.k = k, .recall = 0.99}).neighbors, exact, "recall");
    expect_same(index.knn(view(corpus, 3), {.k = k, .exact = true}).neighbors, exact, "exact");
  }
  EXPECT_EQ(index.knn(MatrixView<float>{corpus.data(), 0, 3}, {.k = 2}).neighbors.rows(), 0);
  EXPECT_NE(refused([&] {
              PermutationIndex(view(corpus, 3), {.permutants = 64});
            }).find("permutants=64 exceeds the 6 objects"),
            std::string::npos);
  EXPECT_EQ(PermutationIndex(view(corpus, 3), {}).permutants().size(), 6u);  // unless a number is asked for
  refused([&] { PermutationIndex(view(corpus, 3), {.permutants = 0}); });
  refused([&] { PermutationIndex(view(corpus, 3), {.choice = PermutantChoice::given, .given = {1, 1}}); });
  refused([&] { PermutationIndex(view(corpus, 3), {.choice = PermutantChoice::given, .given = {6}}); });
  refused([&] { PermutationIndex(view(corpus, 3), {.permutants = 3, .given = {1}}); });
  refused([&] {
    PermutationIndex(view(corpus, 3),
                     {.permutants = 3, .rank_distance = RankDistance::kendall, .form = RankForm::prefix});
  });
  refused([&] { PermutationIndex(MatrixView<float>{corpus.data(), 0, 3}, {}); });
  refused([&] { index.knn(view(corpus, 3), {.k = 7}); });
  refused([&] { index.knn(view(corpus, 3), {.k = 0}); });
  refused([&] { index.knn(view(corpus, 3), {.k = 2, .recall = 0.9, .exact = true}); });
  refused([&] { index.knn(view(corpus, 3), {.k = 2, .fraction = 0.0}); });
  refused([&] { index.knn(view(corpus, 3), {.k = 2, .recall = 1.5}); });
  refused([&] { index.range(view(corpus, 3), std::nan("")); });
  refused([&] { index.knn(words(1, 2).view(), {.k = 2}); });
  refused([&] { parse_rank_form("bit"); });
  const PermutationIndex given(view(corpus, 3), {.choice = PermutantChoice::given, .given = {4, 1}});
  EXPECT_EQ(given.permutants(), (std::vector<std::int64_t>{4, 1}));
  // Nothing but copies: farthest_first and sss must end.
  const std::vector<float> equal(30, 1.0F);
  for (const PermutantChoice choice : {PermutantChoice::farthest_first, PermutantChoice::sss})
    EXPECT_EQ(PermutationIndex(view(equal, 3), {.permutants = 10, .choice = choice}).permutants().size(), 10u);
  // Nor do distances end sss that are all negative: products of rows of positive numbers, folded.
  std::mt19937 random(9);
  std::vector<float> positive(300 * 5);
  for (float& value : positive) value = static_cast<float>(40 + random() % 9);
  EXPECT_EQ(
      PermutationIndex(view(positive, 5),
                       {.metric = vicinal::Metric::inner_product, .permutants = 30, .choice = PermutantChoice::sss})
          .permutants()
          .size(),
      30u);
}

TEST(PermutationIndex, ObjectsAtInfiniteDistancesAreRefusedHoweverPermutantsAreChosen) {
  std::vector<double> rows(64);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = (i % 2 == 0 ? 1e200 : -1e199) * static_cast<double>(i + 1);
  const vicinal::Points points(rows.data(), vicinal::DType::f64, 32, 2);
  for (const auto choice : {PermutantChoice::random, PermutantChoice::farthest_first, PermutantChoice::sss})
    EXPECT_THROW(PermutationIndex(points, {.metric = vicinal::Metric::sqeuclidean, .permutants = 8, .choice = choice}),
                 vicinal::Error);
}

}  // namespace
}  // namespace permutation_index
