// A whole search of vectors by the device's code, on the emulator: src/cuda/search/session.hpp with memory of the host, held against
// the CPU's answers, bit by bit. Kernels and their order are the device's; only the stand-alone selection is a sort.
#include <gtest/gtest.h>

#include <random>

#include "cuda/search/filter/self_test.cuh"
#include "cuda/search/propose.hpp"
#include "cuda/search/seconds.hpp"
#include "cuda/select/merge.cuh"
#include "kernels/bounds.hpp"
#include "unit/cuda/emulated_search.hpp"
#include "vicinal/search.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

TEST(CudaSearch, EveryMetricOfEveryWidth) {
  std::int64_t number = 0;
  for (const std::int64_t dims : {5, 100, 140}) {
    const std::vector<float> corpus = gaussian(1, 300 * dims, 3), queries = gaussian(2, 7 * dims, 3);
    for (const MetricInfo& metric : metrics()) {
      if (!metric.vectors || filter_sum_of(metric.metric) == Sum::none) continue;
      if (sampled() && number++ % 3 != 0) continue;  // 7 metrics: each once
      SCOPED_TRACE(std::string(metric.name) + ", " + std::to_string(dims) + " columns");
      compare(view(corpus, dims), view(queries, dims), {.options = {.k = 7, .metric = metric.metric}});
    }
  }
}

TEST(CudaSearch, ThresholdsOfASample) {
  // More tiles than slots hold, so that thresholds are seeded and tightened in between.
  const std::int64_t dims = 40;
  const std::vector<float> corpus = gaussian(3, 3000 * dims, 1e6), queries = gaussian(4, 130 * dims, 1e6);
  for (const std::int64_t k : {1, 10})
    if (k == 10 || !sampled()) compare(view(corpus, dims), view(queries, dims), {.options = {.k = k}, .slots = 60});
}

TEST(CudaSearch, WholeNumbersTiesAndDuplicates) {
  std::mt19937 random(5);
  const std::int64_t dims = 24;
  std::vector<float> corpus(1000 * dims), queries(9 * dims);
  for (float& value : corpus) value = static_cast<float>(random() % 3);
  for (float& value : queries) value = static_cast<float>(random() % 3);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 50}, .slots = 100});
  std::vector<std::uint8_t> bytes(500 * dims), asked(5 * dims);
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  for (std::uint8_t& value : asked) value = static_cast<std::uint8_t>(random());
  compare(Points(bytes.data(), DType::u8, 500, dims), Points(asked.data(), DType::u8, 5, dims),
          {.options = {.k = 12, .metric = Metric::sqeuclidean}});
  compare(Points(bytes.data(), DType::u8, 500, dims), Points(asked.data(), DType::u8, 5, dims),
          {.options = {.k = 12, .metric = Metric::hamming}, .filter = false});
  // Equal rows overflow no list: but for the first of each kind they are left out.
  std::fill(corpus.begin(), corpus.end(), 1.0F);
  std::fill_n(corpus.begin() + 300 * dims, 400 * dims, 2.0F);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 10}, .slots = 100}, 0);
  compare(view(corpus, dims), Points(corpus.data(), DType::f32, 1000, dims).slice(298, 4),
          {.options = {.k = 10}, .slots = 100, .precision = Precision::f32}, 0);
}

TEST(CudaSearch, SumsOfBytesAreCanonical) {
  // Rows whose lines are read 16, 4 and 1 bytes at a time, signed and not, with the extremes in them.
  std::mt19937 random(19);
  std::int64_t number = 0;
  for (const std::int64_t dims : {48, 20, 7})
    for (const DType type : {DType::u8, DType::i8}) {
      std::vector<std::uint8_t> rows(400 * dims), asked(6 * dims);
      const auto fill = [&](std::vector<std::uint8_t>& bytes) {
        for (std::uint8_t& value : bytes)
          value = static_cast<std::uint8_t>(random() % 4 == 0 ? (random() % 2 == 0 ? 0x80 : 0x7f) : random());
      };
      fill(rows);
      fill(asked);
      for (const MetricInfo& metric : metrics()) {
        if (!metric.vectors || metric.metric == Metric::hamming) continue;
        if (sampled() && number++ % 4 != 0) continue;
        SCOPED_TRACE(std::string(metric.name) + " " + std::to_string(dims));
        compare(Points(rows.data(), type, 400, dims), Points(asked.data(), type, 6, dims),
                {.options = {.k = 9, .metric = metric.metric}});
      }
    }
}

