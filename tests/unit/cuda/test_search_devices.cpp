// Two emulated devices behind the seam: the sessions of src/cuda, driven from a thread each, against one device and the host.
#include <gtest/gtest.h>

#include "unit/cuda/emulated_backend.hpp"
#include "unit/cuda/shown_devices.hpp"
#include "vicinal/vicinal.hpp"

namespace several_devices {
namespace {

using namespace emulated_search;

struct Pair {
  EmulatedBackend first{0, 80, 163 << 10}, second{1, 80, 163 << 10};
  CudaDevices devices{{{&first, ""}, {&second, ""}}, ""};
};
/// Those that cuda_devices() answers with.
Pair& pair() {
  static Pair devices;
  return devices;
}

KnnOptions on(const char* device, KnnOptions options) {
  options.run = {.device = device, .threads = 2, .filter = "int8"};
  return options;
}

TEST(SeveralDevices, EmulatedOnesHaveTheBitsOfOne) {
  const std::vector<float> asked = gaussian(2, 5 * 8);
  const struct {
    std::int64_t rows, chunk;
    Metric metric;
  } cases[] = {{1, INT64_MAX, Metric::euclidean},
               {65, INT64_MAX, Metric::inner_product},
               {400, 128, Metric::euclidean},
               {200, INT64_MAX, Metric::inner_product}};
  for (const auto& [count, chunk, metric] : cases) {
    const std::vector<float> corpus = gaussian(1, count * 8);
    pair().first.most_rows = pair().second.most_rows = chunk;
    SCOPED_TRACE(testing::Message() << count << " rows, chunks of " << chunk);
    const KnnOptions options{.k = std::min<std::int64_t>(count, 10), .metric = metric, .first_id = 3};
    const Neighbors host = knn(view(corpus, 8), view(asked, 8), on("cpu", options));
    const Neighbors several = knn(view(corpus, 8), view(asked, 8), on("cuda:all", options));
    expect_same(several, host);
    EXPECT_EQ(several.stats.device, "cuda:0,cuda:1");
    if (metric != Metric::euclidean) continue;
    RangeOptions within{.search = on("cuda:0,cuda:1", {})};
    const CsrNeighbors all = range_search(view(corpus, 8), view(asked, 8), 3.0, within);
    within.search.run.device = "cpu";
    const CsrNeighbors want = range_search(view(corpus, 8), view(asked, 8), 3.0, within);
    ASSERT_EQ(all.entries(), want.entries());
    EXPECT_EQ(std::memcmp(all.ids(), want.ids(), static_cast<std::size_t>(want.entries()) * 8), 0);
    EXPECT_EQ(std::memcmp(all.distances(), want.distances(), static_cast<std::size_t>(want.entries()) * 4), 0);
  }
}

TEST(SeveralDevices, OneThatFailsIsNamed) {
  const std::vector<float> corpus = gaussian(1, 150 * 8), asked = gaussian(2, 4 * 8);
  pair().second.fails = true;
  try {
    knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_error);
    EXPECT_STREQ(error.what(), "cuda:1: an illegal address was read");
  }
  pair().second.fails = false;
  const Neighbors again = knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
  expect_same(again, knn(view(corpus, 8), view(asked, 8), on("cpu", {.k = 4})));
}

}  // namespace
}  // namespace several_devices

/// What the linker sends the library's calls of cuda_devices() to (cmake/tests.cmake).
extern "C" const vicinal::CudaDevices* __wrap__ZN7vicinal12cuda_devicesEv() {
  return emulated_search::shown_devices != nullptr ? emulated_search::shown_devices : &several_devices::pair().devices;
}
