// Thresholds that are guessed (src/cuda/search/filter/speculate.hpp) on the emulated device: equal bits whether guesses hold or not, where
// slots are too few for what passes, and where results stay on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda/search/propose.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace speculation {
namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

/// 1,100 rows of 12 columns: nine tiles, of which two are a sample of 16 groups.
constexpr std::int64_t dims = 12, rows = 1100;

/// Guesses of few neighbours from a small sample; most of them hold. besides: fewer make guesses that are too low, and -1000 all of them.
constexpr double mostly = 1.5, seldom = -1, never = -1000;
cuda::SpeculationRule guessing(double besides) {
  return {.least_k = 3, .any_k_queries = 0, .deviations = besides == mostly ? 1.0 : 0.0, .rows_besides = besides};
}

/// The search beside the CPU's answer, of guesses that hold and of those that do not.
void compare_speculating(const Points& corpus, const Points& queries, Ask ask, std::int64_t most_redone = 0) {
  ask.slots = 100;
  for (const double besides : {mostly, never}) {
    if (besides != never && sampled()) continue;
    SCOPED_TRACE("rows besides: " + std::to_string(besides));
    ask.speculation = guessing(besides);
    ask.on_device = besides == never;
    compare(corpus, queries, ask, most_redone);
  }
}

TEST(CudaSpeculation, GuessesThatHoldTakeOnePass) {
  const std::vector<float> corpus = gaussian(61, rows * dims), queries = gaussian(62, 20 * dims);
  Ask ask{.options = {.k = 4}, .slots = 100, .speculation = guessing(mostly)};
  const Answer got = by_device(view(corpus, dims), view(queries, dims), ask);
  EXPECT_EQ(got.launches.guessed, 1);
  EXPECT_EQ(got.launches.proved, 0);
  EXPECT_EQ(got.launches.gathered, 0);
  EXPECT_EQ(got.redone, 0);
  ask.speculation.least_k = 5;
  const Answer proved = by_device(view(corpus, dims), view(queries, dims), ask);
  EXPECT_EQ(proved.launches.guessed, 0);
  EXPECT_EQ(proved.launches.proved, 1);
  expect_same(got.result, proved.result);
}

TEST(CudaSpeculation, FewQueriesGuessFewNeighboursToo) {
  constexpr std::int64_t many = 3200;  // 25 tiles, of which four are a sample
  const std::vector<float> corpus = gaussian(63, many * dims), queries = gaussian(64, 20 * dims);
  for (const std::int64_t k : {1, 7}) {
    const Ask ask{.options = {.k = k}, .slots = 100, .speculation = {}};
    const Answer got = by_device(view(corpus, dims), view(queries, dims), ask);
    EXPECT_EQ(got.launches.guessed, k == 1 ? 1 : 0);  // of 7 the sample would not tell enough rows apart
    EXPECT_LE(got.used_bytes, got.planned_bytes);
    KnnOptions options = ask.options;
    options.run.device = "cpu";
    expect_same(got.result, knn(view(corpus, dims), view(queries, dims), options));
  }
}

TEST(CudaSpeculation, MissedQueriesSeeAllRowsAgain) {
  const std::vector<float> corpus = gaussian(61, rows * dims), queries = gaussian(62, 20 * dims);
  Ask ask{.options = {.k = 4, .first_id = 77}, .slots = 100};
  KnnOptions options = ask.options;
  options.run.device = "cpu";
  const Neighbors want = knn(view(corpus, dims), view(queries, dims), options);
  for (const bool on_device : {false, true}) {
    ask.on_device = on_device;
    ask.speculation = guessing(never);  // the nearest row of the sample
    const Answer all = by_device(view(corpus, dims), view(queries, dims), ask);
    expect_same(all.result, want);
    EXPECT_GT(all.launches.gathered, 10);
    EXPECT_EQ(all.launches.proved, 1);
    EXPECT_EQ(all.redone, 0);
    ask.speculation = guessing(seldom);
    const Answer some = by_device(view(corpus, dims), view(queries, dims), ask);
    expect_same(some.result, want);
    EXPECT_GT(some.launches.gathered, 0);
    EXPECT_LT(some.launches.gathered, 20);
    EXPECT_EQ(some.redone, 0);
    EXPECT_EQ(all.largest, some.largest);
    EXPECT_GT(all.largest, 0);
  }
}