TEST(CudaSearch, EveryPairOfShortRowsInRegisters) {
  // Queries that take more than one tile of shared memory, rows that are no multiple of a warp's, columns that end within 32.
  std::int64_t number = 0;
  for (const std::int64_t dims : {128, 100, 5}) {
    const std::int64_t asked = dims == 128 ? 101 : 9, rows = 517;
    const std::vector<float> corpus = gaussian(61, rows * dims, 1), queries = gaussian(62, asked * dims, 1);
    std::vector<double> wide(corpus.begin(), corpus.end()), some(queries.begin(), queries.end());
    std::vector<std::uint8_t> bytes(wide.size()), few(some.size());
    std::transform(wide.begin(), wide.end(), bytes.begin(), [](double x) { return static_cast<int>(40 * x) & 255; });
    std::transform(some.begin(), some.end(), few.begin(), [](double x) { return static_cast<int>(40 * x) & 255; });
    for (const MetricInfo& metric : metrics()) {
      if (!metric.vectors || (sampled() && number++ % 3 != 0)) continue;
      if (dims == 128 && metric.metric != Metric::correlation) continue;
      SCOPED_TRACE(std::string(metric.name) + " " + std::to_string(dims));
      const Ask ask{.options = {.k = 6, .metric = metric.metric}, .filter = false, .multiprocessors = 1};
      compare(Points(bytes.data(), DType::u8, rows, dims), Points(few.data(), DType::u8, asked, dims), ask);
      if (metric.metric == Metric::hamming) continue;
      compare(view(corpus, dims), view(queries, dims), ask);
      if (dims == 100)
        compare(Points(wide.data(), DType::f64, rows, dims), Points(some.data(), DType::f64, asked, dims), ask);
    }
  }
}

TEST(CudaSearch, KeptCopiesAreNeighboursOfLongerLists) {
  // 120 of each of ten rows: so many that most of them are left out of shorter lists than were asked of what is kept.
  const std::int64_t dims = 8, kinds = 10, k = 100;
  const std::vector<float> kind = gaussian(18, kinds * dims);
  std::vector<float> rows;
  std::mt19937 random(18);
  for (int i = 0; i < 1200; ++i) {
    const auto which = static_cast<std::int64_t>(random() % kinds);
    rows.insert(rows.end(), kind.begin() + which * dims, kind.begin() + (which + 1) * dims);
  }
  const Points corpus = view(rows, dims), queries = corpus.slice(500, 3);
  SearchSpec spec{.corpus = corpus, .k = 10};
  Plan plan;
  plan.cascade = {"int8", "canonical"};
  plan.candidate_slots = 500;
  plan.query_batch = queries.rows;
  plan.corpus_chunk = corpus.rows;
  plan.threads = 1;
  ThreadPool thread_pool(1, nullptr, {}, 1);
  Device device;
  Stats stats;
  const auto kept = cuda::CudaSession<Device>::keep(device, spec, plan, thread_pool);
  ASSERT_TRUE(kept->transform.duplicates);
  spec.k = k;
  Neighbors got(queries.rows, k, spec.type, false);
  std::vector<double> verified_radius(3), largest(3);
  {
    cuda::CudaSession<Device> session(device, spec, plan, Precision::int8, kept, thread_pool, stats);
    session.prepare_queries(queries, QueryRows::run(0, 3));
    session.filter();
    session.select();
    session.rerank();
    session.finish(got.view(), {verified_radius.data(), largest.data()});
  }
  KnnOptions options{.k = k};
  options.run.device = "cpu";
  expect_same(got, knn(corpus, queries, options));
}

