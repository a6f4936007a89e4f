// A few queries of a kept corpus by src/cuda/search/fused, on the emulator, held against the CPU's answers bit by bit; and what is left to the usual
// session, of which the test knows.
#include <gtest/gtest.h>

#include <random>

#include "cuda/search/fused_session.hpp"
#include "kernels/bounds_fused.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace {

using namespace emulated_search;
using Device = emulated_search::Device;

struct FusedCase {
  KnnOptions options = {};
  bool on_device = false;
  std::int64_t kept_k = 10, slots = 500;
};

Plan plan_of(std::int64_t queries, std::int64_t rows, std::int64_t slots) {
  Plan plan;
  plan.cascade = {"int8", "canonical"};
  plan.candidate_slots = slots;
  plan.query_batch = queries;
  plan.corpus_chunk = rows;
  plan.threads = 1;
  return plan;
}

/// A corpus kept on a device of its own, searched by one batch after another.
struct Kept {
  Points corpus;
  Device device;
  ThreadPool thread_pool{1, nullptr, {}, 1};
  Plan plan;
  std::shared_ptr<const cuda::CudaPreparedCorpus<Device>> kept;

  Kept(const Points& rows, const FusedCase& one) : corpus(rows), plan(plan_of(1, rows.rows, one.slots)) {
    const SearchSpec spec{.corpus = rows,
                          .metric = one.options.metric,
                          .degenerate = one.options.degenerate,
                          .k = std::min(one.kept_k, rows.rows)};
    kept = cuda::CudaSession<Device>::keep(device, spec, plan, thread_pool);
  }

  /// Whether the usual session was needed. The answer is the CPU's to the bit.
  bool search(const Points& queries, const FusedCase& one) {
    SearchSpec spec{.corpus = corpus,
                    .metric = one.options.metric,
                    .degenerate = one.options.degenerate,
                    .k = std::min(one.options.k, corpus.rows),
                    .first_id = one.options.first_id,
                    .filter = RowFilter(one.options.eligible, corpus.rows, one.options.first_id, false)};
    const Plan batch = plan_of(queries.rows, corpus.rows, one.slots);
    EXPECT_TRUE(cuda::runs_fused(device, spec, batch, Precision::int8, kept.get(), 227 << 10));
    Stats stats;
    Neighbors got(queries.rows, one.options.k, spec.type, false);
    NeighborsView out = got.view();
    const std::int64_t entries = queries.rows * one.options.k;
    if (one.on_device) {
      out.ids = static_cast<std::int64_t*>(device.take(entries * 8));
      out.distances = device.take(entries * 4);
    }
    std::vector<std::int64_t> rows, found(static_cast<std::size_t>(queries.rows));
    for (std::int64_t i = 0; i < queries.rows; ++i) rows.push_back(i);
    std::vector<double> verified_radius(rows.size()), largest(rows.size());
    const BoundsView bounds{verified_radius.data(), largest.data(), found.data()};
    cuda::FusedSession<Device> session(device, spec, batch, Precision::int8, kept, thread_pool, stats);
    session.prepare_queries(queries, rows);
    session.filter();
    session.select();
    session.rerank();
    session.finish(out, bounds);
    if (!certify(out, spec, rows, bounds, thread_pool).empty()) {  // the next precision's
      EXPECT_TRUE(session.left_to_usual());
      return true;
    }
    if (one.on_device) {
      device.out(got.view().ids, out.ids, entries * 8);
      device.out(got.view().distances, out.distances, entries * 4);
      device.wait();
      device.give(out.ids);
      device.give(out.distances);
    }
    EXPECT_GE(stats.candidates, entries);
    KnnOptions options = one.options;
    options.run.device = "cpu";
    options.proof = Proof::exhaustive;
    expect_same(got, knn(corpus, queries, options));
    return session.left_to_usual();
  }
};

TEST(CudaFused, EveryMetricThatItTakes) {
  std::int64_t number = 0;
  for (const std::int64_t dims : {3, 100}) {
    const std::vector<float> corpus = gaussian(1, 4200 * dims, 2), queries = gaussian(2, 16 * dims, 2);
    for (const Metric metric :
         {Metric::euclidean, Metric::sqeuclidean, Metric::cosine, Metric::correlation, Metric::inner_product}) {
      if (sampled() && number++ % 4 != 0) continue;
      SCOPED_TRACE(std::string(metric_info(metric).name) + ", " + std::to_string(dims) + " columns");
      const FusedCase one{.options = {.k = 10, .metric = metric, .first_id = 7}};
      Kept kept(view(corpus, dims), one);
      // Lengths alone decide about products of three columns: too many rows look near, and a query may be left to the usual way.
      const bool left = kept.search(view(queries, dims).slice(0, dims > 64 ? 9 : 16), one);
      EXPECT_TRUE(!left || (metric == Metric::inner_product && dims == 3));
      EXPECT_FALSE(
          kept.search(view(queries, dims).slice(3, 7), {.options = {.k = 1, .metric = metric}, .on_device = true}));
    }
  }
}

