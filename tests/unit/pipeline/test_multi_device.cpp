// Searches by several devices: the bits of one, with shards of odd sizes, none, and more devices than rows; progress, failures and refusals.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "pipeline/multi_device.hpp"
#include "unit/pipeline/fake_devices.hpp"
#include "unit/pipeline/several_devices.hpp"
#include "vicinal/vicinal.hpp"

namespace vicinal::multi_device_test {
namespace {

struct Table {
  std::int64_t rows, cols;
  std::vector<float> values;
  Table(std::int64_t rows, std::int64_t cols, unsigned seed)
      : rows(rows), cols(cols), values(static_cast<std::size_t>(rows * cols)) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> few(1, 5);  // many ties, no row of zeros
    for (float& x : values) x = static_cast<float>(few(random));
  }
  Points points() const { return MatrixView<float>{values.data(), rows, cols}; }
};

TEST(MultiDevice, HasTheBitsOfOneDevice) {
  fakes::Devices devices;
  const Table queries(11, 9, 2);
  for (const std::int64_t rows : {1, 2, 5, 63, 64, 65, 200, 1000}) {
    const Table corpus(rows, 9, 3);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows)), asked(11), listed;
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = static_cast<std::int64_t>(i % 3);
    for (std::int64_t i = 7; i < rows; i += 5) listed.push_back(i);
    const std::vector<std::uint64_t> bits(static_cast<std::size_t>(rows / 64 + 1), 0xA5F00F5A33CC55AAu);
    KnnOptions labelled{.k = 20, .pad = true, .first_id = 7};
    labelled.eligible = {.ids = listed,
                         .bitmap = bits,
                         .labels = Eligible::Labels::other,
                         .corpus_labels = labels,
                         .query_labels = asked};
    const KnnOptions all[] = {{.k = 1},
                              {.k = rows, .metric = Metric::inner_product},
                              {.k = rows + 3, .metric = Metric::cosine, .pad = true},
                              {.k = 1, .metric = Metric::l1, .distance_type = DistanceType::f64},
                              labelled};
    for (const KnnOptions& options : all) {
      const Neighbors one = knn(corpus.points(), queries.points(), on("cpu", options));
      for (const char* list : lists) {
        SCOPED_TRACE(testing::Message() << rows << " rows on " << list << ", k=" << options.k);
        const Neighbors many = knn(corpus.points(), queries.points(), on(list, options));
        expect_same(many, one);
        EXPECT_TRUE(many.certificate.all());
        EXPECT_EQ(many.certificate.queries, 11);
        EXPECT_EQ(many.stats.pairs, rows * 11);
        const Corpus kept(corpus.points(), {.metric = options.metric, .run = {.device = list}});
        EXPECT_TRUE(kept.resident());
        expect_same(kept.knn(queries.points(), on("auto", options)), one);
        expect_same(kept.knn(queries.points(), on(list, options)), one);
      }
    }
  }
}

TEST(MultiDevice, GraphsRangesAndFewQueries) {
  fakes::Devices devices;
  for (const std::int64_t rows : {2, 65, 1333}) {  // lists of 1333 rows are put together by several threads
    const Table corpus(rows, 6, 4), queries(3, 6, 5);
    for (const char* list : lists) {
      SCOPED_TRACE(testing::Message() << rows << " rows on " << list);
      for (const bool self : {false, true}) {
        const GraphOptions alone{.search = {.k = std::min<std::int64_t>(rows - 1, 7)}, .include_self = self};
        GraphOptions several = alone;
        several.search.run.device = list;
        expect_same(knn_graph(corpus.points(), several), knn_graph(corpus.points(), alone));
        const Corpus kept(corpus.points(), {.run = {.device = list}});
        several.search.run.device = "auto";
        expect_same(kept.knn_graph(several), knn_graph(corpus.points(), alone));
      }
      RangeOptions several{.search = {.first_id = 5}};
      const CsrNeighbors one = range_search(corpus.points(), queries.points(), 3.5, several);
      several.search.run.device = list;
      expect_same(range_search(corpus.points(), queries.points(), 3.5, several), one);
      several.max_results = one.entries();
      expect_same(range_search(corpus.points(), queries.points(), 3.5, several), one);
      if (one.entries() > 1) {
        several.max_results = one.entries() - 1;
        EXPECT_REFUSED(capacity_exceeded,
                       cat("the result has ", one.entries(), " matches, max_results is ", one.entries() - 1),
                       range_search(corpus.points(), queries.points(), 3.5, several));
      }
      const Neighbors none = knn(corpus.points(), queries.points().slice(0, 0), on(list, {.k = 2}));
      EXPECT_EQ(none.rows(), 0);
      expect_same(knn(corpus.points().slice(0, 0), queries.points(), on(list, {.k = 2, .pad = true})),
                  knn(corpus.points().slice(0, 0), queries.points(), {.k = 2, .pad = true}));
    }
  }
}

