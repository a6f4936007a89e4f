// Selections and searches of strings by several devices: the bits of one for any split, none and more devices than rows; progress, failures and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "unit/pipeline/fake_devices.hpp"
#include "unit/pipeline/several_devices.hpp"
#include "vicinal/vicinal.hpp"

namespace vicinal::device_shares_test {
namespace {

using multi_device_test::expect_same;
using multi_device_test::lists;
using multi_device_test::on;
using multi_device_test::refusal;

/// rows x cols numbers with ties, both zeros and NaNs, and a payload of their places.
struct Numbers {
  std::int64_t rows, cols;
  std::vector<float> values;
  std::vector<std::uint16_t> places;
  Numbers(std::int64_t rows, std::int64_t cols)
      : rows(rows), cols(cols), values(static_cast<std::size_t>(rows * cols)), places(values.size()) {
    std::mt19937 random(static_cast<unsigned>(rows * 100 + cols));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(random() % 9) - 4.0F;
      if (random() % 7 == 0) values[i] = random() % 2 == 0 ? std::nanf("") : -0.0F;
      places[i] = static_cast<std::uint16_t>(i);
    }
  }
  Values dense() const { return MatrixView<float>{values.data(), rows, cols}; }
  /// The last row first, and each row from its end.
  Values backwards() const {
    Values all = dense();
    if (!values.empty()) all.data = &values.back();
    all.row_stride = -all.row_stride;
    all.col_stride = -all.col_stride;
    return all;
  }
  Payload payload() const { return {places.data(), 2, cols * 2, 2}; }
};

void expect_same(const Selection& a, const Selection& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.k(), b.k());
  ASSERT_EQ(a.payload_size(), b.payload_size());
  const auto entries = static_cast<std::size_t>(a.rows() * a.k());
  if (entries == 0) return;
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(a.values(), b.values(), entries * value_size(a.type())), 0);
  if (a.payload_size() > 0) {
    EXPECT_EQ(std::memcmp(a.payload(), b.payload(), entries * static_cast<std::size_t>(a.payload_size())), 0);
  }
}

SelectOptions select_on(const std::string& device, SelectOptions options) {
  options.run.device = device;
  return options;
}

TEST(DeviceShares, SelectionsHaveTheBitsOfOneDevice) {
  fakes::Devices devices;
  for (const std::int64_t rows : {0, 1, 2, 3, 5, 8, 200}) {
    const Numbers numbers(rows, 33);
    for (const char* list : lists) {
      SCOPED_TRACE(testing::Message() << rows << " rows on " << list);
      for (const SelectOptions& options : {SelectOptions{.k = 1}, SelectOptions{.k = 33, .largest = true},
                                           SelectOptions{.k = 5, .algorithm = "heap"}}) {
        for (const bool dense : {true, false}) {
          const Values values = dense ? numbers.dense() : numbers.backwards();
          const Payload payload = dense ? numbers.payload() : Payload{};
          const Selection one = select_k(values, select_on("cpu", options), payload),
                          several = select_k(values, select_on(list, options), payload);
          expect_same(several, one);
          EXPECT_EQ(several.stats.device, std::string(list) == "cuda:all" ? "cuda:0,cuda:1" : list);
          EXPECT_EQ(several.stats.algorithm, one.stats.algorithm);
        }
      }
      // Any order: the same set.
      Selection any = select_k(numbers.dense(), select_on(list, {.k = 9, .sorted = false}));
      const Selection one = select_k(numbers.dense(), {.k = 9});
      for (std::int64_t row = 0; row < rows; ++row) {
        std::vector<std::int64_t> got(any.ids() + row * 9, any.ids() + row * 9 + 9),
            want(one.ids() + row * 9, one.ids() + row * 9 + 9);
        std::sort(got.begin(), got.end());
        std::sort(want.begin(), want.end());
        EXPECT_EQ(got, want);
      }
      // Ids alone, and values alone.
      std::vector<std::int64_t> ids(static_cast<std::size_t>(rows * 9));
      std::vector<float> values(ids.size());
      select_k_into({nullptr, ids.data(), nullptr, rows, 9}, numbers.dense(), select_on(list, {.k = 9}));
      select_k_into({values.data(), nullptr, nullptr, rows, 9}, numbers.dense(), select_on(list, {.k = 9}));
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), one.ids()));
      EXPECT_TRUE(rows == 0 || std::memcmp(values.data(), one.values(), values.size() * 4) == 0);
    }
  }
}