TEST(CudaSpeculation, MissedQueriesOfLessThanABlockComeInWarps) {
  // 41 tiles, and 4,096 slots a query where thresholds are proved for 3,072 where they are guessed: 64 of 100 queries have room.
  constexpr std::int64_t more = 5200;
  const std::vector<float> corpus = gaussian(83, more * dims), queries = gaussian(84, 100 * dims);
  const Ask ask{.options = {.k = 50}, .slots = 300, .speculation = guessing(never)};
  const Answer got = by_device(view(corpus, dims), view(queries, dims), ask);
  EXPECT_EQ(got.launches.gathered, 100);
  EXPECT_EQ(got.launches.proved, 2);
  EXPECT_LE(got.used_bytes, got.planned_bytes);
  KnnOptions options = ask.options;
  options.run.device = "cpu";
  expect_same(got.result, knn(view(corpus, dims), view(queries, dims), options));
}

TEST(CudaSpeculation, AFirstPartOfTheTilesRefinesGuesses) {
  // 41 tiles, of which two are the sample of many queries and ten the first part.
  constexpr std::int64_t more = 5200;
  const std::vector<float> corpus = gaussian(78, more * dims), queries = gaussian(79, 130 * dims);
  for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine})
    for (const double besides : {mostly, seldom, never}) {
      const bool wgmma = metric == Metric::euclidean;
      if (sampled() && besides == seldom) continue;
      SCOPED_TRACE(std::string(metric_info(metric).name) + ", rows besides: " + std::to_string(besides));
      Ask ask{.options = {.k = 4, .metric = metric},
              .slots = 200,
              .on_device = besides == never,
              .wgmma = wgmma,
              .speculation = guessing(besides)};
      const Points asked = view(queries, dims).slice(0, wgmma ? 130 : 9);
      ask.speculation.least_reestimated = 3;
      const Answer reestimated = by_device(view(corpus, dims), asked, ask);
      EXPECT_EQ(reestimated.launches.guessed, 1);
      EXPECT_EQ(reestimated.launches.reestimated, 1);
      EXPECT_LE(reestimated.used_bytes, reestimated.planned_bytes);
      KnnOptions options = ask.options;
      options.run.device = "cpu";
      expect_same(reestimated.result, knn(view(corpus, dims), asked, options));
      if (besides != mostly) continue;
      ask.speculation.least_reestimated = 1000;
      const Answer once = by_device(view(corpus, dims), asked, ask);
      EXPECT_EQ(once.launches.reestimated, 0);
      expect_same(reestimated.result, once.result);
    }
  // A graph leaves the row itself out, and rows that may answer are some of all.
  GraphOptions graph;
  graph.search.k = 4;
  graph.search.run.device = "cpu";
  const Points nodes = view(corpus, dims).slice(0, 1300);
  Ask ask{.options = {.k = 4}, .slots = 200, .graph = true, .speculation = guessing(seldom)};
  ask.speculation.least_reestimated = 3;
  const Answer got = by_device(nodes, nodes.slice(0, 1300), ask);
  EXPECT_EQ(got.launches.reestimated, 1);
  expect_same(got.result, knn_graph(nodes, graph));
}

/// What a block of threads finds among `count` keys, of which each thread holds every so many-th.
struct KthOf {
  const std::uint32_t* keys;
  std::int64_t count;
  unsigned want;
  std::uint32_t* of_thread;
};
__global__ void kth_of(KthOf k) {
  VICINAL_SHARED(unsigned, scratch, cuda::BlockTotals::words);
  cuda::BlockTotals totals(scratch);
  k.of_thread[cuda::thread_index()] = cuda::block_kth_held(k.want, totals, [&](const auto& take) {
    for (std::int64_t i = cuda::thread_index(); i < k.count; i += cuda::thread_count()) take(k.keys[i]);
  });
}