TEST(CudaSearch, RowsOfNobodyAreExcludedBeforeAThresholdIsKnown) {
  // The sample has too few rows that may answer, so the first part is filtered without a threshold: but for masked rows all would pass.
  const std::int64_t dims = 2, copies = 5120;
  std::vector<float> same(copies * dims, 1.0F);
  for (std::int64_t row = 0; row < copies; row += 1280) same[static_cast<std::size_t>(row * dims)] = 2;
  compare(view(same, dims), view(same, dims).slice(0, 1), {.options = {.k = 40}, .slots = 60});
  const std::vector<float> corpus = gaussian(16, 1280 * dims), asked = gaussian(17, 16 * dims);
  const std::vector<std::uint64_t> bitmap{1, 0,   2,   4, 0,   8,    0, 16,   32, 64,
                                          0, 128, 256, 0, 512, 1024, 0, 2048, 0,  0};  // 12 rows
  KnnOptions few{.k = 10};
  few.eligible.bitmap = bitmap;
  for (const Precision precision : {Precision::int8, Precision::f32})
    if (precision == Precision::int8 || !sampled())
      compare(view(corpus, dims), view(asked, dims), {.options = few, .slots = 60, .precision = precision});
}

TEST(CudaSearch, ClustersTighterThanAStep) {
  const std::int64_t dims = 20, each = 30;
  std::vector<float> centres = gaussian(6, 40 * dims), corpus, noise = gaussian(7, 40 * each * dims, 0, 1e-5);
  for (std::int64_t row = 0; row < 40 * each; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      corpus.push_back(centres[static_cast<std::size_t>(row % 40 * dims + i)] +
                       noise[static_cast<std::size_t>(row * dims + i)]);
  compare(view(corpus, dims), Points(corpus.data(), DType::f32, 9, dims), {.options = {.k = 10}});
}

TEST(CudaSearch, RungsOfFloats) {
  const std::int64_t dims = 37;
  const std::vector<float> corpus = gaussian(31, 300 * dims, 3), queries = gaussian(32, 7 * dims, 3);
  std::int64_t number = 0;
  for (const Precision precision : {Precision::fp16, Precision::f32})
    for (const MetricInfo& metric : metrics()) {
      if (!metric.vectors || metric.metric == Metric::hamming ||
          (precision == Precision::fp16 && (metric.metric == Metric::l1 || metric.metric == Metric::linf)))
        continue;
      if (sampled() && number++ % 2 != 0) continue;
      SCOPED_TRACE(std::string(metric.name) + " " + precision_name(precision));
      compare(view(corpus, dims), view(queries, dims),
              {.options = {.k = 7, .metric = metric.metric},
               .chunk = number % 3 == 0 ? 256 : INT64_MAX,
               .precision = precision});
    }
}

TEST(CudaSearch, RungsOfFloatsFromASampleAndInClusters) {
  const std::int64_t dims = 20, each = 30;
  const std::vector<float> far = gaussian(33, 1200 * dims, 1e3), near = gaussian(34, 5 * dims, 1e3);
  for (const Precision precision : {Precision::fp16, Precision::f32})
    if (precision == Precision::f32 || !sampled())
      compare(view(far, dims), view(near, dims), {.options = {.k = 10}, .slots = 60, .precision = precision});
  std::vector<float> centres = gaussian(6, 10 * dims), corpus, noise = gaussian(7, 10 * each * dims, 0, 1e-3);
  for (std::int64_t row = 0; row < 10 * each; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      corpus.push_back(centres[static_cast<std::size_t>(row % 10 * dims + i)] +
                       noise[static_cast<std::size_t>(row * dims + i)]);
  compare(view(corpus, dims), Points(corpus.data(), DType::f32, 9, dims),
          {.options = {.k = 10}, .precision = Precision::f32});
}

TEST(CudaSearch, ChunksFiltersAndGraphs) {
  const std::int64_t dims = 70;
  const std::vector<float> corpus = gaussian(8, 700 * dims), queries = gaussian(9, 5 * dims);
  for (const bool filter : {true, false}) {
    compare(view(corpus, dims), view(queries, dims),
            {.options = {.k = 5, .first_id = 1000}, .chunk = 384, .filter = filter});
    std::vector<std::uint64_t> bitmap(40, 0x0123456789abcdefu);
    KnnOptions options{.k = 5};
    options.eligible.bitmap = bitmap;
    options.eligible.first = 77;
    compare(view(corpus, dims), view(queries, dims), {.options = options, .filter = filter});
    compare(view(corpus, dims), view(queries, dims), {.options = options, .chunk = 128, .filter = filter});
    const Answer graph =
        by_device(view(queries, 7), view(queries, 7), {.options = {.k = 3}, .filter = filter, .graph = true});
    GraphOptions graph_options;
    graph_options.search.k = 3;
    graph_options.search.run.device = "cpu";
    expect_same(graph.result, knn_graph(view(queries, 7), graph_options));
  }
}

TEST(CudaSearch, RowsOfALabelAreRanked) {
  // Classes of some 30 rows; one of 900, whose query finds no room for them and goes on; labels that no row has; ties and rows that are equal.
  const std::int64_t dims = 20, rows = 2000, asked = 40;
  std::vector<float> corpus = gaussian(18, rows * dims), queries = gaussian(19, asked * dims);
  for (std::int64_t i = 0; i < rows / 2; ++i) corpus[static_cast<std::size_t>(i * dims)] = 1e6F;
  std::copy_n(corpus.begin(), 400 * dims, corpus.begin() + 1200 * dims);
  std::mt19937 random(20);
  std::vector<std::int64_t> labels(rows), own(asked);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = random() % 2 == 0 ? static_cast<std::int64_t>(random() % 40) - 5 : INT64_MIN;
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(i % 50) - 8;
  KnnOptions options{.k = 12, .pad = true};
  options.eligible.corpus_labels = labels;
  options.eligible.query_labels = own;
  for (const auto rule : {Eligible::Labels::same, Eligible::Labels::other}) {
    options.eligible.labels = rule;
    const bool same = rule == Eligible::Labels::same;
    compare(view(corpus, dims), view(queries, dims), {.options = options, .slots = 60}, same ? 0 : asked);
    options.eligible.first = 333;
    for (const Metric metric : {Metric::inner_product, Metric::cosine}) {
      options.metric = metric;
      compare(view(corpus, dims), view(queries, dims), {.options = options, .chunk = 768, .slots = 60},
              same ? 0 : asked);
    }
    options.metric = Metric::euclidean;
    options.eligible.first = 0;
  }
  options.eligible.labels = Eligible::Labels::same;
  own[7] = INT64_MIN;
  compare(view(corpus, dims), view(queries, dims), {.options = options, .slots = 20, .precision = Precision::f32}, 1);
  const std::vector<double> doubles(corpus.begin(), corpus.end()), asked_doubles(queries.begin(), queries.end());
  compare(Points(doubles.data(), DType::f64, rows, dims), Points(asked_doubles.data(), DType::f64, asked, dims),
          {.options = options, .slots = 60}, 1);
  options.eligible.query_labels = labels;
  GraphOptions graph_options;
  graph_options.search = options;
  graph_options.search.run.device = "cpu";
  const Points some = view(corpus, dims).slice(0, 300);
  graph_options.search.eligible.corpus_labels = graph_options.search.eligible.query_labels =
      options.eligible.corpus_labels = options.eligible.query_labels = std::span(labels).first(300);
  expect_same(by_device(some, some, {.options = options, .slots = 256, .graph = true}).result,
              knn_graph(some, graph_options));
}

TEST(CudaSearch, AnInfiniteDistanceIsRefusedWhereFewRowsMayAnswer) {
  // A row that may answer at a distance beyond f32 is none that is missing: of three rows with the label the third is refused, and two are found.
  const std::int64_t dims = 4, rows = 300;
  std::vector<float> corpus = gaussian(41, rows * dims), queries = gaussian(42, dims);
  for (std::int64_t i = 0; i < dims; ++i) corpus[static_cast<std::size_t>(77 * dims + i)] = i % 2 == 0 ? 3e38F : -3e38F;
  std::vector<std::int64_t> labels(rows, 9), own = {1};
  for (const std::size_t row : {3, 50, 77}) labels[row] = 1;
  for (const auto rule : {Eligible::Labels::same, Eligible::Labels::other})
    for (const bool filter : {true, false}) {
      KnnOptions options{.k = 3};
      options.eligible.labels = rule;
      options.eligible.corpus_labels = labels;
      options.eligible.query_labels = own;
      if (rule == Eligible::Labels::other) own[0] = 9;
      EXPECT_THROW(by_device(view(corpus, dims), view(queries, dims), {.options = options, .filter = filter}), Error)
          << filter;
      options.k = 2;
      compare(view(corpus, dims), view(queries, dims), {.options = options, .filter = filter}, 1);
      options.k = 4;
      options.pad = true;
      EXPECT_THROW(by_device(view(corpus, dims), view(queries, dims), {.options = options, .filter = filter}), Error)
          << filter;
      own[0] = 1;
    }
}

TEST(CudaSearch, AsManyNeighboursAsRowsAndSidesOfOneRow) {
  // A tile of which most rows are masked, lists that hold every row, and nothing that could be excluded.
  const std::int64_t dims = 9;
  std::vector<float> corpus = gaussian(13, 130 * dims, 1e9), queries = gaussian(14, 3 * dims, 1e9);
  std::copy_n(corpus.begin(), 60 * dims, corpus.begin() + 65 * dims);  // each of these twice
  for (const bool filter : {true, false}) {
    compare(view(corpus, dims), view(queries, dims), {.options = {.k = 130}, .filter = filter}, 3);
    compare(view(corpus, dims), view(queries, dims), {.options = {.k = 130}, .chunk = 128, .filter = filter}, 3);
    compare(Points(corpus.data(), DType::f32, 1, dims), Points(queries.data(), DType::f32, 1, dims),
            {.options = {.k = 1}, .filter = filter}, 1);
  }
}

TEST(CudaSearch, ListsThatSharedMemoryDoesNotHold) {
  const std::int64_t dims = 6;
  const std::vector<float> corpus = gaussian(15, 7000 * dims), queries = gaussian(16, 3 * dims);
  std::mt19937 random(17);
  std::vector<float> whole(4500 * dims), near(2 * dims);
  for (float& value : whole) value = static_cast<float>(random() % 2);
  for (float& value : near) value = static_cast<float>(random() % 2);
  // In two parts, so that the first tightens thresholds; the cut falls among many equal keys, so that rows decide.
  compare(view(whole, dims), view(near, dims), {.options = {.k = 3000}, .slots = 1000});
  if (sampled()) return;
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 2049}, .slots = 1300});
  // The longest list that a block sorts, and one that is merged; keys of 64 bits; queries that lose rows; half of the rows.
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 4096}, .chunk = 5120, .slots = 2000});
  compare(view(corpus, dims), view(queries, dims),
          {.options = {.k = 5000}, .slots = 1500, .precision = Precision::f32});
  std::vector<double> doubles(corpus.begin(), corpus.begin() + 3500 * dims),
      asked(queries.begin(), queries.begin() + dims);
  compare(Points(doubles.data(), DType::f64, 3500, dims), Points(asked.data(), DType::f64, 1, dims),
          {.options = {.k = 2500}, .slots = 1000});
  compare(view(whole, dims), view(near, dims), {.options = {.k = 3000}, .slots = 100}, 2);
  KnnOptions half{.k = 2100};
  const std::vector<std::uint64_t> bitmap(71, 0x5555555555555555u);
  half.eligible.bitmap = bitmap;
  compare(view(whole, dims), view(near, dims), {.options = half, .slots = 1500});
}