TEST(DeviceShares, SelectionsAreSharedByRows) {
  fakes::Devices devices;
  const Numbers numbers(5, 8);
  const Selection two = select_k(numbers.dense(), select_on("cuda:all", {.k = 2}));
  EXPECT_EQ(devices.selections, 2);
  EXPECT_EQ(two.stats.why.find("2 devices, each with 3 rows: "), 0u) << two.stats.why;
  select_k(Numbers(1, 8).dense(), select_on("cuda:all", {.k = 2}));
  EXPECT_EQ(devices.selections, 3) << "a device without rows was asked";
}

TEST(DeviceShares, SelectionsThatAreRefused) {
  fakes::Devices devices;
  const Numbers numbers(6, 8);
  const auto select = [&](const char* device) { select_k(numbers.dense(), select_on(device, {.k = 2})); };
  devices.failing = 1;
  EXPECT_REFUSED(device_error, "cuda:1: an illegal address was read", select("cuda:all"));
  devices.failing = -1;
  devices.refusal = "not these";  // one device has the words for all rows
  EXPECT_REFUSED(invalid_argument, "no selection from 6 rows: not these", select("cuda:all"));
  devices.refusal.clear();
  EXPECT_REFUSED(device_error, "no usable CUDA device 5", select("cuda:0,cuda:5"));
  EXPECT_REFUSED(invalid_argument, "several devices are of one kind", select("cpu,cuda:0"));
  SelectOptions streamed = select_on("cuda:all", {.k = 2});
  streamed.stream = &streamed;
  EXPECT_REFUSED(unsupported, "a stream is one device's", select_k(numbers.dense(), streamed));
  Values there = numbers.dense();
  there.cuda_device = 1;
  std::vector<float> out(12);
  EXPECT_REFUSED(
      device_error,
      "values are in memory of cuda:1, a selection by several devices is from and to the host's; copy them there",
      select_k_into({out.data(), nullptr, nullptr, 6, 2}, there, select_on("cuda:all", {.k = 2})));
  devices.own(out, 0);
  EXPECT_REFUSED(device_error, "values of the result are in memory of cuda:0",
                 select_k_into({out.data(), nullptr, nullptr, 6, 2}, numbers.dense(), select_on("cuda:all", {.k = 2})));
}

template <class Call>
void expect_progress_and_stop(const Call& call) {
  std::uint64_t last = 0, all = 0;
  bool ascending = true;
  call(
      [&](std::uint64_t done, std::uint64_t total) {
        ascending &= done >= last && (all == 0 || all == total);
        last = done;
        all = total;
        return true;
      },
      std::stop_token());
  EXPECT_TRUE(ascending);
  EXPECT_LE(last, all);
  EXPECT_REFUSED(cancelled, "cancelled", call([](std::uint64_t, std::uint64_t) { return false; }, std::stop_token()));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_REFUSED(cancelled, "cancelled", call(nullptr, stop.get_token()));
  struct Own {};
  EXPECT_THROW(call([](std::uint64_t, std::uint64_t) -> bool { throw Own(); }, std::stop_token()), Own);
}

TEST(DeviceShares, ProgressAndCancellation) {
  const Numbers numbers(3000, 2000);
  expect_progress_and_stop([&](const Progress& progress, const std::stop_token& stop) {
    SelectOptions options = select_on("cpu,cpu", {.k = 100, .algorithm = "heap"});
    options.progress = progress;
    options.stop = stop;
    select_k(numbers.dense(), options);
  });
}

std::vector<std::string> words(unsigned seed, std::size_t count, unsigned longest) {
  std::mt19937 random(seed);
  std::vector<std::string> made;
  while (made.size() < count) {
    std::string word(random() % (longest + 1), 'a');
    for (char& c : word) c = static_cast<char>(random() % 5 == 0 ? ' ' : 'a' + random() % 4);
    made.push_back(random() % 4 == 0 && !made.empty() ? made[random() % made.size()] : word);
  }
  return made;
}
StringList listed(const std::vector<std::string>& texts, Encoding encoding = Encoding::utf8) {
  return {std::vector<std::string_view>(texts.begin(), texts.end()), encoding};
}