// Of fewer keys than threads, of as many and of more; of one warp and of several; of numbers that are all alike, of both
// signs, and of some that are not finite; from the first to one more than there are.
TEST(CudaSpeculation, TheKthOfWhatThreadsHold) {
  std::mt19937 random(66);
  Device device;
  for (const int threads : {32, 64, 512})
    for (const std::int64_t count : {1, 31, 64, 200}) {
      for (const std::string kind : {"any", "alike", "some infinite", "none finite"}) {
        std::vector<std::uint32_t> keys;
        for (std::int64_t i = 0; i < count; ++i) {
          const float number = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 8;
          const bool finite = kind != "none finite" && (kind != "some infinite" || random() % 3 > 0);
          keys.push_back(cuda::ordered_t(!finite           ? std::numeric_limits<float>::infinity()
                                         : kind == "alike" ? 5.0F
                                                           : number));
        }
        std::vector<std::uint32_t> sorted = keys, of_thread(static_cast<std::size_t>(threads));
        sorted.push_back(cuda::ordered_t(std::numeric_limits<float>::infinity()));
        std::sort(sorted.begin(), sorted.end());
        for (const std::int64_t want : {std::int64_t{1}, std::int64_t{2}, count / 2, count, count + 1}) {
          if (want < 1 || want > count + 1) continue;
          device.launch()(1, threads, 0, kth_of, {keys.data(), count, static_cast<unsigned>(want), of_thread.data()});
          for (const std::uint32_t found : of_thread)
            ASSERT_EQ(cuda::t_of_ordered(found), cuda::t_of_ordered(sorted[static_cast<std::size_t>(want - 1)]))
                << kind << ", " << threads << " threads, " << want << " of " << count;
        }
      }
    }
}

TEST(CudaSpeculation, APartThatIsNoFairSampleLeavesAGuess) {
  // Fifty rows with distances sqrt(i), each in a tile of its own, or all in three groups of 16.
  constexpr std::int64_t count = 50, rank = 20;
  const auto reestimated = [&](bool apart, std::uint32_t found, double before, bool overflowed = false) {
    std::vector<cuda::TileMetadata> tiles(count);
    cuda::QuantizedQuery query{.norms = {}, .square = 100, .scale = 1};
    cuda::QueryState state;
    state.threshold_key = before;
    state.given_up = overflowed;
    std::vector<cuda::Slot> slots(64);
    for (std::int64_t i = 0; i < count; ++i)
      slots[static_cast<std::size_t>(i)] = {
          static_cast<std::uint32_t>(apart ? i * cuda::tile_rows + i % 7
                                           : cuda::row_of_group(static_cast<int>(i / 16), static_cast<int>(i % 16))),
          static_cast<float>(i) - 100};
    cuda::SearchArgs args{.rows = {},
                          .queries = {},
                          .model = cuda::model_of(Metric::euclidean, DistanceType::f32, 8, 1, Precision::int8),
                          .choice = {},
                          .visits = {}};
    args.rows.tile_metadata = tiles.data();
    args.queries.quantized = &query;
    args.states = &state;
    args.slots = slots.data();
    args.counts = &found;
    args.capacity = 64;
    Device device;
    device.launch()(1, cuda::reestimate_threads(rank), 64 * 4, cuda::reestimate_thresholds, {args, rank, 64});
    return state.threshold_key;
  };
  EXPECT_NEAR(reestimated(true, count, infinite), std::sqrt(19.0), 1e-6);
  EXPECT_NEAR(reestimated(true, count, 5.0), std::sqrt(19.0), 1e-6);
  EXPECT_EQ(reestimated(true, count, 4.0), 4.0);  // it never grows
  EXPECT_EQ(reestimated(true, rank - 1, 5.0), 5.0);
  EXPECT_EQ(reestimated(true, 65, 5.0), 5.0);  // more than slots hold
  EXPECT_EQ(reestimated(true, count, 5.0, true), 5.0);
  EXPECT_EQ(reestimated(false, count, 5.0), 5.0);
}

TEST(CudaSpeculation, ManyQueriesAreGuessedSooner) {
  const cuda::SpeculationRule rule;
  EXPECT_TRUE(rule.guesses(8, 4096, 128));
  EXPECT_FALSE(rule.guesses(7, 4096, 128));
  EXPECT_FALSE(rule.guesses(8, 4095, 128));
  EXPECT_FALSE(rule.guesses(8, 4096, 129));
  EXPECT_TRUE(rule.guesses(16, 4095, 128));
  EXPECT_TRUE(rule.guesses(12, 4095, 129));
}