TEST(CudaFused, EveryTypeOfRows) {
  const std::int64_t dims = 40, rows = 4097;
  std::mt19937 random(3);
  std::vector<std::uint8_t> bytes(rows * dims);
  for (std::uint8_t& value : bytes) value = static_cast<std::uint8_t>(random());
  std::vector<std::uint16_t> halves(rows * dims);
  for (std::uint16_t& value : halves) value = static_cast<std::uint16_t>(0x3000 + random() % 0x1800);
  for (const DType type : {DType::u8, DType::i8, DType::f16, DType::bf16}) {
    const bool narrow = type == DType::u8 || type == DType::i8;
    const Points corpus(narrow ? static_cast<const void*>(bytes.data()) : halves.data(), type, rows, dims);
    const FusedCase one{.options = {.k = 12, .metric = Metric::sqeuclidean}};
    EXPECT_FALSE(Kept(corpus, one).search(corpus.slice(2000, 5), one)) << dtype_name(type);
  }
}

TEST(CudaFused, NoPairIsExcludedWrongly) {
  emulated_search::Device device;
  ThreadPool thread_pool(1, nullptr, {}, 1);
  bounds::Tally tally{};
  unsigned long long pairs = 0;
  for (const std::int64_t dims : {11, 70}) {
    for (const double spread : {1.0, 1e-4}) {
      const std::vector<float> corpus = gaussian(41, 150 * dims, 3, spread),
                               queries = gaussian(42, 32 * dims, 3, spread);
      for (const MetricInfo& metric : metrics()) {
        if (!metric.vectors || !has_products(filter_sum_of(metric.metric))) continue;
        SCOPED_TRACE(std::string(metric.name) + ", " + std::to_string(dims) + " columns");
        bounds::check_fused_queries(device, view(corpus, dims), view(queries, dims), metric.metric, thread_pool, tally);
        pairs += 150 * 32;
        EXPECT_EQ(tally.wrong, 0u);
      }
    }
  }
  EXPECT_EQ(tally.pairs, pairs);
}

TEST(CudaFused, TiesAndDuplicates) {
  std::mt19937 random(5);
  const std::int64_t dims = 6, rows = 5000;
  std::vector<float> values(rows * dims);
  for (float& value : values) value = static_cast<float>(random() % 3);
  const Points corpus = view(values, dims);
  for (const std::int64_t k : {1, 10}) {
    const FusedCase one{.options = {.k = k}};
    Kept kept(corpus, one);
    kept.search(corpus.slice(100, 9), one);  // hundreds at distance 0: whoever answers, ties go to the smaller id
  }
  // Rows apart, each twice: nearest is the row itself, then its equal.
  std::vector<float> pairs = gaussian(6, rows * 32);
  std::copy_n(pairs.begin(), rows / 2 * 32, pairs.begin() + rows / 2 * 32);
  const FusedCase one{.options = {.k = 5}};
  EXPECT_FALSE(Kept(view(pairs, 32), one).search(view(pairs, 32).slice(2400, 16), one));
}

TEST(CudaFused, LongestListsAndLateThresholds) {
  // The emulator runs block after block: the first ones know only what they saw.
  const std::int64_t dims = 128;
  const std::vector<float> corpus = gaussian(7, 4096 * dims, 1e3, 5), queries = gaussian(8, 16 * dims, 1e3, 5);
  const FusedCase one{.options = {.k = 34}};  // bounds that a block of three has
  Kept kept(view(corpus, dims), one);
  kept.search(view(queries, dims), one);
  kept.search(view(queries, dims).slice(0, 2), one);
  // The longest list takes many blocks, each of which tells a row.
  const std::vector<float> many = gaussian(9, 7296 * 8), some = gaussian(10, 3 * 8);
  const FusedCase longest{.options = {.k = 64}};
  Kept wide(view(many, 8), longest);
  wide.device.multiprocessors = 57;
  EXPECT_EQ(cuda::fused_bounds(57, 57), 64);
  wide.search(view(some, 8), longest);
}

TEST(CudaFused, PiecesBeyondThoseThatWaitForThresholds) {
  // One block: 4,096 largest sums are of 8,192 rows with more than eight queries, and of 16,384 with fewer; later pieces are tested as they come.
  const std::int64_t dims = 5, rows = 17'000;
  for (const double offset : {0.0, 1e4}) {
    const std::vector<float> corpus = gaussian(21, rows * dims, offset), queries = gaussian(22, 16 * dims, offset);
    const FusedCase one{.options = {.k = 12}};
    Kept kept(view(corpus, dims), one);
    kept.device.multiprocessors = 1;
    EXPECT_FALSE(kept.search(view(queries, dims), one));
    EXPECT_FALSE(kept.search(view(queries, dims).slice(4, 8), one));
    EXPECT_FALSE(kept.search(view(corpus, dims).slice(rows - 9, 9), one));
  }
  // Sorted by distance, the nearest last: thresholds of the first pieces let nearly all of the later ones pass.
  std::vector<float> line(rows);
  for (std::int64_t i = 0; i < rows; ++i) line[static_cast<std::size_t>(i)] = static_cast<float>(rows - i);
  const std::vector<float> asked(9, 0.5F);
  const FusedCase one{.options = {.k = 3}};
  Kept kept(view(line, 1), one);
  kept.device.multiprocessors = 1;
  kept.search(view(asked, 1), one);
}

