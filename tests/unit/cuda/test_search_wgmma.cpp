// Searches on a device of compute capability 9.0, as the emulator has it: the kernels by wgmma, with schedules and moments of copies that are
// drawn from seeds, against the CPU's answers.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "cuda/search/filter/filter_test.hpp"
#include "kernels/bounds.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

TEST(CudaWgmma, EveryMetricOfEveryWidth) {
  std::int64_t number = 0;
  for (const std::int64_t dims : {5, 100, 140})
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation}) {
      if (sampled() && number++ % 3 != 0) continue;
      const std::vector<float> corpus = gaussian(1, 700 * dims, 3), queries = gaussian(2, 150 * dims, 3);
      SCOPED_TRACE(std::string(metric_info(metric).name) + ", " + std::to_string(dims) + " columns");
      for (const std::int64_t count :
           {std::int64_t{150}, std::int64_t{9}})  // of 128 and fewer warpgroups share the tiles
        compare(view(corpus, dims), view(queries, dims).slice(0, count),
                {.options = {.k = 7, .metric = metric}, .slots = 90, .wgmma = true},
                metric == Metric::euclidean ? 0 : 20);
    }
}

// Warpgroups share tiles for up to 128 queries, a query is alone on its multiprocessor up to 3, and blocks of a preparing launch have 16.
TEST(CudaWgmma, QueriesOnBothSidesOfWhatSharesThem) {
  const std::int64_t dims = 50;
  const std::vector<float> corpus = gaussian(8, 600 * dims, 3), queries = gaussian(9, 257 * dims, 3);
  for (const std::int64_t count : {3, 4, 16, 17, 128, 129, 256, 257})
    compare(view(corpus, dims), view(queries, dims).slice(0, count), {.options = {.k = 5}, .slots = 90, .wgmma = true},
            0);
}

// Rows among which not all may answer are tested one by one.
TEST(CudaWgmma, EligibleRowsOfOneSlab) {
  for (const std::int64_t dims : {40, 100}) {
    const std::vector<float> corpus = gaussian(6, 900 * dims, 3), queries = gaussian(7, 150 * dims, 3);
    KnnOptions some{.k = 7};
    some.eligible.first = 100;
    some.eligible.last = 850;
    for (const std::int64_t count : {std::int64_t{150}, std::int64_t{128}, std::int64_t{9}})
      compare(view(corpus, dims), view(queries, dims).slice(0, count), {.options = some, .slots = 90, .wgmma = true},
              0);
  }
}

TEST(CudaWgmma, RowsOfAllLengthsInSortedRuns) {
  // Several runs of 4,096 places, the last one short, and thresholds from a sample.
  const std::int64_t dims = 20;
  std::vector<float> corpus = gaussian(3, 9001 * dims, 1), queries = gaussian(4, 140 * dims, 1);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (std::int64_t row = 0; row < 9001; row += 3)
    for (double size = std::exp(normal(random));
         float& value : std::span(corpus).subspan(static_cast<std::size_t>(row * dims), dims))
      value = static_cast<float>(value * size);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 10}, .slots = 150, .wgmma = true}, 140);
}

TEST(CudaWgmma, RowsOfSeveralSlabs) {
  // Blocks of 192 queries, whose slabs are in registers and in shared memory, the last slab in part; more than 256 floats are refined.
  std::int64_t number = 0;
  for (const std::int64_t dims : {170, 395, 1024, 1030})
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation}) {
      if (sampled() && number++ % 5 != 0) continue;
      SCOPED_TRACE(std::string(metric_info(metric).name) + ", " + std::to_string(dims) + " columns");
      const std::vector<float> corpus = gaussian(21, 500 * dims, 3), queries = gaussian(22, 260 * dims, 3);
      for (const std::int64_t count : {std::int64_t{260}, std::int64_t{140}}) {
        if ((sampled() || dims > 395) && count < 260) continue;
        compare(view(corpus, dims), view(queries, dims).slice(0, count),
                {.options = {.k = 7, .metric = metric}, .slots = 400, .wgmma = true}, 30);
      }
    }
  // Bytes, which are whole; rows among which not all may answer, by the other kernel.
  const std::int64_t dims = 260;
  std::mt19937 random(23);
  std::vector<std::uint8_t> bytes(500 * dims);
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  const Points whole(bytes.data(), DType::u8, 500, dims);
  compare(whole, whole.slice(100, 200), {.options = {.k = 7}, .slots = 400, .wgmma = true}, 0);
  KnnOptions some{.k = 7};
  some.eligible.first = 100;
  compare(whole, whole.slice(100, 200), {.options = some, .slots = 400, .wgmma = true}, 0);
}