TEST(MultiDevice, PlansNameTheSplit) {
  const Plan rows = plan({100000, 16}, {50, 16}, on("cpu,cpu", {.k = 5}));
  EXPECT_EQ(rows.device, "cpu,cpu");
  EXPECT_NE(rows.text().find("2 devices, by rows: each searches 50048 of the 100000 rows"), std::string::npos)
      << rows.text();
  EXPECT_EQ(rows.result_bytes, 50 * 5 * 12);
  const Plan queries = plan({1000, 16}, {100000, 16}, on("cpu,cpu", {.k = 5}));
  EXPECT_NE(queries.text().find("by queries: each searches all rows for 50000 of the 100000 queries"),
            std::string::npos);
  EXPECT_EQ(queries.result_bytes, 100000 * 5 * 12);
  const Table corpus(300, 8, 1);
  EXPECT_EQ(plan(corpus.points(), corpus.points(), on("cpu,cpu,cpu", {.k = 5})).device, "cpu,cpu,cpu");
  EXPECT_EQ(plan_graph(corpus.points(), {.search = on("cpu,cpu", {.k = 5})}).device, "cpu,cpu");
  EXPECT_EQ(plan_graph(Shape{300, 8}, {.search = on("cpu,cpu", {.k = 5})}).device, "cpu,cpu");
  EXPECT_EQ(plan_range(corpus.points(), {9, 8}, 1.0, {.search = on("cpu,cpu", {})}).device, "cpu,cpu");
  EXPECT_EQ(plan_range(Shape{300, 8}, {9, 8}, {.search = on("cpu,cpu", {})}).device, "cpu,cpu");
  // By queries, as planned: the bits are those of one device.
  const Table few(70, 4, 2), many(40000, 4, 3);
  const Neighbors two = knn(few.points(), many.points(), on("cpu,cpu", {.k = 3}));
  EXPECT_EQ(two.stats.notes.front(), "2 devices, each with 20000 queries");
  expect_same(two, knn(few.points(), many.points(), {.k = 3}));
}

TEST(MultiDevice, ADeviceThatFailsIsNamed) {
  fakes::Devices devices;
  const Table corpus(300, 9, 3), queries(5, 9, 4);
  devices.refuse_after = 0;
  devices.most_bytes = 10;  // and again each time that less is tried
  EXPECT_REFUSED(out_of_memory, "cuda:", knn(corpus.points(), queries.points(), on("cuda:all", {.k = 3})));
}

TEST(MultiDevice, SaysBadRowsAsOneDeviceDoes) {
  Table corpus(300, 9, 3);
  const Table queries(5, 9, 4);
  const auto message = [&](const char* device) {
    return refusal(ErrorCode::invalid_value, [&] { knn(corpus.points(), queries.points(), on(device, {.k = 3})); });
  };
  corpus.values[static_cast<std::size_t>(290 * 9 + 4)] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message("cpu,cpu"), message("cpu"));
  // Distances beyond f32 that no list of the whole has, and a shard of one row would: no error.
  Table huge(65, 2, 3);
  for (float& x : huge.values) x = 1;
  huge.values[128] = huge.values[129] = 3e38F;
  const Table near(1, 2, 1);
  expect_same(knn(huge.points(), near.points(), on("cpu,cpu", {.k = 4, .metric = Metric::sqeuclidean})),
              knn(huge.points(), near.points(), {.k = 4, .metric = Metric::sqeuclidean}));
}

TEST(MultiDevice, ProgressAndCancellation) {
  const Table corpus(60000, 32, 3), queries(400, 32, 4);
  KnnOptions options = on("cpu,cpu", {.k = 3});
  std::uint64_t last = 0, total = 0;
  bool ascending = true;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    ascending &= done >= last;
    last = done;
    total = all;
    return true;
  };
  knn(corpus.points(), queries.points(), options);
  EXPECT_TRUE(ascending);
  EXPECT_EQ(total, 60000u * 400u);
  EXPECT_EQ(last, total);
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_REFUSED(cancelled, "cancelled", knn(corpus.points(), queries.points(), options));
  options.progress = nullptr;
  std::stop_source stop;
  stop.request_stop();
  options.stop = stop.get_token();
  EXPECT_REFUSED(cancelled, "cancelled", knn(corpus.points(), queries.points(), options));
  options.stop = {};
  struct Own {};
  options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw Own(); };
  EXPECT_THROW(knn(corpus.points(), queries.points(), options), Own);
}