TEST(DeviceShares, StringsHaveTheBitsOfOneDevice) {
  fakes::Devices devices;
  const StringList corpus = listed(words(1, 150, 90));
  std::vector<std::int64_t> labels(150), listed_ids;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  for (std::int64_t i = 3; i < 150; i += 4) listed_ids.push_back(i);
  for (const std::size_t count : {0u, 1u, 2u, 6u, 40u}) {
    const StringList queries = listed(words(2, count, 200));
    const std::vector<std::int64_t> asked(count, 1);
    KnnOptions labelled{.k = 20, .metric = Metric::levenshtein, .pad = true, .first_id = 7};
    labelled.eligible = {.ids = listed_ids,
                         .bitmap = {},
                         .labels = Eligible::Labels::other,
                         .corpus_labels = labels,
                         .query_labels = asked};
    for (const KnnOptions& options : {KnnOptions{.k = 3, .metric = Metric::levenshtein},
                                      KnnOptions{.k = 160, .metric = Metric::normalized_levenshtein, .pad = true},
                                      KnnOptions{.k = 2, .metric = Metric::jaccard}, labelled}) {
      const Neighbors one = knn(corpus.view(), queries.view(), on("cpu", options));
      for (const char* list : lists) {
        for (const std::int64_t there : {INT64_MAX, std::int64_t{5}, std::int64_t{0}}) {
          devices.most_strings = there;  // the host has the longer queries
          SCOPED_TRACE(testing::Message() << count << " queries on " << list << ", at most " << there);
          const Neighbors several = knn(corpus.view(), queries.view(), on(list, options));
          expect_same(several, one);
          EXPECT_TRUE(several.certificate.all());
          EXPECT_EQ(several.stats.pairs, 150 * static_cast<std::int64_t>(count));
          EXPECT_EQ(several.stats.device, std::string(list) == "cuda:all" ? "cuda:0,cuda:1" : list);
          if (std::string(list).starts_with("cuda") && there == 5 && count == 40) {
            EXPECT_NE(several.stats.notes.back().find("of 40 queries 35 were searched on the CPU, not on cuda:"),
                      std::string::npos);
          }
        }
      }
    }
  }
}

TEST(DeviceShares, GraphsAndRangesOfStrings) {
  fakes::Devices devices;
  for (const std::size_t count : {3u, 90u}) {
    const StringList strings = listed(words(3, count, 20), Encoding::bytes);
    for (const char* list : lists) {
      SCOPED_TRACE(testing::Message() << count << " strings on " << list);
      for (const bool self : {false, true}) {
        const GraphOptions alone{.search = {.k = 2, .metric = Metric::levenshtein}, .include_self = self};
        GraphOptions several = alone;
        several.search.run.device = list;
        expect_same(knn_graph(strings.view(), several), knn_graph(strings.view(), alone));
        EXPECT_EQ(plan_graph(strings.view(), several).device, std::string(list) == "cuda:all" ? "cuda:0,cuda:1" : list);
      }
      RangeOptions options{.search = {.metric = Metric::levenshtein, .first_id = 3}};
      const CsrNeighbors one = range_search(strings.view(), strings.view(), 6, options);
      options.search.run.device = list;
      expect_same(range_search(strings.view(), strings.view(), 6, options), one);
      options.max_results = one.entries();
      expect_same(range_search(strings.view(), strings.view(), 6, options), one);
      options.max_results = one.entries() - 1;
      EXPECT_REFUSED(capacity_exceeded,
                     cat("the result has ", one.entries(), " matches, max_results is ", one.entries() - 1),
                     range_search(strings.view(), strings.view(), 6, options));
    }
  }
}

