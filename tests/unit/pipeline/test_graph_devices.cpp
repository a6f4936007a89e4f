// Graphs by several devices, each of which has a run of the rows as queries: the bits, counts and errors of one device.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "unit/pipeline/fake_devices.hpp"
#include "unit/pipeline/several_devices.hpp"
#include "vicinal/vicinal.hpp"

namespace vicinal::graph_devices_test {
namespace {

using multi_device_test::expect_same;
using multi_device_test::lists;
using multi_device_test::on;
using multi_device_test::refusal;

/// Rows of few values, so that many are equal and more are as far; none is of zeros.
struct Table {
  std::int64_t rows, cols;
  std::vector<float> values;
  Table(std::int64_t rows, std::int64_t cols, int most, unsigned seed)
      : rows(rows), cols(cols), values(static_cast<std::size_t>(rows * cols)) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> any(1, most);
    for (float& x : values) x = static_cast<float>(any(random));
  }
  Points points() const { return MatrixView<float>{values.data(), rows, cols}; }
};

struct Case {
  const char* name;
  GraphOptions options;
};

/// What a graph may be asked for, with the memory behind it.
struct Cases {
  std::vector<std::int64_t> listed, labels, asked;
  std::vector<std::uint64_t> bits;
  std::vector<Case> all;

  explicit Cases(std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      if (i % 5 != 2) listed.push_back(i);
      labels.push_back(i * i % 7 % 3);
      asked.push_back(i % 4);
    }
    bits.assign(static_cast<std::size_t>(rows / 64 + 1), 0xA5F00F5A33CC55AAu);
    const auto add = [&](const char* name, KnnOptions search, bool include_self = false) -> Eligible& {
      all.push_back({name, {.search = std::move(search), .include_self = include_self}});
      return all.back().options.search.eligible;
    };
    const std::int64_t few = std::min<std::int64_t>(rows - 1, 4);
    add("k = 1", {.k = 1});
    add("every other row", {.k = rows - 1, .metric = Metric::sqeuclidean});
    add("every row", {.k = rows, .metric = Metric::l1}, true);
    add("itself", {.k = few}, true);
    add("more than there are", {.k = rows + 2, .metric = Metric::cosine, .pad = true});
    add("more than there are, and itself", {.k = rows + 2, .pad = true}, true);
    add("products", {.k = few, .metric = Metric::inner_product, .distance_type = DistanceType::f64});
    Eligible& range = add("a range", {.k = 6, .pad = true});
    range.first = rows / 3;
    range.last = rows - 2;
    add("ids", {.k = 6, .pad = true}).ids = listed;
    add("a bitmap", {.k = 6, .pad = true}).bitmap = bits;
    add("a bitmap and itself", {.k = 6, .pad = true}, true).bitmap = bits;
    for (const auto rule : {Eligible::Labels::same, Eligible::Labels::other}) {
      for (const bool itself : {false, true}) {
        Eligible& labelled = add("labels", {.k = 5, .pad = true}, itself);
        labelled.labels = rule;
        labelled.corpus_labels = labels;
        add("labels of queries", {.k = 5, .pad = true}, itself) = {
            .ids = listed, .bitmap = bits, .labels = rule, .corpus_labels = labels, .query_labels = asked};
      }
    }
  }
};

TEST(GraphDevices, KeptCorporaHaveTheBitsOfOneDevice) {
  fakes::Devices devices;
  for (const std::int64_t rows : {2, 3, 5, 7, 64, 65, 300}) {
    const Cases cases(rows);
    for (const std::int64_t cols : {2, 17}) {
      const Table table(rows, cols, cols == 2 ? 4 : 2, 3);
      for (const auto& [name, asked] : cases.all) {
        GraphOptions options = asked;
        options.search.run = {.device = "cpu", .threads = 2};
        const Neighbors one = knn_graph(table.points(), options);
        for (const char* list : lists) {
          SCOPED_TRACE(testing::Message() << rows << " x " << cols << " on " << list << ": " << name);
          const Corpus kept(table.points(), {.metric = options.search.metric, .run = {.device = list}});
          ASSERT_TRUE(kept.resident());
          options.search.run.device = list;
          const Neighbors several = kept.knn_graph(options);
          expect_same(several, one);
          EXPECT_EQ(several.stats.pairs, rows * rows);
          EXPECT_EQ(several.certificate.queries, rows);
          EXPECT_TRUE(several.certificate.all());
        }
      }
    }
  }
}