TEST(CudaSearch, ProductsThatVanishInAChunkKeepTheirSign) {
  const std::int64_t dims = 3;
  std::vector<float> corpus, queries = {1e-30F, 1e-30F, 1e-30F};
  for (int row = 0; row < 300; ++row)
    for (int i = 0; i < dims; ++i) corpus.push_back(row % 3 == 0 ? -1e-20F : row % 3 == 1 ? 1e-20F : 0.0F);
  compare(view(corpus, dims), view(queries, dims),
          {.options = {.k = 40, .metric = Metric::inner_product}, .chunk = 128, .filter = false});
}

TEST(CudaSearch, DoublesAndHalves) {
  const std::int64_t dims = 33;
  std::mt19937 random(10);
  std::normal_distribution<double> normal;
  std::vector<double> corpus(300 * dims), queries(5 * dims);
  for (double& value : corpus) value = normal(random);
  for (double& value : queries) value = normal(random);
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product})
    compare(Points(corpus.data(), DType::f64, 300, dims), Points(queries.data(), DType::f64, 5, dims),
            {.options = {.k = 9, .metric = metric}});
  std::vector<std::uint16_t> halves(300 * dims), asked(5 * dims);
  for (std::uint16_t& value : halves) value = static_cast<std::uint16_t>((random() & 0x83ff) | 0x3800);
  for (std::uint16_t& value : asked) value = static_cast<std::uint16_t>((random() & 0x83ff) | 0x3800);
  for (const DType type : {DType::f16, DType::bf16})
    compare(Points(halves.data(), type, 300, dims), Points(asked.data(), type, 5, dims), {.options = {.k = 9}});
}