TEST(DeviceShares, PlansOfStringsNameTheSplit) {
  fakes::Devices devices;
  const StringList corpus = listed(words(1, 150, 30)), queries = listed(words(2, 41, 200));
  const KnnOptions options{.k = 3, .metric = Metric::levenshtein};
  const Plan one = plan(corpus.view(), queries.view(), on("cpu", options)),
             several = plan(corpus.view(), queries.view(), on("cuda:all", options));
  EXPECT_EQ(several.device, "cuda:0,cuda:1");
  EXPECT_EQ(several.result_bytes, one.result_bytes);
  EXPECT_GT(several.peak_bytes, one.peak_bytes);
  EXPECT_NE(several.text().find("2 devices, by queries: each searches all rows for 21 of the 41 queries"),
            std::string::npos)
      << several.text();
  // Where memory for two is not there, one searches alone.
  KnnOptions scant = options;
  scant.memory.host = several.peak_bytes - 1;
  EXPECT_EQ(plan(corpus.view(), queries.view(), on("cuda:all", scant)).device, "cuda:0");
  scant.memory.host = one.minimum_bytes;
  const Neighbors alone = knn(corpus.view(), queries.view(), on("cpu,cpu", scant));
  expect_same(alone, knn(corpus.view(), queries.view(), on("cpu", options)));
  EXPECT_EQ(alone.stats.device, "cpu");
  scant.memory.host = 1;
  EXPECT_REFUSED(memory_budget, "this search needs at least", knn(corpus.view(), queries.view(), on("cpu,cpu", scant)));
  // As planned: two runs of queries, the longer ones in a smaller run.
  knn(corpus.view(), queries.view(), on("cuda:all", options));
  EXPECT_EQ(devices.string_runs, 2);
  knn(corpus.view(), listed(words(2, 1, 9)).view(), on("cuda:all", options));
  EXPECT_EQ(devices.string_runs, 3) << "a device without queries was asked";
  devices.failing = 1;
  EXPECT_REFUSED(device_error, "cuda:1: an illegal address was read",
                 knn(corpus.view(), queries.view(), on("cuda:all", options)));
  KnnOptions streamed = on("cuda:all", options);
  streamed.stream = &devices;
  EXPECT_REFUSED(unsupported, "a stream is one device's", knn(corpus.view(), queries.view(), streamed));
  EXPECT_REFUSED(device_error, "no usable CUDA device 5",
                 knn(corpus.view(), queries.view(), on("cuda:0,cuda:5", options)));
}

TEST(DeviceShares, APermutationIndexSharesItsQueries) {
  fakes::Devices devices;
  std::mt19937 random(6);
  const auto rows_of = [&](std::int64_t count) {
    std::vector<float> rows(static_cast<std::size_t>(count * 6));
    for (float& x : rows) x = static_cast<float>(random() % 5);
    return rows;
  };
  const std::vector<float> corpus = rows_of(300);
  const PermutationIndex index(MatrixView<float>{corpus.data(), 300, 6}, {.permutants = 12});
  for (const std::int64_t count : {0, 1, 3, 40}) {
    const std::vector<float> asked = rows_of(count);
    const Points queries = MatrixView<float>{asked.data(), count, 6};
    PermutationSearch search{.k = 7, .fraction = 0.2, .run = {.device = "cpu"}};
    const PermutationNeighbors one = index.knn(queries, search);
    const PermutationRange near = index.range(queries, 2.5, search);
    for (const char* list : lists) {
      SCOPED_TRACE(testing::Message() << count << " queries on " << list);
      search.run.device = list;
      devices.rank_runs = 0;
      const PermutationNeighbors several = index.knn(queries, search);
      expect_same(several.neighbors, one.neighbors);
      EXPECT_EQ(several.neighbors.stats.reranked, one.neighbors.stats.reranked);
      const bool there = std::string(list).starts_with("cuda");
      EXPECT_EQ(devices.rank_runs, there ? std::min<std::int64_t>(count, 2) : 0);
      EXPECT_EQ(several.neighbors.stats.device, !there || count == 0              ? "cpu"
                                                : std::string(list) == "cuda:all" ? "cuda:0,cuda:1"
                                                                                  : list);
      expect_same(index.range(queries, 2.5, search).neighbors, near.neighbors);
    }
  }
  const Points queries = MatrixView<float>{corpus.data(), 20, 6};
  PermutationSearch search{.k = 7, .fraction = 0.2, .run = {.device = "cuda:all"}};
  devices.failing = 1;
  EXPECT_REFUSED(device_error, "cuda:1: an illegal address was read", index.knn(queries, search));
  devices.failing = -1;
  search.exact = true;
  search.fraction.reset();
  const Stats stats = index.knn(queries, search).neighbors.stats;
  EXPECT_EQ(stats.notes.back(), "searched on the CPU, not on cuda:0,cuda:1: exact searches");
  search.run.device = "cuda:0,cuda:5";
  EXPECT_REFUSED(device_error, "no usable CUDA device 5", index.knn(queries, search));
}

TEST(DeviceShares, ProgressAndCancellationOfStrings) {
  const StringList corpus = listed(words(1, 20000, 30)), queries = listed(words(2, 600, 60));
  expect_progress_and_stop([&](const Progress& progress, const std::stop_token& stop) {
    KnnOptions options = on("cpu,cpu", {.k = 40, .metric = Metric::normalized_levenshtein});
    options.progress = progress;
    options.stop = stop;
    knn(corpus.view(), queries.view(), options);
  });
}

}  // namespace
}  // namespace vicinal::device_shares_test
