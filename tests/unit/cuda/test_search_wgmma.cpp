// Searches on a device of compute capability 9.0, as the emulator has it: the kernels by wgmma, with schedules and moments of copies that are
// drawn from seeds, against the CPU's answers.
#include <gtest/gtest.h>

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
           {std::int64_t{150}, std::int64_t{9}})  // groups are tested for more than half a block
        compare(view(corpus, dims), view(queries, dims).slice(0, count),
                {.options = {.k = 7, .metric = metric}, .slots = 90, .wgmma = true},
                metric == Metric::euclidean ? 0 : 20);
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
    EXPECT_TRUE(cuda::test_filter(device, cuda::Int8Wgmma::facts, i % 2 == 0 ? 12 : 4))
        << "VICINAL_SIMT_SEED=" << seed + i;
  }
  simt::set_seed(seed);
}

TEST(CudaWgmma, NoPairIsExcludedWrongly) {
  Device device;
  device.usable = cuda::built_filters("90a-real", 90);
  ThreadPool thread_pool(1, nullptr, {}, 1);
  bounds::Tally tally{};
  for (const double spread : {1.0, 1e-4}) {
    const std::int64_t dims = 11;
    const std::vector<float> corpus = gaussian(41, 300 * dims, 3, spread),
                             queries = gaussian(42, 130 * dims, 3, spread);
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::cosine}) {
      bounds::check(device, view(corpus, dims), view(queries, dims), metric, Precision::int8, "wgmma", thread_pool,
                    tally);
      EXPECT_EQ(tally.wrong, 0u) << metric_info(metric).name;
    }
  }
  EXPECT_EQ(tally.pairs, 6u * 300 * 130);
}

}  // namespace
