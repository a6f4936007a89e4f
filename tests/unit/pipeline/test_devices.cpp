// Searches on a device that is not the machine's own (fake_devices.hpp): memory of other devices is refused in every call that takes some,
// a search whose memory is refused goes on in smaller pieces, and the caller's stream reaches the backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <regex>

#include "unit/pipeline/fake_devices.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/device.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/resume.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

// A reference is a pointer to the linker, and C has no references.
extern "C" const vicinal::CudaDevices* __real__ZN7vicinal12cuda_devicesEv();
/// What the linker sends the library's calls of cuda_devices() to (cmake/tests.cmake).
extern "C" const vicinal::CudaDevices* __wrap__ZN7vicinal12cuda_devicesEv() {
  const vicinal::CudaDevices* devices = vicinal::fakes::shown();
  return devices != nullptr ? devices : __real__ZN7vicinal12cuda_devicesEv();
}

namespace vicinal {
namespace {

/// Rows and queries of both sides, whole numbers, so that there are ties.
struct Arrays {
  explicit Arrays(std::int64_t rows, std::int64_t count, std::int64_t cols = 24)
      : corpus(static_cast<std::size_t>(rows * cols)), queries(static_cast<std::size_t>(count * cols)),
        rows_(view(corpus, rows, cols)), queries_(view(queries, count, cols)) {
    std::mt19937 random(7);
    for (auto* side : {&corpus, &queries})
      for (float& value : *side) value = static_cast<float>(random() % 9);
  }
  static Points view(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
    return {values.data(), DType::f32, rows, cols};
  }
  std::vector<float> corpus, queries;
  Points rows_, queries_;
};

void expect_refused(const std::function<void()>& call, ErrorCode code, const char* pattern) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << pattern;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what() << "\nexpected " << pattern;
  }
}