/// Without the number of its first row a run would leave out rows of the first one, and find each of its own at distance 0.
TEST(GraphDevices, ARunLeavesOutItsOwnRows) {
  Table line(90, 1, 1, 1);
  for (std::size_t i = 0; i < line.values.size(); ++i) line.values[i] = static_cast<float>(i * i);
  const Corpus kept(line.points(), {.run = {.device = "cpu,cpu,cpu"}});
  const Neighbors graph = kept.knn_graph({.search = {.k = 1}});
  EXPECT_EQ(graph.id(0, 0), 1);
  const std::vector<float> four{0, 1, 3, 6};  // of which the last device has none
  EXPECT_FALSE(Corpus(Points(four.data(), DType::f32, 4, 1), {.run = {.device = "cpu,cpu,cpu"}})
                   .knn_graph({.search = {.k = 1}})
                   .stats.instruction_set.empty());
  for (std::int64_t i = 1; i < line.rows; ++i) {
    EXPECT_EQ(graph.id(i, 0), i - 1);
    EXPECT_EQ(graph.distance(i, 0), static_cast<double>(2 * i - 1));
  }
  const Neighbors whole = kept.knn_graph({.search = {.k = 89}});
  for (std::int64_t i = 0; i < whole.rows(); ++i)
    for (std::int64_t j = 0; j < whole.k(); ++j) EXPECT_NE(whole.id(i, j), i);
}

/// Of one call rows are divided as queries where each device has 16,384 of them.
TEST(GraphDevices, ManyRowsOfOneCallAreQueries) {
  fakes::Devices devices;
  const struct {
    const char* list;
    std::int64_t rows, cols, share;
  } shapes[] = {{"cpu,cpu", 2 * 16384 + 1, 3, 16385}, {"cuda:all", 2 * 16384, 3, 16384}, {"cpu,cpu", 32801, 20, 16401}};
  for (const auto& [list, rows, cols, share] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << " on " << list);
    const Table table(rows, cols, 40, 8);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i % 5);
    for (const bool labelled : {false, true}) {
      if (labelled && cols > 3) continue;
      GraphOptions options{.search = {.k = 4, .pad = labelled}};
      if (labelled) {
        options.search.eligible.labels = Eligible::Labels::other;
        options.search.eligible.corpus_labels = labels;
      }
      const Neighbors one = knn_graph(table.points(), options);
      options.search.run.device = list;
      const Plan plan = plan_graph(table.points(), options);
      EXPECT_NE(plan.text().find(
                    cat("2 devices, by queries: each searches all rows for ", share, " of the ", rows, " queries")),
                std::string::npos)
          << plan.text();
      EXPECT_EQ(plan.result_bytes, rows * 4 * 12);
      EXPECT_FALSE(plan.symmetric);
      const Neighbors several = knn_graph(table.points(), options);
      EXPECT_EQ(several.stats.notes.front(), cat("2 devices, each with ", share, " queries"));
      expect_same(several, one);
    }
  }
}

TEST(GraphDevices, FewRowsOfOneCallAreDivided) {
  const Table table(300, 8, 5, 1);
  const GraphOptions options{.search = on("cpu,cpu", {.k = 5})};
  EXPECT_NE(plan_graph(table.points(), options).text().find("2 devices, by rows"), std::string::npos);
  EXPECT_EQ(knn_graph(table.points(), options).stats.notes.front(),
            "2 devices, each with 192 rows of the corpus; their lists are merged");
  const Cases cases(300);
  for (const auto& [name, asked] : cases.all) {
    SCOPED_TRACE(name);
    GraphOptions several = asked;
    several.search.run.device = "cpu,cpu,cpu";
    expect_same(knn_graph(table.points(), several), knn_graph(table.points(), asked));
  }
}