TEST(CudaSpeculation, EveryMetricTypeAndForm) {
  std::int64_t number = 0;
  const std::vector<float> corpus = gaussian(63, rows * dims, 1), queries = gaussian(64, 6 * dims, 1);
  for (const MetricInfo& metric : metrics()) {
    if (!metric.vectors || !cuda::guesses(Precision::int8, filter_sum_of(metric.metric))) continue;
    if (sampled() && number++ % 2 != 0) continue;
    SCOPED_TRACE(std::string(metric.name));
    compare_speculating(view(corpus, dims), view(queries, dims), {.options = {.k = 4, .metric = metric.metric}});
  }
  std::mt19937 random(65);
  std::vector<std::uint8_t> bytes(rows * dims);
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  const Points whole(bytes.data(), DType::u8, rows, dims);
  compare_speculating(whole, whole.slice(700, 5), {.options = {.k = 4}});
  const std::vector<double> doubles(corpus.begin(), corpus.end());
  const Points wide(doubles.data(), DType::f64, rows, dims);
  compare_speculating(wide, wide.slice(30, 3), {.options = {.k = 4}});
  compare_speculating(view(corpus, dims), view(queries, dims), {.options = {.k = 4}, .packed_rows = 100});
}

TEST(CudaSpeculation, RowsThatBreakGuesses) {
  // Clusters of 20 to 300 rows, one size each, so that all of a cluster may lie in few tiles, and none or all of it in the sample.
  std::mt19937 random(66);
  std::vector<float> clusters, centre(dims);
  for (std::int64_t cluster = 0; static_cast<std::int64_t>(clusters.size()) < rows * dims; ++cluster) {
    const auto noise = gaussian(static_cast<unsigned>(100 + cluster), 300 * dims, 0, 1e-3);
    for (float& value : centre) value = static_cast<float>(random() % 2000) / 100 - 10;
    centre[0] = 12 + static_cast<float>(cluster) / 4;  // the largest element
    const std::int64_t members = 20 + static_cast<std::int64_t>(random() % 280);
    for (std::int64_t i = 0; i < members * dims; ++i)
      clusters.push_back(centre[static_cast<std::size_t>(i % dims)] + noise[static_cast<std::size_t>(i)]);
  }
  clusters.resize(rows * dims);
  compare_speculating(view(clusters, dims), view(clusters, dims).slice(600, 30), {.options = {.k = 4}}, 30);
  // Sorted rows, from near to far of the queries; rows that are equal, and ties at every threshold.
  std::vector<float> sorted(rows * dims), ties(rows * dims);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < dims; ++i) {
      sorted[static_cast<std::size_t>(row * dims + i)] = static_cast<float>(row) / 100 + static_cast<float>(i);
      ties[static_cast<std::size_t>(row * dims + i)] = static_cast<float>(random() % 2);
    }
  compare_speculating(view(sorted, dims), view(sorted, dims).slice(0, 4), {.options = {.k = 4}});
  compare_speculating(view(ties, dims), view(ties, dims).slice(10, 4), {.options = {.k = 4}}, 4);
  std::vector<float> equal(rows * dims, 1.0F);
  std::fill_n(equal.begin() + 300 * dims, 400 * dims, 2.0F);
  compare_speculating(view(equal, dims), view(equal, dims).slice(298, 4), {.options = {.k = 4}}, 4);
  // Tails: the largest row of the sample is far beyond what tells the others apart.
  std::vector<float> tails = gaussian(67, rows * dims);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      tails[static_cast<std::size_t>(row * dims + i)] *=
          1 + static_cast<float>(std::pow(static_cast<double>(row) / 150, 4.0));
  compare_speculating(view(tails, dims), view(tails, dims).slice(500, 9), {.options = {.k = 4}}, 9);
}

