// Two emulated devices behind the seam: the sessions of src/cuda, driven from a thread each, against one device and the host.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "pipeline/truth.hpp"
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

/// Each device has a run of the rows as queries, which are not the rows of the same numbers.
TEST(SeveralDevices, EmulatedOnesShareGraphs) {
  const std::int64_t count = 151, cols = 4;
  std::vector<float> rows = gaussian(5, count * cols);
  std::copy_n(rows.begin(), 40 * cols, rows.begin() + 90 * cols);  // equal rows, in runs of both devices
  std::vector<std::int64_t> labels, asked;
  for (std::int64_t i = 0; i < count; ++i) {
    labels.push_back(i % 9);
    asked.push_back(i % 10);
  }
  const std::vector<std::uint64_t> bits(static_cast<std::size_t>(count / 64 + 1), 0xA5F00F5A33CC55AAu);
  pair().first.most_rows = pair().second.most_rows = INT64_MAX;
  for (const std::int64_t equal : {0, 1}) {
    if (equal == 1) std::fill(rows.begin(), rows.begin() + 130 * cols, 1.0F);
    for (const char* filter : {"int8", "canonical"}) {
      const Corpus kept(view(rows, cols), {.run = {.device = "cuda:1,cuda:0", .threads = 2, .filter = filter}});
      for (const std::int64_t k : {1, 12, 150}) {
        for (int kind = 0; kind < (equal == 1 ? 2 : 6); ++kind) {
          SCOPED_TRACE(testing::Message() << filter << ", k = " << k << ", kind " << kind << (equal ? ", equal" : ""));
          GraphOptions options{.search = on("cuda:1,cuda:0", {.k = k, .pad = true}), .include_self = kind == 5};
          options.search.run.filter = filter;
          Eligible& eligible = options.search.eligible;
          if (kind == 1) eligible.bitmap = bits;
          if (kind >= 2 && kind <= 4) {
            eligible.labels = kind == 3 ? Eligible::Labels::other : Eligible::Labels::same;
            eligible.corpus_labels = labels;
          }
          if (kind == 4) {
            eligible.first = 40;
            eligible.query_labels = asked;
          }
          const Neighbors several = kept.knn_graph(options);
          EXPECT_EQ(several.stats.device, "cuda:1,cuda:0");
          EXPECT_EQ(several.stats.notes.front(), "2 devices, each with 76 queries");
          options.search.run = {.device = "cpu", .threads = 2};
          expect_same(several, knn_graph(view(rows, cols), options));
        }
      }
    }
  }
}

TEST(SeveralDevices, EmulatedOnesShareStrings) {
  std::mt19937 random(4);
  const auto texts = [&](std::size_t count) {
    std::vector<std::string> made;
    while (made.size() < count) {
      std::string text(made.size() % 9 == 8 ? 60 + random() % 60 : random() % 12, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 4);
      made.push_back(text);
    }
    return made;
  };
  const auto listed = [](const std::vector<std::string>& all) {
    return StringList(std::vector<std::string_view>(all.begin(), all.end()), Encoding::utf8);
  };
  std::vector<std::string> asked = texts(45);
  asked.emplace_back(1100, 'b');  // longer than the kernels take: the host's
  const StringList corpus = listed(texts(160)), queries = listed(asked);
  const KnnOptions options{.k = 6, .metric = Metric::levenshtein, .first_id = 2};
  pair().first.queries_of_strings = pair().second.queries_of_strings = 0;
  const Neighbors several = knn(corpus.view(), queries.view(), on("cuda:all", options));
  expect_same(several, knn(corpus.view(), queries.view(), on("cpu", options)));
  EXPECT_EQ(several.stats.device, "cuda:0,cuda:1");
  EXPECT_EQ(pair().first.queries_of_strings + pair().second.queries_of_strings, 45);
  EXPECT_GT(pair().first.queries_of_strings, 15);
  EXPECT_GT(pair().second.queries_of_strings, 15);
  // As a graph, with two runs of the rows without themselves; and ranges.
  const KnnOptions graph{.k = 6, .metric = Metric::levenshtein};
  const GraphOptions here{.search = on("cpu", graph)}, there{.search = on("cuda:0,cuda:1", graph)};
  expect_same(knn_graph(corpus.view(), there), knn_graph(corpus.view(), here));
  const CsrNeighbors all = range_search(corpus.view(), queries.view(), 4, {.search = on("cuda:all", options)}),
                     want = range_search(corpus.view(), queries.view(), 4, {.search = on("cpu", options)});
  ASSERT_EQ(all.entries(), want.entries());
  EXPECT_EQ(std::memcmp(all.offsets(), want.offsets(), static_cast<std::size_t>(want.rows() + 1) * 8), 0);
  EXPECT_EQ(std::memcmp(all.ids(), want.ids(), static_cast<std::size_t>(want.entries()) * 8), 0);
  EXPECT_EQ(std::memcmp(all.distances(), want.distances(), static_cast<std::size_t>(want.entries()) * 4), 0);
}