TEST(CudaWgmma, RowsThatAreRefinedCountOnceAmongThoseThatPassed) {
  const std::int64_t dims = 140, rows = 2600, asked = 260;  // of fewer queries nothing is refined
  const std::vector<float> corpus = gaussian(25, rows * dims), queries = gaussian(26, asked * dims);
  const Answer got =
      by_device(view(corpus, dims), view(queries, dims), {.options = {.k = 12}, .slots = 700, .wgmma = true});
  EXPECT_GT(got.launches.two_bytes, 0);
  EXPECT_GT(got.stats.candidates, 0);
  EXPECT_LE(got.stats.candidates, rows * asked);
}

TEST(CudaWgmma, BlocksOfQueriesOfLongRowsTakeTheMemoryThatIsPlanned) {
  // Where every pair comes through first, blocks of 192 queries are more than those of 256 that they fill.
  std::mt19937 random(24);
  std::vector<std::uint8_t> bytes(2900 * 130);
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  const Points rows(bytes.data(), DType::u8, 2900, 130);
  const Answer got =
      by_device(rows, rows.slice(0, 1000), {.options = {}, .slots = 500, .wgmma = true, .multiprocessors = 132});
  EXPECT_LE(got.used_bytes, got.planned_bytes);
  EXPECT_GE(8 * got.used_bytes, 7 * got.planned_bytes);
}

TEST(CudaWgmma, ProductsOfTheLargestBytesOnBothSidesOfTheBitsThatAreLost) {
  // Bytes of 0 are -128 in the filter's form: of 512 and of 1,024 columns their products have one bit more.
  for (const std::int64_t dims : {128, 384, 385, 896, 897, 1024}) {
    SCOPED_TRACE(dims);
    std::mt19937 random(static_cast<unsigned>(dims));
    std::vector<std::uint8_t> corpus(static_cast<std::size_t>(300 * dims)),
        queries(static_cast<std::size_t>(140 * dims));
    for (auto* const bytes : {&corpus, &queries}) {
      const std::size_t lines = bytes->size() / static_cast<std::size_t>(dims);
      for (std::size_t line = 0; line < lines; ++line)
        for (std::int64_t col = 0; col < dims; ++col)  // all 0, all 255, some of both
          (*bytes)[line * static_cast<std::size_t>(dims) + static_cast<std::size_t>(col)] =
              line % 3 == 2   ? (random() % 2 == 0 ? 0 : 255)
              : line % 3 == 1 ? 255
                              : 0;
    }
    compare(Points(corpus.data(), DType::u8, 300, dims), Points(queries.data(), DType::u8, 140, dims),
            {.options = {.k = 9}, .slots = 400, .wgmma = true}, 140);
  }
}

TEST(CudaWgmma, CandidatesAreCountedIn32Bits) {
  EXPECT_NO_THROW(cuda::check_candidates((std::int64_t{1} << 32) - 1));
  EXPECT_THROW(cuda::check_candidates(std::int64_t{1} << 32), Error);
}

TEST(CudaWgmma, GraphsLeaveTheRowItselfOut) {
  for (const std::int64_t dims : {40, 140}) {
    SCOPED_TRACE(dims);
    std::vector<float> corpus = gaussian(7, 700 * dims, 3);
    std::copy_n(corpus.begin(), 50 * dims, corpus.begin() + 300 * dims);  // equal rows are neighbours, none of itself
    const Points rows = view(corpus, dims);
    GraphOptions options;
    options.search.k = 7;
    options.search.run.device = "cpu";
    const Neighbors expected = knn_graph(rows, options);
    for (const std::int64_t any_k : {std::int64_t{0}, std::int64_t{1000}}) {  // thresholds proved, and guessed
      Ask ask{.options = {.k = 7}, .slots = 90, .graph = true, .wgmma = true};
      ask.speculation.any_k_queries = any_k;
      const Answer got = by_device(rows, rows, ask);
      EXPECT_LE(got.used_bytes, got.planned_bytes);
      expect_same(got.result, expected);
    }
  }
}

TEST(CudaWgmma, WholeNumbersTiesAndDuplicates) {
  std::mt19937 random(6);
  const std::int64_t dims = 24;
  std::vector<float> corpus(1000 * dims), queries(130 * dims);
  for (float& value : corpus) value = static_cast<float>(random() % 3);
  for (float& value : queries) value = static_cast<float>(random() % 3);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 50}, .slots = 100, .wgmma = true}, 130);
  // Equal rows: but for the first of each kind they are masked.
  std::fill(corpus.begin(), corpus.end(), 1.0F);
  std::fill_n(corpus.begin() + 300 * dims, 400 * dims, 2.0F);
  compare(view(corpus, dims), view(queries, dims), {.options = {.k = 10}, .slots = 100, .wgmma = true}, 130);
}