TEST(CudaSpeculation, ListsLongerThanWhatIsLeft) {
  const std::vector<float> corpus = gaussian(68, rows * dims), queries = gaussian(69, 4 * dims);
  // Eligible rows: some, fewer than are asked for, a run of them.
  std::vector<std::uint64_t> bitmap((rows + 63) / 64, 0x0101010101010101u), few((rows + 63) / 64, 0);
  few[3] = 0x7;
  KnnOptions options{.k = 4};
  options.eligible.bitmap = bitmap;
  compare_speculating(view(corpus, dims), view(queries, dims), {.options = options});
  options.eligible.bitmap = few;
  options.pad = true;
  compare_speculating(view(corpus, dims), view(queries, dims), {.options = options}, 4);
  KnnOptions run{.k = 4};
  run.eligible.first = 700;
  run.eligible.last = 800;
  compare_speculating(view(corpus, dims), view(queries, dims), {.options = run}, 4);
  // Chunks prove their thresholds; a graph leaves the row itself out.
  Ask ask{.options = {.k = 4}, .chunk = 640, .slots = 100, .speculation = guessing(mostly)};
  EXPECT_EQ(by_device(view(corpus, dims), view(queries, dims), ask).launches.guessed, 0);
  compare_speculating(view(corpus, dims), view(queries, dims), {.options = {.k = 4}, .chunk = 640});
  const Points some = view(corpus, 3);
  GraphOptions graph;
  graph.search.k = 4;
  graph.search.run.device = "cpu";
  const Points nodes = some.slice(0, rows);
  const Neighbors want = knn_graph(nodes, graph);
  const Answer got =
      by_device(nodes, nodes, {.options = {.k = 4}, .slots = 100, .graph = true, .speculation = guessing(seldom)});
  EXPECT_EQ(got.launches.guessed, 1);
  EXPECT_GT(got.launches.gathered, 0);
  expect_same(got.result, want);
}

TEST(CudaSpeculation, SlotsThatAreTooFew) {
  // Guesses take in more rows than there are slots; and more queries are missed than are searched again at a time.
  const std::vector<float> corpus = gaussian(70, rows * dims), queries = gaussian(71, 320 * dims);
  for (const bool many : {false, true}) {
    const Ask ask{
        .options = {.k = many ? 10 : 3},
        .slots = many ? 30 : 6,
        .on_device = !many,
        .speculation = {.least_k = 3, .any_k_queries = 0, .deviations = 0, .rows_besides = many ? never : 3.0}};
    KnnOptions options = ask.options;
    options.run.device = "cpu";
    const Points asked = view(queries, dims).slice(0, many ? 320 : 30);
    const Answer got = by_device(view(corpus, dims), asked, ask);
    EXPECT_EQ(got.launches.guessed, 1);
    EXPECT_GT(got.launches.gathered, many ? 256 : 0);
    EXPECT_LE(got.used_bytes, got.planned_bytes);
    expect_same(got.result, knn(view(corpus, dims), asked, options));
  }
}