TEST(GraphDevices, RefusesAsOneDeviceDoes) {
  Table table(2 * 16384, 3, 30, 4);
  const auto expect_same_words = [&](ErrorCode code, GraphOptions options) {
    const auto message = [&](const char* list) {
      options.search.run.device = list;
      return refusal(code, [&] { knn_graph(table.points(), options); });
    };
    EXPECT_EQ(message("cpu,cpu"), message("cpu"));
  };
  std::vector<std::int64_t> labels(static_cast<std::size_t>(table.rows), 1);
  labels[20000] = labels[20001] = 2;
  GraphOptions labelled{.search = {.k = 2}};
  labelled.search.eligible.labels = Eligible::Labels::same;
  labelled.search.eligible.corpus_labels = labels;
  expect_same_words(ErrorCode::invalid_argument, labelled);  // of query 20000
  expect_same_words(ErrorCode::invalid_argument, {.search = {.k = table.rows}});
  expect_same_words(ErrorCode::memory_budget, {.search = {.k = 3, .memory = {.host = 10}}});
  table.values[20000 * 3] = std::numeric_limits<float>::quiet_NaN();
  expect_same_words(ErrorCode::invalid_value, {.search = {.k = 3}});
  for (std::size_t i = 0; i < 3; ++i) table.values[20000 * 3 + i] = 0;
  expect_same_words(ErrorCode::invalid_value, {.search = {.k = 3, .metric = Metric::cosine}});
  // A row that is beyond f32 from all others is refused in its own list, and is none of theirs.
  for (std::size_t i = 0; i < 3; ++i) table.values[20000 * 3 + i] = 3e38F;
  expect_same_words(ErrorCode::range_error, {.search = {.k = 3, .metric = Metric::sqeuclidean}});
  const Table few(40, 2, 9, 3);
  const Corpus kept(few.points(), {.run = {.device = "cpu,cpu,cpu"}});
  EXPECT_REFUSED(invalid_argument, "k=40 exceeds the 39 other rows", kept.knn_graph({.search = {.k = 40}}));
  GraphOptions one_fewer{.search = {.k = 39}};
  one_fewer.search.eligible.first = 1;
  EXPECT_REFUSED(invalid_argument, "k=39 exceeds 38 eligible rows of query 1", kept.knn_graph(one_fewer));
}

TEST(GraphDevices, ProgressAndCancellation) {
  const Table table(2 * 16384, 20, 30, 4);
  GraphOptions options{.search = on("cpu,cpu", {.k = 3})};
  std::uint64_t last = 0;
  options.search.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    EXPECT_EQ(all, std::uint64_t{1} << 30);
    last = done;
    return done < all / 4;
  };
  EXPECT_REFUSED(cancelled, "cancelled", knn_graph(table.points(), options));
  EXPECT_GT(last, 0u);
}

TEST(GraphDevices, WithoutRowsAndOfOne) {
  const Table one(1, 3, 9, 3);
  for (const char* list : {"cpu,cpu", "cpu,cpu,cpu"}) {
    for (const bool self : {false, true}) {
      for (const std::int64_t rows : {0, 1}) {
        const GraphOptions alone{.search = {.k = 2, .pad = true}, .include_self = self};
        GraphOptions several = alone;
        several.search.run.device = list;
        const Neighbors want = knn_graph(one.points().slice(0, rows), alone);
        expect_same(knn_graph(one.points().slice(0, rows), several), want);
        const Corpus kept(one.points().slice(0, rows), {.run = {.device = list}});
        expect_same(kept.knn_graph(several), want);
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::graph_devices_test