TEST(CudaFused, SortedRowsAndClusters) {
  const std::int64_t dims = 16, rows = 6000;
  std::vector<float> values = gaussian(9, rows * dims, 0, 1e-3);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < dims; ++i)
      values[static_cast<std::size_t>(row * dims + i)] += static_cast<float>(row / 30 * ((i % 3) - 1));
  const Points corpus = view(values, dims);
  const FusedCase one{.options = {.k = 20}};
  Kept kept(corpus, one);
  kept.search(corpus.slice(0, 4), one);
  kept.search(corpus.slice(rows - 4, 4), one);
}

TEST(CudaFused, StrangeQueriesAreLeftToTheUsualSession) {
  const std::int64_t dims = 20;
  std::vector<float> corpus = gaussian(10, 4100 * dims), queries = gaussian(11, 4 * dims);
  const FusedCase one{.options = {.k = 3}};
  Kept kept(view(corpus, dims), one);
  queries[dims] = 1e30F;
  EXPECT_TRUE(kept.search(view(queries, dims), one));
  EXPECT_FALSE(kept.search(view(queries, dims).slice(2, 2), one));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    queries[dims] = bad;
    EXPECT_THROW(kept.search(view(queries, dims), one), Error);
    queries[dims] = 0;
    EXPECT_FALSE(kept.search(view(queries, dims), one));  // what the failed call left behind does not matter
  }
  // A row without direction, and queries that are one.
  std::fill_n(corpus.begin() + 50 * dims, dims, 0.0F);
  const FusedCase cosine{.options = {.k = 3, .metric = Metric::cosine, .degenerate = Degenerate::one}};
  Kept directions(view(corpus, dims), cosine);
  EXPECT_FALSE(directions.search(view(queries, dims).slice(0, 1), cosine));
  EXPECT_TRUE(directions.search(view(corpus, dims).slice(50, 1), cosine));
  // Products that are nothing keep their sign.
  const FusedCase products{.options = {.k = 3, .metric = Metric::inner_product}};
  std::fill_n(queries.begin(), dims, 0.0F);
  EXPECT_TRUE(Kept(view(corpus, dims), products).search(view(queries, dims).slice(0, 1), products));
}

TEST(CudaFused, WhatItDoesNotTake) {
  const std::int64_t dims = 8;
  const std::vector<float> corpus = gaussian(12, 4100 * dims);
  const FusedCase one{};
  Kept kept(view(corpus, dims), one);
  Eligible range;
  range.last = 99;
  const auto takes = [&](std::int64_t k, const Plan& plan, std::int64_t shared = 227 << 10,
                         DistanceType type = DistanceType::f32, const Eligible& eligible = {}) {
    const SearchSpec spec{
        .corpus = kept.corpus, .type = type, .k = k, .filter = RowFilter(eligible, kept.corpus.rows, 0, false)};
    return cuda::runs_fused(kept.device, spec, plan, Precision::int8, kept.kept.get(), shared);
  };
  EXPECT_TRUE(takes(34, plan_of(16, 4100, 500)));
  EXPECT_FALSE(takes(35, plan_of(16, 4100, 500)));  // rows of which no block knows enough
  kept.device.multiprocessors = 132;
  EXPECT_TRUE(takes(40, plan_of(16, 4100, 500)));
  EXPECT_FALSE(takes(41, plan_of(16, 4100, 500)));
  EXPECT_EQ(cuda::fused_bounds(132, 132), 139);
  EXPECT_EQ(cuda::fused_bounds(10'000, 132), 163);
  kept.device.multiprocessors = 33;
  EXPECT_FALSE(takes(65, plan_of(16, 4100, 500)));
  kept.device.multiprocessors = 3;
  EXPECT_FALSE(takes(1, plan_of(17, 4100, 500)));
  EXPECT_FALSE(takes(1, plan_of(16, 4100, 500), 99 << 10));
  EXPECT_FALSE(takes(1, plan_of(16, 4100, 500), 227 << 10, DistanceType::f64));
  EXPECT_FALSE(takes(1, plan_of(16, 4100, 500), 227 << 10, DistanceType::f32, range));
  for (const Metric metric : {Metric::l1, Metric::linf}) {  // sums of differences, whose rows lie otherwise
    const FusedCase other{.options = {.metric = metric}};
    Kept differences(view(corpus, dims), other);
    const SearchSpec spec{.corpus = differences.corpus,
                          .metric = metric,
                          .k = 1,
                          .filter = RowFilter({}, differences.corpus.rows, 0, false)};
    EXPECT_TRUE(differences.kept->packed);
    EXPECT_FALSE(cuda::runs_fused(differences.device, spec, plan_of(1, 4100, 500), Precision::int8,
                                  differences.kept.get(), 227 << 10));
  }
  kept.device.packed_rows = 4099;
  EXPECT_FALSE(takes(1, plan_of(16, 4100, 500)));
}

}  // namespace