TEST(CudaWgmma, FiltersAreThoseOfTheirTestInEverySchedule) {
  const std::uint64_t seed = simt::seed();
  for (std::uint64_t i = 0; i < (sampled() ? 3u : 30u); ++i) {
    simt::set_seed(seed + i);
    Device device;
    EXPECT_TRUE(cuda::test_filter(device, cuda::Int8Wgmma::facts, i % 2 == 0 ? 14 : 4))
        << "VICINAL_SIMT_SEED=" << seed + i;
    // Each number of slabs has as many stages as there is memory for, and turns of its own.
    const std::int64_t width = std::array<std::int64_t, 5>{1024, 384, 512, 768, 896}[i % 5];
    cuda::FilterTest slabs(width, i % 2 == 0 ? 260 : 150, cuda::Int8Wgmma::facts, 4);
    slabs.run(device);
    EXPECT_TRUE(slabs.by_groups()) << width << " columns";
    EXPECT_TRUE(slabs.judge()) << width << " columns, VICINAL_SIMT_SEED=" << seed + i;
  }
  simt::set_seed(seed);
}

TEST(CudaWgmma, NoPairIsExcludedWrongly) {
  Device device;
  device.usable = cuda::built_filters("90a-real", 90);
  ThreadPool thread_pool(1, nullptr, {}, 1);
  bounds::Tally tally{};
  std::int64_t pairs = 0;
  for (const double spread : {1.0, 1e-4, 2.0}) {
    const std::int64_t dims = spread > 1 ? 300 : 11, asked = spread > 1 ? 260 : 130;
    const std::vector<float> corpus = gaussian(41, 300 * dims, 3, spread),
                             queries = gaussian(42, asked * dims, 3, spread);
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine}) {
      bounds::check(device, view(corpus, dims), view(queries, dims), metric, Precision::int8, "wgmma", thread_pool,
                    tally);
      EXPECT_EQ(tally.wrong, 0u) << metric_info(metric).name;
      pairs += 300 * asked;
    }
  }
  EXPECT_EQ(tally.pairs, static_cast<unsigned long long>(pairs));
}

/// Rows of f32 that make rounding to bytes hard, of a kind from 0 to 10.
constexpr int hostile_kinds = 11;
std::vector<float> hostile(int kind, unsigned seed, std::int64_t rows, std::int64_t dims) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<float> values(static_cast<std::size_t>(rows * dims));
  for (std::int64_t row = 0; row < rows; ++row) {
    const double size = std::exp((kind == 4 ? 8 : 0) * normal(random));
    for (std::int64_t col = 0; col < dims; ++col) {
      double x = size * normal(random);
      if (kind == 1) x *= 1e-42;  // subnormal
      if (kind == 2) x *= 1e17;
      if (kind == 3 && col == 5) x *= 1e20;
      if (kind == 5) x = static_cast<double>((row * 7 + col) % dims);  // every row the same numbers: ties
      if (kind == 6) x = static_cast<int>(random() % 255) - 127 + 0.5 - 1e-6 * static_cast<double>(random() % 3);
      if (kind == 7 && row == 3) x *= 1e30;
      if (kind == 8) x += 1e6;
      if (kind == 9 && row % 2 == 0) x *= 1e10;
      if (kind == 10) x *= 3e36;
      values[static_cast<std::size_t>(row * dims + col)] = static_cast<float>(x);
    }
  }
  return values;
}

TEST(CudaWgmma, NoRowOfHostileNumbersIsExcludedWrongly) {
  // So many queries have second bytes, with which rows of more than 128 columns are refined.
  Device device;
  device.usable = cuda::built_filters("90a-real", 90);
  ThreadPool thread_pool(1, nullptr, {}, 1);
  std::int64_t number = 0;
  for (const std::int64_t dims : {129, 300, 1030})
    for (int kind = 0; kind < hostile_kinds; ++kind)
      for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation}) {
        if (number++ % (sampled() ? 29 : 7) != 0) continue;
        SCOPED_TRACE(std::string(metric_info(metric).name) + ", " + std::to_string(dims) + " columns of kind " +
                     std::to_string(kind));
        const std::vector<float> corpus = hostile(kind, 51, 140, dims), queries = hostile(kind, 52, 260, dims);
        bounds::Tally tally{};
        bounds::check(device, view(corpus, dims), view(queries, dims), metric, Precision::int8, "wgmma", thread_pool,
                      tally);
        EXPECT_EQ(tally.wrong, 0u);
      }
}

TEST(CudaWgmma, RefinedRowsOfHostileNumbers) {
  std::int64_t number = 0;
  for (int kind = 0; kind < hostile_kinds; ++kind)
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::correlation}) {
      if (metric == Metric::inner_product && (kind == 3 || kind == 10)) continue;  // their products leave f32
      if (number++ % (sampled() ? 11 : 3) != 0) continue;
      SCOPED_TRACE(std::string(metric_info(metric).name) + " of kind " + std::to_string(kind));
      const std::int64_t dims = 140;
      std::vector<float> corpus = hostile(kind, 53, 600, dims), queries = hostile(kind, 54, 260, dims);
      std::copy_n(corpus.begin() + 100 * dims, 100 * dims, queries.begin());
      compare(view(corpus, dims), view(queries, dims),
              {.options = {.k = 9, .metric = metric}, .slots = 100, .wgmma = true}, 260);
    }
}

}  // namespace
