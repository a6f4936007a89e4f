// What calls on CUDA devices do beside their answers, on machines that have one or two: searches that are cancelled while the device works for
// them, memory that is kept and given back, devices that are mixed up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "conformance/support.hpp"
#include "vicinal/vicinal.hpp"

namespace {

using conformance::has_cuda;
using vicinal::KnnOptions;
using vicinal::Neighbors;

std::string cuda_name(int ordinal) { return "cuda:" + std::to_string(ordinal); }

std::vector<float> normal_rows(unsigned seed, std::int64_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

bool equal_bits(const Neighbors& a, const Neighbors& b) {
  const auto entries = static_cast<std::size_t>(a.rows() * a.k());
  return a.rows() == b.rows() && a.k() == b.k() && std::memcmp(a.ids(), b.ids(), entries * 8) == 0 &&
         std::memcmp(a.distances(), b.distances(), entries * vicinal::distance_size(a.type())) == 0;
}

KnnOptions on_device(const std::string& device) {
  KnnOptions options;
  options.run.device = device;
  return options;
}

constexpr std::int64_t rows = 60000, queries = 3000, dims = 64;

TEST(CudaCalls, CancelledSearchesLeaveNothingRunning) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const std::vector<float> asked = normal_rows(2, queries * dims);
  const vicinal::Points query_rows(asked.data(), vicinal::DType::f32, queries, dims);
  std::vector<float> first = normal_rows(1, rows * dims);
  const Neighbors want = vicinal::knn({first.data(), vicinal::DType::f32, rows, dims}, query_rows, on_device("cpu"));
  std::optional<vicinal::Corpus> kept(std::in_place, vicinal::Points(first.data(), vicinal::DType::f32, rows, dims),
                                      vicinal::CorpusOptions{.copy = true, .run = {.device = "cuda"}});
  int cancelled = 0;
  for (int stop_at = 0; stop_at < 12; ++stop_at) {
    // The rows are gone, and their memory is somebody else's, as soon as the call has thrown.
    auto corpus = std::make_unique<std::vector<float>>(first);
    KnnOptions options = on_device("cuda");
    const bool prepared = stop_at % 2 == 1;
    if (!prepared)  // several chunks, and specs between them
      options.memory.host = vicinal::plan({rows, dims}, {queries, dims}, options).minimum_bytes;
    int calls = 0;
    options.progress = [&](std::uint64_t, std::uint64_t) { return calls++ < stop_at; };
    try {
      const Neighbors got = prepared
                                ? kept->knn(query_rows, options)
                                : vicinal::knn({corpus->data(), vicinal::DType::f32, rows, dims}, query_rows, options);
      EXPECT_TRUE(equal_bits(got, want));
    } catch (const vicinal::Error& error) {
      EXPECT_EQ(error.code(), vicinal::ErrorCode::cancelled) << error.what();
      ++cancelled;
    }
    std::fill(corpus->begin(), corpus->end(), 1e30F);
    corpus.reset();
    EXPECT_TRUE(equal_bits(kept->knn(query_rows, on_device("cuda")), want)) << stop_at;
  }
  EXPECT_GT(cancelled, 0);
  std::thread([&] { kept.reset(); }).join();  // let go on another thread
  EXPECT_TRUE(
      equal_bits(vicinal::knn({first.data(), vicinal::DType::f32, rows, dims}, query_rows, on_device("cuda")), want));
}

TEST(CudaCalls, MemoryBetweenCallsIsBoundedAndGivenBack) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const std::vector<float> corpus = normal_rows(1, rows * dims);
  const vicinal::Points points(corpus.data(), vicinal::DType::f32, rows, dims);
  const Neighbors want = vicinal::knn_graph(points, {.search = on_device("cuda")});
  EXPECT_GT(want.stats.used_bytes, 0);
  const std::int64_t released = vicinal::release_memory();
  EXPECT_GT(released, 0);
  EXPECT_LE(released, (std::int64_t{4} << 30) + (std::int64_t{64} << 20));  // a piece of the driver's is not cut
  EXPECT_EQ(vicinal::release_memory(), 0);
  EXPECT_TRUE(equal_bits(vicinal::knn_graph(points, {.search = on_device("cuda")}), want));
}

TEST(CudaCalls, APreparedCorpusStaysWithItsDevice) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const std::vector<float> corpus = normal_rows(1, rows * dims);
  const vicinal::Points points(corpus.data(), vicinal::DType::f32, rows, dims), some = points.slice(0, 50);
  const Neighbors want = vicinal::knn(points, some, on_device("cpu"));
  for (int ordinal = 0; ordinal < 2 && has_cuda(ordinal); ++ordinal) {
    const vicinal::Corpus kept(points, {.run = {.device = cuda_name(ordinal)}});
    const Neighbors got = kept.knn(some, {});
    EXPECT_EQ(got.stats.device, cuda_name(ordinal));
    EXPECT_TRUE(equal_bits(got, want));
    for (const std::string& other : {std::string("cpu"), cuda_name(1 - ordinal)}) {
      if (other != "cpu" && !has_cuda(1 - ordinal)) continue;
      try {
        (void)kept.knn(some, on_device(other));
        ADD_FAILURE() << other;
      } catch (const vicinal::Error& error) {
        EXPECT_EQ(error.code(), vicinal::ErrorCode::device_error) << error.what();
      }
    }
  }
}

TEST(CudaCalls, TwoDevicesSearchAtOnce) {
  if (!has_cuda(1)) GTEST_SKIP() << "no second CUDA device here";
  const std::vector<float> corpus = normal_rows(1, rows * dims);
  const vicinal::Points points(corpus.data(), vicinal::DType::f32, rows, dims), some = points.slice(100, 2000);
  const Neighbors want = vicinal::knn(points, some, on_device("cpu"));
  std::vector<std::thread> threads;
  std::vector<int> same(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      same[static_cast<std::size_t>(i)] =
          equal_bits(vicinal::knn(points, some, on_device(cuda_name(i % 2))), want) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  for (const int one : same) EXPECT_EQ(one, 1);
}

}  // namespace