TEST(MultiDevice, Refusals) {
  fakes::Devices devices;
  Table corpus(40, 4, 3);
  const Table queries(5, 4, 4);
  const auto search = [&](const char* device) { knn(corpus.points(), queries.points(), on(device, {.k = 3})); };
  EXPECT_REFUSED(invalid_argument, "cuda:0 is named twice", search("cuda:0,cuda:1,cuda"));
  EXPECT_REFUSED(invalid_argument, "several devices are of one kind", search("cpu,cuda:0"));
  EXPECT_REFUSED(invalid_argument, "unknown device \"gpu\"", search("cuda:0,gpu"));
  EXPECT_REFUSED(invalid_argument, "unknown device \"\"", search("cpu,"));
  EXPECT_REFUSED(invalid_argument, "unknown device \"auto\"", search("auto,cpu"));
  EXPECT_REFUSED(device_error, "no usable CUDA device 5", search("cuda:0,cuda:5"));
  KnnOptions streamed = on("cuda:all", {.k = 3});
  streamed.stream = &corpus;
  EXPECT_REFUSED(unsupported, "a stream is one device's", knn(corpus.points(), queries.points(), streamed));
  devices.own(corpus.values, 0);
  EXPECT_REFUSED(device_error, "memory of cuda:0", search("cuda:all"));
  const Corpus alone(queries.points(), {.run = {.device = "cpu"}});
  EXPECT_REFUSED(device_error, "the corpus was prepared for cpu, and device=cpu,cpu",
                 alone.knn(queries.points(), on("cpu,cpu", {.k = 1})));
}

TEST(MultiDevice, GroundTruthOnThem) {
  const Table corpus(700, 5, 3), queries(9, 5, 4);
  const std::vector<Points> parts{corpus.points().slice(0, 333), corpus.points().slice(333, 367)};
  const GroundTruth truth =
      ground_truth(parts, queries.points(), {.search = on("cpu,cpu", {.k = 8}), .tiers = {100, 700}});
  expect_same(truth.tiers[0].nearest, knn(corpus.points().slice(0, 100), queries.points(), {.k = 8}));
  expect_same(truth.tiers[1].nearest, knn(corpus.points(), queries.points(), {.k = 8}));
}

void expect_same(const Matches& a, const Matches& b) {
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_TRUE(a.rows == b.rows);
  EXPECT_TRUE(a.ratios == b.ratios);
  ASSERT_EQ(a.distances.type(), b.distances.type());
  for (std::size_t i = 0; i < a.distances.size(); ++i) EXPECT_EQ(a.distances[i], b.distances[i]);
}

TEST(MultiDevice, MatchesOfPairsOfImages) {
  fakes::Devices devices;
  std::vector<Table> tables;
  std::mt19937 random(4);
  std::uniform_real_distribution<float> moved(0, 0.2f);
  for (const std::int64_t rows : {40, 1, 0, 33, 70}) {
    Table& table = tables.emplace_back(rows, 5, 9u);
    for (float& x : table.values) x += moved(random);
  }
  std::vector<Points> images;
  for (const Table& table : tables) images.push_back(table.points());
  std::vector<ImagePair> pairs = image_pairs("exhaustive", 5);
  pairs.push_back({3, 3});
  MatchOptions options{.ratio = 0.95};
  options.run.device = "cpu";
  const Matches one = match_pairs(images, pairs, options), none = match_pairs(images, {}, options);
  EXPECT_GT(one.rows.size(), 20u);
  for (const char* list : lists) {
    SCOPED_TRACE(list);
    options.run.device = list;
    std::uint64_t last = 0, total = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_LE(last, done);
      last = done;
      total = all;
      return true;
    };
    expect_same(match_pairs(images, pairs, options), one);
    EXPECT_EQ(last, total);
    options.progress = nullptr;
    expect_same(match_pairs(images, {}, options), none);
  }
  options.run.device = "cpu,cpu";
  tables[4].values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_REFUSED(invalid_value, "image 4", match_pairs(images, pairs, options));
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  tables[4].values[7] = 1;
  std::vector<ImagePair> many(20000, ImagePair{0, 4});
  EXPECT_REFUSED(cancelled, "", match_pairs(images, many, options));
}

}  // namespace
}  // namespace vicinal::multi_device_test