TEST(CudaSearch, FarAndDegenerateRows) {
  const std::int64_t dims = 16;
  std::vector<float> corpus = gaussian(11, 300 * dims), queries = gaussian(12, 12 * dims);
  for (std::int64_t i = 0; i < dims; ++i) {
    corpus[static_cast<std::size_t>(17 * dims + i)] = 1e18F;
    corpus[static_cast<std::size_t>(18 * dims + i)] = 0;
    queries[static_cast<std::size_t>(3 * dims + i)] *= 1e-20F;
    queries[static_cast<std::size_t>(4 * dims + i)] *= 1e15F;
    queries[static_cast<std::size_t>(5 * dims + i)] = 0;
  }
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 10}}, 12);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 10, .metric = Metric::inner_product}}, 12);
  compare(view(corpus, dims), view(queries, dims),
          {.options = {.k = 10, .metric = Metric::cosine, .degenerate = Degenerate::one}}, 12);
  EXPECT_THROW(by_device(view(corpus, dims), view(queries, dims), {.options = {.metric = Metric::cosine}}), Error);
  corpus[5] = std::numeric_limits<float>::quiet_NaN();
  try {
    by_device(view(corpus, dims), view(queries, dims), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
    EXPECT_NE(std::string(error.what()).find("corpus row 0, column 5 is NaN"), std::string::npos) << error.what();
  }
}