void expect_bits(const Neighbors& got, const Neighbors& want) {
  ASSERT_EQ(got.rows(), want.rows());
  const auto entries = static_cast<std::size_t>(want.rows() * want.k());
  EXPECT_EQ(std::memcmp(got.ids(), want.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(got.distances(), want.distances(), entries * distance_size(want.type())), 0);
}

void expect_bits(const CsrNeighbors& got, const CsrNeighbors& want) {
  ASSERT_EQ(got.rows(), want.rows());
  ASSERT_EQ(got.entries(), want.entries());
  const auto entries = static_cast<std::size_t>(want.entries());
  EXPECT_GT(entries, static_cast<std::size_t>(want.rows()));
  EXPECT_EQ(std::memcmp(got.offsets(), want.offsets(), (static_cast<std::size_t>(want.rows()) + 1) * 8), 0);
  EXPECT_EQ(std::memcmp(got.ids(), want.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(got.distances(), want.distances(), entries * distance_size(want.type())), 0);
}

KnnOptions on(const char* device, std::int64_t k = 5) { return {.k = k, .run = {.device = device}}; }

TEST(Devices, MemoryOfAnotherDeviceIsRefusedInEveryCall) {
  fakes::Devices devices;
  Arrays here(500, 20), there(500, 20);
  devices.own(there.corpus, 1);
  devices.own(there.queries, 1);
  const GraphOptions graph{.search = on("cuda:0")};
  const RangeOptions range{.search = on("cuda")};
  const char* corpus = "corpus: rows are in memory of cuda:1, this search runs on cuda:0";
  const char* query = "query: rows are in memory of cuda:1, this search runs on cuda:0";
  expect_refused([&] { knn(there.rows_, here.queries_, on("cuda")); }, ErrorCode::device_error, corpus);
  expect_refused([&] { knn(here.rows_, there.queries_, on("cuda:0")); }, ErrorCode::device_error, query);
  expect_refused([&] { knn_graph(there.rows_, graph); }, ErrorCode::device_error, corpus);
  expect_refused([&] { range_search(there.rows_, here.queries_, 3, range); }, ErrorCode::device_error, corpus);
  expect_refused([&] { range_search(here.rows_, there.queries_, 3, range); }, ErrorCode::device_error, query);
  expect_refused([&] { Corpus(there.rows_, {.run = {.device = "cuda"}}); }, ErrorCode::device_error, corpus);
  const Corpus kept(here.rows_, {.run = {.device = "cuda"}});
  expect_refused([&] { kept.knn(there.queries_); }, ErrorCode::device_error, query);
  expect_refused([&] { kept.range_search(there.queries_, 3); }, ErrorCode::device_error, query);
  const Shape shape{20, 24, DType::f32};
  expect_refused([&] { plan(there.rows_, shape, on("cuda:0")); }, ErrorCode::device_error, corpus);
  expect_refused([&] { plan(there.rows_, here.queries_, on("cuda:0")); }, ErrorCode::device_error, corpus);
  expect_refused([&] { plan(here.rows_, there.queries_, on("cuda:0")); }, ErrorCode::device_error, query);
  expect_refused([&] { plan_graph(there.rows_, graph); }, ErrorCode::device_error, corpus);
  expect_refused([&] { plan_range(there.rows_, shape, 3, range); }, ErrorCode::device_error, corpus);
  const std::string folder = std::filesystem::temp_directory_path() / "vicinal_devices";
  expect_refused([&] { knn_resumable(there.rows_, here.queries_, on("cuda:0"), folder); }, ErrorCode::device_error,
                 corpus);
  expect_refused([&] { knn_graph_resumable(there.rows_, graph, folder); }, ErrorCode::device_error, corpus);
  expect_refused([&] { range_search_resumable(here.rows_, there.queries_, 3, range, folder); }, ErrorCode::device_error,
                 query);
  // Their own device takes them, with the same bits.
  const Neighbors want = knn(here.rows_, here.queries_, on("cpu"));
  expect_bits(knn(there.rows_, there.queries_, on("cuda:1")), want);
  expect_bits(knn(there.rows_, here.queries_, on("cuda:1")), want);
  const Corpus theirs(there.rows_, {.run = {.device = "cuda:1"}});
  expect_bits(theirs.knn(there.queries_, {.k = 5}), want);
  expect_bits(theirs.knn_graph({.search = {.k = 5}}), knn_graph(here.rows_, {.search = on("cpu")}));
  expect_bits(theirs.range_search(there.queries_, 14),
              range_search(here.rows_, here.queries_, 14, {.search = on("cpu")}));
  EXPECT_EQ(plan(there.rows_, there.queries_, on("cuda:1")).device, "cuda:1");
}

TEST(Devices, ResultsAreInOneMemoryThatTheDeviceWrites) {
  fakes::Devices devices;
  const Arrays sides(300, 6);
  std::vector<std::int64_t> ids(30), counts(6), ids_there(30), ids_far(30), counts_there(6);
  std::vector<float> distances(30), distances_there(30), distances_far(30);
  devices.own(ids_there, 0), devices.own(distances_there, 0), devices.own(counts_there, 0);
  devices.own(ids_far, 1), devices.own(distances_far, 1);
  const auto view = [&](auto& i, auto& d, std::int64_t* c) {
    return NeighborsView{
        .ids = i.data(), .distances = d.data(), .type = DistanceType::f32, .rows = 6, .k = 5, .counts = c};
  };
  const Corpus kept(sides.rows_, {.run = {.device = "cuda:0"}});
  const auto both = [&](const NeighborsView& out, const char* pattern) {
    expect_refused([&] { knn_into(out, sides.rows_, sides.queries_, on("cuda:0")); }, ErrorCode::device_error, pattern);
    expect_refused([&] { kept.knn_into(out, sides.queries_, {.k = 5}); }, ErrorCode::device_error, pattern);
  };
  both(view(ids_far, distances_far, nullptr), "ids of the result: memory of cuda:1, this search runs on cuda:0");
  both(view(ids_there, distances_far, nullptr),
       "distances of the result: memory of cuda:1, this search runs on cuda:0");
  both(view(ids_there, distances, nullptr),
       "distances of the result: memory of the host, and the ids are in memory of cuda:0");
  both(view(ids, distances_there, nullptr),
       "distances of the result: memory of cuda:0, and the ids are in memory of the host");
  both(view(ids_there, distances_there, counts.data()),
       "counts of the result: memory of the host, and the ids are in memory of cuda:0");
  both(view(ids, distances, counts_there.data()),
       "counts of the result: memory of cuda:0, and the ids are in memory of the host");
  knn_into(view(ids_there, distances_there, counts_there.data()), sides.rows_, sides.queries_, on("cuda:0"));
  knn_into(view(ids, distances, counts.data()), sides.rows_, sides.queries_, on("cuda:0"));
  EXPECT_EQ(ids, ids_there);
}

TEST(Devices, WhatTheHostReadsIsNoMemoryOfADevice) {
  fakes::Devices devices;
  const Arrays sides(300, 6);
  std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, -1}, labels(300, 1), query_labels(6, 1);
  std::vector<std::uint64_t> bits(5, ~std::uint64_t{0});
  devices.own(ids, 0), devices.own(bits, 0), devices.own(labels, 0), devices.own(query_labels, 1);
  const Corpus kept(sides.rows_, {.run = {.device = "cuda:0"}});
  const std::vector<std::int64_t> host_labels(300, 1), host_query_labels(6, 1);
  const auto refused = [&](const Eligible& eligible, const char* pattern) {
    KnnOptions options = on("cuda:0");
    options.eligible = eligible;
    expect_refused([&] { knn(sides.rows_, sides.queries_, options); }, ErrorCode::device_error, pattern);
    expect_refused([&] { kept.knn(sides.queries_, options); }, ErrorCode::device_error, pattern);
    expect_refused([&] { range_search(sides.rows_, sides.queries_, 3, {.search = options}); }, ErrorCode::device_error,
                   pattern);
    expect_refused([&] { kept.range_search(sides.queries_, 3, {.search = options}); }, ErrorCode::device_error,
                   pattern);
    expect_refused([&] { plan(sides.rows_, sides.queries_, options); }, ErrorCode::device_error, pattern);
    const Shape corpus{300, 24, DType::f32}, queries{6, 24, DType::f32};
    expect_refused([&] { plan(corpus, queries, options); }, ErrorCode::device_error, pattern);
    expect_refused([&] { plan_range(corpus, queries, {.search = options}); }, ErrorCode::device_error, pattern);
    const GraphOptions graph{.search = options};
    expect_refused([&] { knn_graph(sides.rows_, graph); }, ErrorCode::device_error, pattern);
    expect_refused([&] { kept.knn_graph(graph); }, ErrorCode::device_error, pattern);
    expect_refused([&] { plan_graph(sides.rows_, graph); }, ErrorCode::device_error, pattern);
    expect_refused([&] { plan_graph(corpus, graph); }, ErrorCode::device_error, pattern);
  };
  Eligible eligible;
  eligible.ids = ids;  // whose -1 would be refused if it were read
  refused(eligible, "eligible ids: memory of cuda:0, which the host reads");
  eligible = {};
  eligible.bitmap = bits;
  refused(eligible, "bitmap of eligible rows: memory of cuda:0, which the host reads");
  eligible = {};
  eligible.labels = Eligible::Labels::same;
  eligible.corpus_labels = labels;
  eligible.query_labels = host_query_labels;
  refused(eligible, "labels of the corpus: memory of cuda:0");
  eligible.corpus_labels = host_labels;
  eligible.query_labels = query_labels;
  refused(eligible, "labels of the queries: memory of cuda:1");

  Arrays there(300, 6);
  devices.own(there.corpus, 0);
  const Corpus borrowed(there.rows_, {.run = {.device = "cuda"}});
  const std::string folder = std::filesystem::temp_directory_path() / "vicinal_devices";
  expect_refused([&] { borrowed.save(folder + ".vicinal"); }, ErrorCode::device_error,
                 "corpus: rows are in memory of cuda:0, saving reads");
  expect_refused([&] { borrowed.saved(); }, ErrorCode::device_error, "cuda:0, saving reads");
  expect_refused([&] { Corpus(there.rows_, {.copy = true, .run = {.device = "cuda"}}); }, ErrorCode::device_error,
                 "cuda:0, copying reads");
  expect_refused([&] { knn_resumable(there.rows_, sides.queries_, on("cuda"), folder); }, ErrorCode::device_error,
                 "cuda:0, a resumable search reads");
  expect_refused([&] { knn_graph_resumable(there.rows_, {.search = on("cuda")}, folder); }, ErrorCode::device_error,
                 "cuda:0, a resumable search reads");
  expect_refused([&] { range_search_resumable(there.rows_, sides.queries_, 3, {.search = on("cuda")}, folder); },
                 ErrorCode::device_error, "cuda:0, a resumable search reads");
  const Neighbors found = knn(sides.rows_, sides.queries_, on("cpu"));
  Claim claim;
  claim.rows = found.rows();
  claim.k = found.k();
  claim.ids = found.ids();
  expect_refused([&] { verify(there.rows_, sides.queries_, claim, {.search = on("cuda")}); }, ErrorCode::device_error,
                 "cuda:0, verify reads");
  expect_refused([&] { borrowed.verify(sides.queries_, claim); }, ErrorCode::device_error, "cuda:0, verify reads");
}

TEST(Devices, APreparedCorpusAnswersOnItsDeviceAlone) {
  fakes::Devices devices;
  const Arrays sides(900, 10);
  const Neighbors want = knn(sides.rows_, sides.queries_, on("cpu"));
  const Corpus first(sides.rows_, {.run = {.device = "cuda:0"}}), host(sides.rows_);
  ASSERT_TRUE(first.resident() && host.resident());
  for (const char* same : {"auto", "cuda", "cuda:0"}) {
    const Neighbors got = first.knn(sides.queries_, on(same));
    EXPECT_EQ(got.stats.device, "cuda:0") << same;
    expect_bits(got, want);
  }
  EXPECT_EQ(host.knn(sides.queries_, {.k = 5}).stats.device, "cpu");
  expect_refused([&] { first.knn(sides.queries_, on("cuda:1")); }, ErrorCode::device_error,
                 "prepared for cuda:0, and device=cuda:1");
  expect_refused([&] { first.knn(sides.queries_, on("cpu")); }, ErrorCode::device_error,
                 "prepared for cuda:0, and device=cpu");
  expect_refused([&] { host.knn(sides.queries_, on("cuda:1")); }, ErrorCode::device_error,
                 "prepared for cpu, and device=cuda:1");
  EXPECT_EQ(first.knn_graph({.search = {.k = 3}}).stats.device, "cuda:0");
  EXPECT_EQ(first.range_search(sides.queries_, 3).stats.device, "cuda:0");
  Claim claim;
  claim.rows = want.rows();
  claim.k = want.k();
  claim.ids = want.ids();
  EXPECT_EQ(first.verify(sides.queries_, claim).correct, want.rows());
  const char* other = "prepared for cuda:0, and device=cuda:1";
  expect_refused([&] { first.knn_graph({.search = on("cuda:1")}); }, ErrorCode::device_error, other);
  expect_refused([&] { first.range_search(sides.queries_, 3, {.search = on("cuda:1")}); }, ErrorCode::device_error,
                 other);
  expect_refused([&] { first.verify(sides.queries_, claim, {.search = on("cuda:1")}); }, ErrorCode::device_error,
                 other);
}

TEST(Devices, RefusedMemoryIsAskedForInSmallerPieces) {
  const Arrays sides(6000, 700);
  const KnnOptions cpu = on("cpu");
  const Neighbors want = knn(sides.rows_, sides.queries_, cpu);
  const CsrNeighbors near = range_search(sides.rows_, sides.queries_, 11, {.search = cpu});
  // The queries take most, the rows, both the same; and once in the middle of the first batch, and of the second of smaller ones.
  struct Case {
    std::int64_t query_bytes, most_bytes;
    int after;
  };
  for (const Case& now : {Case{2000, 1000000, -1}, Case{100, 200000, -1}, Case{800, 600000, -1}, Case{1, INT64_MAX, 0},
                          Case{2000, 1000000, 1}}) {
    const auto limit = [&](fakes::Devices& devices) {
      devices.query_bytes = now.query_bytes, devices.most_bytes = now.most_bytes, devices.refuse_after = now.after;
    };
    const auto noted = [&](const fakes::Devices& devices, const Stats& stats) {
      EXPECT_GT(devices.refused, 0);
      const auto notes = std::count_if(stats.notes.begin(), stats.notes.end(), [](const std::string& note) {
        return note.find("memory was refused on cuda:0") == 0;
      });
      EXPECT_EQ(notes, devices.refused);
    };
    for (const char* filter : {"auto", "f32", "canonical"}) {
      fakes::Devices devices;
      limit(devices);
      KnnOptions options = on("cuda");
      options.run.filter = filter;
      const Neighbors got = knn(sides.rows_, sides.queries_, options);
      expect_bits(got, want);
      EXPECT_TRUE(got.certificate.all());
      noted(devices, got.stats);
    }
    fakes::Devices devices;
    limit(devices);
    const CsrNeighbors got = range_search(sides.rows_, sides.queries_, 11, {.search = on("cuda")});
    expect_bits(got, near);
    EXPECT_TRUE(got.certificate.all());
    noted(devices, got.stats);
  }
  fakes::Devices devices;
  const Corpus kept(sides.rows_, {.run = {.device = "cuda"}});
  devices.most_bytes = 100000;
  expect_bits(kept.knn(sides.queries_, {.k = 5}), want);
  EXPECT_EQ(devices.refused, 3);  // 700, 350 and 175
  expect_bits(kept.range_search(sides.queries_, 11), near);
  EXPECT_EQ(devices.refused, 6);
}

TEST(Devices, MemoryThatIsAlwaysRefusedEndsTheSearch) {
  const Arrays sides(3000, 300);
  fakes::Devices devices;
  devices.most_bytes = 0;
  expect_refused([&] { knn(sides.rows_, sides.queries_, on("cuda")); }, ErrorCode::out_of_memory,
                 "the fake device refused memory");
  EXPECT_EQ(devices.refused, 5);  // once, and four times less
  expect_refused([&] { range_search(sides.rows_, sides.queries_, 11, {.search = on("cuda")}); },
                 ErrorCode::out_of_memory, "the fake device refused memory");
  EXPECT_EQ(devices.refused, 10);
}

TEST(Devices, TheCallersStreamReachesTheBackend) {
  const Arrays sides(900, 10);
  fakes::Devices devices;
  int token = 0;
  KnnOptions options = on("cuda");
  options.stream = &token;
  const Corpus kept(sides.rows_, {.run = {.device = "cuda"}});
  const std::function<void()> calls[] = {
      [&] { knn(sides.rows_, sides.queries_, options); },
      [&] { knn_graph(sides.rows_, {.search = options}); },
      [&] { range_search(sides.rows_, sides.queries_, 3, {.search = options}); },
      [&] { Corpus(sides.rows_, {.run = {.device = "cuda"}, .stream = options.stream}); },
      [&] { kept.knn(sides.queries_, options); },
      [&] { kept.knn_graph({.search = options}); },
      [&] { kept.range_search(sides.queries_, 3, {.search = options}); }};
  for (const auto& call : calls) {
    devices.streams.clear();
    devices.capturing = nullptr;
    call();
    ASSERT_FALSE(devices.streams.empty());
    for (const void* stream : devices.streams) EXPECT_EQ(stream, &token);
    devices.capturing = &token;
    expect_refused(call, ErrorCode::unsupported, "the stream is capturing");
  }
}

TEST(Devices, ReleasedMemoryIsCounted) {
  fakes::Devices devices;
  EXPECT_EQ(find_backend("cuda:1").device().facts().name, "cuda:1");  // opens them
  devices.unused = 12345;
  EXPECT_EQ(release_memory(), 12345);
  EXPECT_EQ(release_memory(), 0);
}

}  // namespace
}  // namespace vicinal