TEST(SeveralDevices, OneThatFailsIsNamed) {
  const std::vector<float> corpus = gaussian(1, 150 * 8), asked = gaussian(2, 4 * 8);
  pair().second.left_before_failing = 0;
  try {
    knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_error);
    EXPECT_STREQ(error.what(), "cuda:1: an illegal address was read");
  }
  pair().second.left_before_failing = INT64_MAX;
  const Neighbors again = knn(view(corpus, 8), view(asked, 8), on("cuda:all", {.k = 4}));
  expect_same(again, knn(view(corpus, 8), view(asked, 8), on("cpu", {.k = 4})));
}

/// Pieces that several devices search together, saved one after another: what a stop, or a device that fails, leaves is gone on from.
TEST(SeveralDevices, ResumeWhereTheyWereStopped) {
  const std::vector<float> corpus = gaussian(1, 640 * 8), asked = gaussian(2, 9 * 8);
  const std::vector<Points> base{view(corpus, 8).slice(0, 300), view(corpus, 8).slice(300, 340)};
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("vicinal-several-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const Grid grid{5, 128, 128, [] { return 0.0; }};  // 64 rows each
  const auto search = [&](const KnnOptions& options, bool truth) {
    const std::string at = (folder / (truth ? "truth" : "knn")).string();
    return truth ? truth_in_pieces(base, view(asked, 8), {.search = options, .directory = at}, grid).nearest()
                 : knn_in_pieces(view(corpus, 8), view(asked, 8), options, at, grid);
  };
  for (const bool truth : {true, false}) {
    SCOPED_TRACE(truth ? "truth" : "k-NN");
    const std::string at = (folder / (truth ? "truth" : "knn")).string();
    const KnnOptions plain = on("cuda:all", {.k = 6});
    const auto saved = [&] { return std::filesystem::exists(at) ? saved_pieces(at).pairs : 0; };
    KnnOptions stopped = plain;
    std::int64_t first = 0;
    stopped.progress = [&](std::uint64_t, std::uint64_t) { return (first = saved()) == 0; };
    const auto code_of = [&](const KnnOptions& options) {
      try {
        search(options, truth);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::device_error) {
          EXPECT_STREQ(error.what(), "cuda:1: an illegal address was read");
        }
        return error.code();
      }
      return ErrorCode::internal;  // it was not stopped
    };
    EXPECT_EQ(code_of(stopped), ErrorCode::cancelled);
    ASSERT_GT(first, 0);
    pair().second.left_before_failing = 2;
    EXPECT_EQ(code_of(plain), ErrorCode::device_error);
    pair().second.left_before_failing = INT64_MAX;
    EXPECT_GT(saved(), first);
    EXPECT_LT(saved(), 640 * 9);
    const Neighbors resumed = search(plain, truth);
    EXPECT_LT(pair().second.left_before_failing, INT64_MAX) << "one device searched alone";
    expect_same(resumed, knn(view(corpus, 8), view(asked, 8), on("cpu", {.k = 6})));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace several_devices

/// What the linker sends the library's calls of cuda_devices() to (cmake/tests.cmake).
extern "C" const vicinal::CudaDevices* __wrap__ZN7vicinal12cuda_devicesEv() {
  return emulated_search::shown_devices != nullptr ? emulated_search::shown_devices : &several_devices::pair().devices;
}
