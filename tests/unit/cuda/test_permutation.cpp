// Searches of a permutation index by the device's code, on the emulator: src/cuda/permutation/search.hpp with memory of the host, and
// what src/permutation/device.cpp does before and after it, held against the CPU's answers, bit by bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cuda/permutation/search.hpp"
#include "permutation/device.hpp"
#include "unit/cuda/emulated_device.hpp"
#include "unit/idle_backend.hpp"

namespace {

using namespace vicinal;

/// With what a search of ranks asks for besides.
struct Device : emulated::Device {
  int multiprocessors = 2;
  std::int64_t free = std::int64_t{1} << 30;

  std::int64_t free_bytes() const { return free; }
};

/// The device's backend, as far as an index asks for it.
struct Emulated final : IdleBackend, RankBackend {
  mutable Device emulated;
  std::int64_t first_sample = 1 << 16;

  const RankBackend* ranks() const override { return this; }

  std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                                                   const MeasuredRows* rows) const override {
    return std::make_shared<cuda::PreparedRanks<Device>>(emulated, ranks, permutants, rows);
  }
  bool measures(const PreparedCorpus& kept, std::int64_t k) const override {
    return static_cast<const cuda::PreparedRanks<Device>&>(kept).measures(k);
  }
  bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                    const NearestAnswer& nearest, ThreadPool& thread_pool) const override {
    return cuda::RankSearch<Device>(emulated, spec, static_cast<const cuda::PreparedRanks<Device>&>(kept), thread_pool,
                                    first_sample)
        .run(candidates, nearest);
  }
};

struct Case {
  Metric metric;
  DType dtype;
  std::int64_t permutants, rows, queries, cols, k;
  double fraction;
  std::int64_t sample = 1 << 16, free = std::int64_t{1} << 30;
};

TEST(PermutationOnDevice, BitsOfTheHost) {
  const Case cases[] = {
      {Metric::euclidean, DType::f32, 16, 500, 35, 37, 7, 0.1},
      {Metric::euclidean, DType::f32, 16, 500, 9, 8, 5, 0.02, 32},  // a sample that fails some queries
      {Metric::cosine, DType::f64, 33, 300, 5, 20, 40, 0.3},
      {Metric::correlation, DType::f32, 8, 260, 4, 33, 3, 0.2},
      {Metric::inner_product, DType::f32, 5, 300, 5, 6, 260, 1.0},
      {Metric::hamming, DType::u8, 16, 300, 4, 4, 10, 0.2},
      {Metric::l1, DType::u8, 16, 300, 4, 16, 10, 0.2, 1 << 16, 0},  // rows stay on the host
      {Metric::dtw, DType::f32, 7, 120, 3, 12, 4, 0.2},
      {Metric::euclidean, DType::f32, 8, 2600, 3, 5, 6, 0.9},  // blocks that share a query
      {Metric::cosine, DType::f64, 8, 2600, 2, 5, 6, 0.9},
  };
  std::mt19937 random(3);
  for (const Case& c : cases) {
    const auto rows_of = [&](std::int64_t count) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(count * c.cols) * dtype_size(c.dtype));
      for (std::int64_t i = 0; i < count * c.cols; ++i) {
        const int value = static_cast<int>(random() % 7) -
                          (c.dtype == DType::u8 ? 0 : 3);  // small numbers: ties, and products of zero
        if (c.dtype == DType::f32) reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(value);
        else if (c.dtype == DType::f64)
          reinterpret_cast<double*>(bytes.data())[i] = value + (i % c.cols == 0 ? 0.5 : 0);
        else bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(value);
      }
      return bytes;
    };
    const std::vector<std::byte> corpus = rows_of(c.rows), queries = rows_of(c.queries);
    const Points rows(corpus.data(), c.dtype, c.rows, c.cols), asked(queries.data(), c.dtype, c.queries, c.cols);
    PermutationOptions options{.metric = c.metric, .permutants = c.permutants, .seed = 5, .run = {.threads = 1}};
    const PermutationIndex index(rows, options);
    const PermutationSearch search{.k = c.k, .fraction = c.fraction, .run = {.threads = 1}};
    const PermutationNeighbors want = index.knn(asked, search);

    ThreadPool thread_pool(1, nullptr, {}, 1);
    PermutationIndex::State state;
    state.options = options;
    state.rows = rows;
    state.vectors = cpu::open_vectors(rows, c.metric, 0, "plain", thread_pool);
    state.build(thread_pool);
    const auto read = state.vectors->read(asked, thread_pool);
    Emulated backend;
    backend.emulated.free = c.free;
    backend.first_sample = c.sample;
    const DistanceType type = want.neighbors.type();
    const IndexSearchSpec spec{
        .type = type,
        .k = c.k,
        .candidates = std::max(c.k, static_cast<std::int64_t>(std::ceil(c.fraction * static_cast<double>(c.rows))))};
    EXPECT_EQ(host_reason(backend, state, false), "");
    Neighbors got(c.queries, c.k, type, false);
    std::int64_t answered = 0;
    std::int64_t measured = 0;
    // In two parts, as several devices take them.
    for (const DevicePart part : {DevicePart{0, c.queries / 3}, DevicePart{c.queries / 3, c.queries - c.queries / 3}})
      measured += search_on(backend, state, *read, part, spec, thread_pool,
                            [&](std::int64_t query, std::span<const Entry> entries) {
                              ASSERT_EQ(static_cast<std::int64_t>(entries.size()), c.k);
                              ++answered;
                              for (std::int64_t i = 0; i < c.k; ++i) {
                                const Entry& entry = entries[static_cast<std::size_t>(i)];
                                got.view().ids[query * c.k + i] = entry.id;
                                store_key(entry.key, type, descending(c.metric), got.view().distances, query * c.k + i);
                              }
                            })
                      .measured;
    EXPECT_EQ(answered, c.queries);
    EXPECT_EQ(measured, want.neighbors.stats.reranked);
    const auto name = metric_info(c.metric).name;
    EXPECT_EQ(std::memcmp(got.view().ids, want.neighbors.ids(), static_cast<std::size_t>(c.queries * c.k) * 8), 0)
        << name;
    EXPECT_EQ(std::memcmp(got.view().distances, want.neighbors.distances(),
                          static_cast<std::size_t>(c.queries * c.k) * distance_size(type)),
              0)
        << name;
    state.kept.clear();
    EXPECT_TRUE(backend.emulated.held.empty());
  }
}

}  // namespace