TEST(CudaSearch, ResultsThatStayOnTheDevice) {
  const std::int64_t dims = 16;
  const std::vector<float> corpus = gaussian(19, 400 * dims);
  std::vector<float> queries = gaussian(20, 40 * dims);
  for (const bool lost : {false, true}) {
    for (std::int64_t i = 0; i < dims && lost; ++i)
      queries[static_cast<std::size_t>(7 * dims + i)] *= 1e25F;  // nothing is proved of it
    Ask ask{.options = {.k = 6}};
    const Answer here = by_device(view(corpus, dims), view(queries, dims), ask);
    ask.on_device = true;
    const Answer there = by_device(view(corpus, dims), view(queries, dims), ask);
    expect_same(there.result, here.result);
    EXPECT_EQ(there.redone, lost ? 1 : 0);
    EXPECT_EQ(there.all_proved, !lost);  // then nothing is certified query by query
    EXPECT_FALSE(here.all_proved);
    EXPECT_EQ(there.redone, here.redone);
    EXPECT_EQ(there.largest, here.largest);
    EXPECT_GT(there.largest, 0);
    EXPECT_LE(there.used_bytes, there.planned_bytes);
  }
}

TEST(CudaSearch, TakesTheMemoryThatIsPlanned) {
  const std::int64_t dims = 64;
  const std::vector<float> corpus = gaussian(18, 4300 * dims), queries = gaussian(19, 300 * dims);
  const Answer got = by_device(view(corpus, dims), view(queries, dims), {});
  EXPECT_LE(got.used_bytes, got.planned_bytes);
  EXPECT_GE(4 * got.used_bytes, 3 * got.planned_bytes);
}