TEST(CudaSpeculation, MissedQueriesThatAreLostAgainEscalate) {
  // 60 rows that int8 cannot tell apart are too many for the slots of a query, with any threshold.
  std::vector<float> corpus = gaussian(76, rows * dims);
  const std::vector<float> noise = gaussian(77, 60 * dims, 0, 1e-6);
  for (std::int64_t row = 1; row < 60; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      corpus[static_cast<std::size_t>(row * 17 * dims + i)] =
          corpus[static_cast<std::size_t>(i)] + noise[static_cast<std::size_t>(row * dims + i)];
  std::vector<float> queries;
  for (int i = 0; i < 300; ++i) queries.insert(queries.end(), corpus.begin(), corpus.begin() + dims);
  for (const std::int64_t count : {1, 300}) {  // of which the first 256 show that the others need not be tried
    const Points asked = view(queries, dims).slice(0, count);
    const Ask ask{.options = {.k = 3}, .slots = 9, .on_device = count > 1, .speculation = guessing(mostly)};
    const Answer got = by_device(view(corpus, dims), asked, ask);
    EXPECT_EQ(got.launches.gathered, count);
    EXPECT_EQ(got.redone, count);
    EXPECT_GE(got.largest, 0);
    KnnOptions options = ask.options;
    options.run.device = "cpu";
    expect_same(got.result, knn(view(corpus, dims), asked, options));
  }
}

TEST(CudaSpeculation, MissedQueriesKeepTheirNumbersInAnyOrder) {
  // By size they come as 0, 2, 1, 3: first and last are as far apart as if they were adjacent.
  const std::vector<float> corpus = gaussian(74, rows * dims), base = gaussian(75, dims);
  std::vector<float> queries;
  for (const float size : {1.0F, 1.4F, 1.2F, 1.6F})
    for (const float value : base) queries.push_back(size * value);
  for (const bool on_device : {false, true}) {
    const Ask ask{.options = {.k = 40}, .slots = 100, .on_device = on_device, .speculation = guessing(never)};
    const Answer got = by_device(view(corpus, dims), view(queries, dims), ask);
    EXPECT_EQ(got.launches.gathered, 4);
    KnnOptions options = ask.options;
    options.run.device = "cpu";
    expect_same(got.result, knn(view(corpus, dims), view(queries, dims), options));
  }
}

TEST(CudaSpeculation, WithoutTheCheckAnswersWouldBeWrong) {
  // What the check is for: results that stay on the device are never compared with their bounds.
  const std::vector<float> corpus = gaussian(61, rows * dims), queries = gaussian(62, 20 * dims);
  Ask ask{.options = {.k = 4}, .slots = 100, .on_device = true, .speculation = guessing(seldom)};
  ask.unchecked = true;
  KnnOptions options = ask.options;
  options.run.device = "cpu";
  const Neighbors want = knn(view(corpus, dims), view(queries, dims), options);
  bool wrong = false;
  try {
    const Answer got = by_device(view(corpus, dims), view(queries, dims), ask);
    wrong = !std::equal(got.result.ids(), got.result.ids() + want.rows() * want.k(), want.ids());
  } catch (const Error&) {
    wrong = true;  // a list that is too short
  }
  EXPECT_TRUE(wrong);
}

TEST(CudaSpeculation, ADistanceBeyondFloatIsRefusedAsItIsWithoutAGuess) {
  // All but two rows are beyond f32 of every query: with a guess that only those two are within, the third neighbour is still refused.
  std::vector<float> corpus = gaussian(72, rows * dims);
  const std::vector<float> queries = gaussian(73, 2 * dims);
  for (std::int64_t row = 2; row < rows; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      corpus[static_cast<std::size_t>(row * dims + i)] = (row + i) % 2 == 0 ? 3e38F : -3e38F;
  for (const double besides : {mostly, never})
    for (const bool on_device : {false, true}) {
      const Ask ask{.options = {.k = 3}, .slots = 100, .on_device = on_device, .speculation = guessing(besides)};
      EXPECT_THROW(by_device(view(corpus, dims), view(queries, dims), ask), Error);
    }
}

TEST(CudaSpeculation, MemoryOfLongListsIsAThirdOfWhatProvedOnesTake) {
  Plan plan;
  plan.cascade = {"int8", "canonical"};
  plan.corpus_chunk = 1 << 20;
  plan.query_batch = 10240;
  plan.candidate_slots = 6532;  // of 1,000 neighbours
  const ProblemShape kept{.corpus = {1 << 20, 128, DType::f32, true},
                          .queries = {10240, 128, DType::f32, true},
                          .k = 1000,
                          .prepared = true};
  ProblemShape eligible = kept;
  eligible.filter_bytes = 1;
  EXPECT_LT(3 * cuda::session_bytes(plan, kept, 0, 132), 2 * cuda::session_bytes(plan, eligible, 0, 132));
}

TEST(CudaSpeculation, WhatMissedQueriesTakeIsWhatAllOfThemTook) {
  const cuda::Speculation guessed{.small_batch = {512, 100}, .slots = 20540};  // of 4,096 neighbours
  constexpr std::int64_t slots = 100432, workers = 132 * 8;
  const std::int64_t some = cuda::repeated_batch(1000, slots, guessed);
  EXPECT_EQ(some, 192);
  EXPECT_EQ(cuda::batch_slots(1000, slots, guessed), 1000 * guessed.slots);
  EXPECT_LE(cuda::candidate_entries(some, slots, workers),
            cuda::candidate_entries(1000, guessed.slots, workers, true, true));
  // A warp of them would ask for more, of which it has half at least, whatever batch it is of.
  const std::int64_t of_warp = cuda::candidate_entries(32, slots, workers);
  EXPECT_LT(cuda::speculative_entries(1000, slots, guessed, true, workers), of_warp);
  for (const std::int64_t batch : {32, 33, 129, 160, 700, 1000, 10240})
    EXPECT_GE(2 * cuda::speculative_entries(batch, slots, guessed, true, workers), of_warp) << batch;
}

}  // namespace
}  // namespace speculation