TEST(CudaSearch, RowsOnTheDeviceTakeNoMemoryAndNoCopy) {
  const Shape host{1000000, 128, DType::f32}, device{1000000, 128, DType::f32, true};
  const std::int64_t bytes = host.rows * host.cols * 4;
  Plan plan;
  plan.cascade = {"int8", "canonical"};
  plan.corpus_chunk = host.rows;
  plan.query_batch = 10000;
  plan.candidate_slots = 500;
  const ProblemShape here{.corpus = host, .queries = host, .k = 10}, there{.corpus = device, .queries = host, .k = 10},
      kept{.corpus = host, .queries = host, .k = 10, .prepared = true};
  EXPECT_EQ(cuda::session_bytes(plan, here, 0, 132), cuda::session_bytes(plan, there, 0, 132) + bytes);
  EXPECT_GT(cuda::session_bytes(plan, there, 0, 132), cuda::session_bytes(plan, kept, 0, 132) + host.rows * host.cols);
  EXPECT_NEAR(cuda::search_seconds(plan, here) - cuda::search_seconds(plan, there),
              cuda::H200Rates().feed_s + static_cast<double>(bytes) / cuda::H200Rates().fed_bytes_per_s, 1e-6);
  EXPECT_GT(cuda::search_seconds(plan, there), cuda::search_seconds(plan, kept));
  Plan arriving =
      plan;  // two chunks of rows are there at once, and what is searched meanwhile takes no time of its own
  arriving.corpus_chunk = host.rows / 8;
  EXPECT_LT(cuda::search_seconds(arriving, here), cuda::search_seconds(plan, here));
  EXPECT_EQ(cuda::session_bytes(arriving, here, 0, 132), cuda::session_bytes(arriving, there, 0, 132) + bytes / 4);
  EXPECT_EQ(cuda::arriving_rows(there), 0);
  EXPECT_EQ(cuda::arriving_rows(here), host.rows / 8);
  const auto arriving_of = [](std::int64_t rows) {
    const Shape some{rows, 128, DType::f32};
    return cuda::arriving_rows({.corpus = some, .queries = some, .k = 10});
  };
  EXPECT_EQ(arriving_of(8 << 18), 1 << 18);  // 128 MiB, and no more
  EXPECT_EQ(arriving_of((8 << 18) + 8), 1 << 18);
  EXPECT_EQ(arriving_of(8 << 16), 1 << 16);  // 32 MiB, and no less
  EXPECT_EQ(arriving_of((8 << 16) - 8), 1 << 16);
  // One kernel answers few queries from 32 tiles on; no rows take a time that is a number.
  plan.query_batch = 1;
  const auto one_of = [&](std::int64_t rows) {
    return cuda::search_seconds(
        plan,
        {.corpus = {rows, 128, DType::f32, true}, .queries = {1, 128, DType::f32, true}, .k = 10, .prepared = true});
  };
  EXPECT_LT(one_of(31 * 128 + 1), one_of(31 * 128) - 2e-5);
  EXPECT_TRUE(std::isfinite(one_of(0)));
  plan.query_batch = 10000;
  Plan batches = plan;
  batches.query_batch = 1000;
  EXPECT_GT(cuda::search_seconds(batches, here), cuda::search_seconds(plan, here));
  // What is left of a search escalates where its rows are made sooner than every pair is ranked.
  const ProblemShape many{.corpus = device, .queries = {5000, 128, DType::f32, true}, .k = 10},
      one{.corpus = device, .queries = {1, 128, DType::f32, true}, .k = 10};
  EXPECT_TRUE(cuda::ranked_sooner_on(Precision::fp16, plan, many));
  EXPECT_FALSE(cuda::ranked_sooner_on(Precision::fp16, plan, one));
}

TEST(CudaSearch, ADeviceThatAddsWronglyFailsItsTest) {
  Device device;
  const cuda::SelfTest fine = cuda::self_test(device);
  EXPECT_TRUE(fine.bytes && fine.halves && fine.floats);
  cuda::TestData wrong;  // nothing was computed: every sum is 0, as if small halves were flushed
  const cuda::SelfTest bad = wrong.judge();
  EXPECT_FALSE(bad.bytes || bad.halves || bad.floats);
}

TEST(CudaSearch, NoPairIsExcludedWrongly) {
  Device device;
  ThreadPool thread_pool(1, nullptr, {}, 1);
  bounds::Tally tally{};
  std::int64_t number = 0, pairs = 0;
  for (const double spread : {1.0, 1e-4}) {
    const std::int64_t dims = 11;
    const std::vector<float> corpus = gaussian(41, 120 * dims, 3, spread), queries = gaussian(42, 12 * dims, 3, spread);
    for (const MetricInfo& metric : metrics()) {
      if (!metric.vectors || metric.metric == Metric::hamming) continue;
      for (const Precision precision : {Precision::int8, Precision::fp16, Precision::f32}) {
        if ((metric.metric == Metric::l1 || metric.metric == Metric::linf) && precision == Precision::fp16) continue;
        if (sampled() && ++number % 4 != 0) continue;
        SCOPED_TRACE(std::string(metric.name) + " " + precision_name(precision));
        bounds::check(device, view(corpus, dims), view(queries, dims), metric.metric, precision, "mma", thread_pool,
                      tally);
        pairs += 120 * 12;
        EXPECT_EQ(tally.wrong, 0u);
      }
    }
  }
  EXPECT_EQ(tally.pairs, static_cast<unsigned long long>(pairs));
}

TEST(CudaRange, EveryMetricWithinARadius) {
  const std::int64_t dims = 37;
  const std::vector<float> corpus = gaussian(21, 260 * dims, 2), queries = gaussian(22, 4 * dims, 2);
  std::int64_t number = 0;
  for (const MetricInfo& metric : metrics()) {
    if (!metric.vectors || metric.metric == Metric::hamming) continue;
    if (++number % 2 == 0 && sampled()) continue;
    SCOPED_TRACE(std::string(metric.name));
    const Ask ask{.options = {.k = 40, .metric = metric.metric, .first_id = 7},
                  .chunk = number % 3 == 0 ? 256 : INT64_MAX};
    const double radius =
        knn(view(corpus, dims), view(queries, dims), ask.options).distance(2, 39);  // on a returned value
    EXPECT_EQ(compare_range(view(corpus, dims), view(queries, dims), radius, ask, 1 << 20), 0);
  }
}

TEST(CudaRange, RadiiWithoutANumberAndRowsOfThousands) {
  const std::int64_t dims = 5;
  const std::vector<float> corpus = gaussian(23, 1100 * dims), queries = gaussian(24, dims);
  compare_range(view(corpus, dims), view(queries, dims), infinite, {}, 1 << 20);  // runs of a sort are merged
  if (sampled()) return;
  compare_range(view(corpus, dims), view(queries, dims), -1, {}, 1 << 20);
  compare_range(view(corpus, dims), view(queries, dims), 0, {}, 1 << 20);
}

TEST(CudaRange, MatchesWithoutRoomGoToTheirPlaces) {
  // 128 rows of each query have room: the others are counted, searched again, and sent to the host when there are too many.
  const std::int64_t dims = 6, rows = 500;
  std::vector<float> corpus = gaussian(25, rows * dims), queries = gaussian(26, 4 * dims);
  for (std::int64_t i = 0; i < dims; ++i)
    queries[static_cast<std::size_t>(3 * dims + i)] *= 1e25F;  // nothing is proved of it
  std::vector<std::int64_t> labels(rows), own(4);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(i % 4);
  Ask ask;
  ask.options.eligible.labels = Eligible::Labels::other;
  ask.options.eligible.corpus_labels = labels;
  ask.options.eligible.query_labels = own;
  EXPECT_GT(compare_range(view(corpus, dims), view(queries, dims), 4, ask, 0), 0);
}

TEST(CudaRange, AnyDeviceHasRoomForATileOfRows) {
  // A block of the grid may have more queries than another; a launch that cannot be divided must have room for all of its pairs.
  for (const std::int64_t multiprocessors : {1, 3, 16, 108, 114, 132, 144, 148, 192})
    for (std::int64_t queries = 1; queries < 300'000; queries += queries / 7 + 1) {
      const std::int64_t blocks = (queries + cuda::block_queries - 1) / cuda::block_queries,
                         grid = std::min(multiprocessors, blocks), most = (blocks + grid - 1) / grid,
                         pairs = most * cuda::block_queries * cuda::tile_rows;
      EXPECT_GE(cuda::candidate_room(queries, multiprocessors) / grid, pairs)
          << queries << " queries, " << multiprocessors << " multiprocessors";
    }
}

}  // namespace
