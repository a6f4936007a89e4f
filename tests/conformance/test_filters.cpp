// Filters at sizes where they do what small cases never make them do: int8 that certifies, escalates or is declined by the pilot, whole
// numbers, groups of rows with few columns. Beside them the scan of every pair, which is tested against the oracle elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "conformance/lists.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;
using vicinal::KnnOptions;
using vicinal::Neighbors;

/// A value of row i; data that differ in what they ask of a filter.
struct Data {
  const char* name;
  double (*value)(Rng& rng, std::int64_t row, std::int64_t col);
};
const Data all_data[] = {
    {"gaussian", [](Rng& rng, std::int64_t, std::int64_t) { return rng.gauss(); }},
    {"heavy tails",
     [](Rng& rng, std::int64_t, std::int64_t) { return rng.gauss() / std::sqrt(-std::log(1 - rng.uniform()) + 1e-9); }},
    {"tight clusters",
     [](Rng& rng, std::int64_t row, std::int64_t col) {
       return static_cast<double>((row * 37 + col * 11) % 23) + 1e-5 * rng.gauss();
     }},
    {"far away", [](Rng& rng, std::int64_t, std::int64_t) { return 1e6 + rng.gauss(); }},
    {"all equal", [](Rng&, std::int64_t, std::int64_t) { return 3.25; }},
    {"small integers", [](Rng& rng, std::int64_t, std::int64_t) { return static_cast<double>(rng.between(0, 3)); }},
    {"bytes with outliers",
     [](Rng& rng, std::int64_t row, std::int64_t) {
       return static_cast<double>(rng.between(0, 255)) * (row % 501 == 17 ? 40 : 1);
     }},
    {"a few large columns",
     [](Rng& rng, std::int64_t, std::int64_t col) { return rng.gauss() * (col % 13 == 5 ? 300 : 1); }},
    {"from near to far", [](Rng& rng, std::int64_t row,
                            std::int64_t) { return rng.gauss() * std::ldexp(1.0, static_cast<int>(row / 97 % 30)); }},
};

Table make(const Data& data, Rng& rng, DType type, std::int64_t n, std::int64_t d) {
  std::vector<double> values(static_cast<std::size_t>(n * d));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < d; ++j) values[static_cast<std::size_t>(i * d + j)] = data.value(rng, i, j);
  return {type, n, d, values};
}

Neighbors scanned(const Table& corpus, const Table& queries, KnnOptions options) {
  options.proof = vicinal::Proof::exhaustive;
  return vicinal::knn(corpus.points(), queries.points(), options);
}

TEST(Filters, EveryPrecisionOnEveryKindOfData) {
  Rng rng(11), share(26);
  for (const Data& data : all_data)
    for (const Metric metric : {Metric::sqeuclidean, Metric::cosine, Metric::inner_product})
      for (const DType type : {DType::f32, DType::u8}) {
        if (!in_share(share, 0.3)) continue;
        const std::int64_t d = rng.between(16, 70);
        const Table corpus = make(data, rng, type, 2000, d),
                    queries = make(data, rng, rng.chance(0.7) ? type : DType::f32, 40, d);
        KnnOptions options;
        options.metric = metric;
        options.k = rng.chance(0.5) ? 10 : 150;
        options.degenerate = vicinal::Degenerate::one;
        const Neighbors want = scanned(corpus, queries, options);
        for (const char* filter : {"auto", "int8", "rotated", "projected", "f32"}) {
          options.run.filter = filter;
          options.run.instruction_set = rng.pick(instruction_sets());
          const std::string text = std::string(data.name) + " " + metric_name(metric) + " " +
                                   vicinal::dtype_name(type) + " d=" + std::to_string(d) + " " + filter + " " +
                                   options.run.instruction_set;
          EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
          const Corpus kept(corpus.points(), {.metric = metric, .degenerate = options.degenerate, .run = options.run});
          EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << text << " kept";
        }
      }
}

// A pair within the radius that is not in the result was excluded wrongly. Most pairs are near the radius.
TEST(Filters, NothingWithinARadiusIsExcluded) {
  Rng rng(12);
  for (const Data& data : all_data)
    for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product, Metric::l1}) {
      const std::int64_t d = rng.between(3, 40);
      const Table corpus = make(data, rng, DType::f32, std::max<std::int64_t>(400, scaled(1500)), d),
                  queries = make(data, rng, DType::f32, 60, d);
      KnnOptions some{.k = 200, .metric = metric, .degenerate = vicinal::Degenerate::one};
      const Neighbors near = scanned(corpus, queries, some);
      const double radius = near.distance(0, rng.between(0, 199));
      vicinal::RangeOptions options;
      options.search.metric = metric;
      options.search.degenerate = some.degenerate;
      options.search.run.filter = "canonical";
      const vicinal::CsrNeighbors want = vicinal::range_search(corpus.points(), queries.points(), radius, options);
      for (const char* filter : {"int8", "rotated", "projected", "f32"}) {
        options.search.run.filter = filter;
        const vicinal::CsrNeighbors got = vicinal::range_search(corpus.points(), queries.points(), radius, options);
        ASSERT_EQ(got.entries(), want.entries())
            << data.name << " " << metric_name(metric) << " d=" << d << " " << filter;
        for (std::int64_t i = 0; i < want.entries(); ++i)
          ASSERT_EQ(got.ids()[i], want.ids()[i]) << data.name << " " << filter;
      }
    }
}

// Where queries lie at the centre of the rows and an outlier makes the step of a tile large, the bias of a row that rounds to nothing leaves the range of
// its integers: its sum says nothing of its distance, whatever its second byte says.
TEST(Filters, RowsThatRoundToNothingBesideAnOutlier) {
  Rng rng(31);
  for (const std::string& set : instruction_sets())
    for (const std::int64_t pairs : {6, 40, 300})
      for (const std::int64_t d : {16, 256, 300}) {
        const double outlier = std::pow(10.0, static_cast<double>(rng.between(1, 5)));
        std::vector<double> values(static_cast<std::size_t>(2 * pairs * d)), near(static_cast<std::size_t>(3 * d));
        for (std::int64_t i = 0; i < pairs; ++i)
          for (std::int64_t j = 0; j < d; ++j) {
            const double value = rng.gauss() * (i == 0 ? outlier : 1);
            values[static_cast<std::size_t>(i * d + j)] = value;
            values[static_cast<std::size_t>((pairs + i) * d + j)] = -value;
          }
        for (std::int64_t j = 0; j < d; ++j) near[static_cast<std::size_t>(d + j)] = 1e-7 * rng.gauss();
        near[static_cast<std::size_t>(2 * d + 3)] = 2.4e-7;
        const Table corpus(DType::f32, 2 * pairs, d, values), queries(DType::f32, 3, d, near);
        KnnOptions options;
        options.run.instruction_set = set;
        for (const char* filter : {"auto", "int8", "rotated", "projected"}) {
          options.run.filter = filter;
          const std::string text = std::string(filter) + " " + set + " d=" + std::to_string(d);
          const Corpus kept(corpus.points(), {.run = options.run});
          for (const std::int64_t k : {1, 2, 5, 11}) {
            options.k = k;
            const Neighbors want = scanned(corpus, queries, options);
            EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << text << " kept";
            EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
            vicinal::RangeOptions range{.search = options};
            const double radius = want.distance(0, k - 1);
            const vicinal::CsrNeighbors got = kept.range_search(queries.points(), radius, range);
            range.search.run.filter = "canonical";
            const vicinal::CsrNeighbors all = vicinal::range_search(corpus.points(), queries.points(), radius, range);
            ASSERT_EQ(got.entries(), all.entries()) << text << " range";
            EXPECT_TRUE(std::equal(got.ids(), got.ids() + got.entries(), all.ids())) << text << " range";
          }
        }
      }
}

// Scaled to the size of the others such a row is infinite, and a sum of its columns is no number.
TEST(Filters, ARowBeyondFp64WhereOthersAreRotatedOrProjected) {
  Rng rng(32);
  for (const std::string& set : instruction_sets())
    for (const Metric metric : {Metric::euclidean, Metric::inner_product})
      for (const std::int64_t d : {16, 64, 300}) {
        const std::int64_t n = 600;
        std::vector<double> values(static_cast<std::size_t>(n * d));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 1e-100 * rng.gauss() * (static_cast<std::int64_t>(i) % d % 13 == 5 ? 300 : 1);
        std::fill_n(values.begin() + 123 * d, d, 1e250);
        const Table corpus(DType::f64, n, d, values),
            queries(DType::f64, 5, d, std::vector<double>(values.begin(), values.begin() + 5 * d));
        KnnOptions options;
        options.metric = metric;
        options.k = 20;
        options.run.instruction_set = set;
        const Neighbors want = scanned(corpus, queries, options);
        for (const char* filter : {"rotated", "projected"}) {
          options.run.filter = filter;
          const std::string text =
              std::string(filter) + " " + metric_name(metric) + " " + set + " d=" + std::to_string(d);
          const Corpus kept(corpus.points(), {.metric = metric, .run = options.run});
          EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << text << " kept";
          EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
        }
      }
}

TEST(Filters, GroupsOfRowsWithFewColumns) {
  Rng rng(13);
  for (const Data& data : all_data)
    for (const std::int64_t d : {1, 2, 3, 5, 8}) {
      const Table corpus = make(data, rng, rng.chance(0.5) ? DType::f32 : DType::f64, 2500, d),
                  queries = make(data, rng, DType::f32, 70, d);
      KnnOptions options;
      options.metric = rng.pick(std::vector<Metric>{Metric::sqeuclidean, Metric::euclidean, Metric::l1, Metric::linf});
      options.k = rng.chance(0.5) ? 7 : 120;
      if (rng.chance(0.3)) options.eligible.first = 900;
      options.run.instruction_set = rng.pick(instruction_sets());
      const Corpus kept(corpus.points(), {.metric = options.metric, .run = options.run});
      const std::string text = std::string(data.name) + " " + metric_name(options.metric) + " d=" + std::to_string(d) +
                               " " + options.run.instruction_set;
      options.run.threads = static_cast<int>(rng.between(1, 3));
      EXPECT_EQ(difference(kept.knn(queries.points(), options), scanned(corpus, queries, options)), "") << text;
    }
}

// The k nearest of up to 16 are a list in registers (NearestFew), more are a pool: the same rows, ties and masked ones among them.
TEST(Filters, NearestOfATreeAroundWhatRegistersHold) {
  Rng rng(33);
  for (const Data& data : all_data)
    for (const std::string& set : instruction_sets())
      for (const std::int64_t k : {1, 15, 16, 17}) {
        const std::int64_t d = rng.between(1, 8), n = 1100;
        const Table corpus = make(data, rng, DType::f32, n, d), queries = make(data, rng, DType::f32, 9, d);
        KnnOptions options;
        options.metric =
            rng.pick(std::vector<Metric>{Metric::sqeuclidean, Metric::euclidean, Metric::l1, Metric::linf});
        options.k = k;
        options.pad = true;
        options.first_id = rng.chance(0.5) ? 0 : 1'000'000'000'000;
        if (rng.chance(0.3)) options.eligible.first = options.first_id + n - rng.between(1, 40);
        options.run.instruction_set = set;
        const Corpus kept(corpus.points(), {.metric = options.metric, .run = options.run});
        EXPECT_EQ(difference(kept.knn(queries.points(), options), scanned(corpus, queries, options)), "")
            << data.name << " " << metric_name(options.metric) << " d=" << d << " k=" << k << " " << set;
      }
}

bool takes_tree(const vicinal::Plan& plan) {
  return std::any_of(plan.details.begin(), plan.details.end(),
                     [](const std::string& detail) { return detail.find("k-d tree") != std::string::npos; });
}

// As many queries as make a k-d tree pay in one call: a graph, a range search and a search, in memory for all and for little.
TEST(Filters, KdTreesInOneCall) {
  Rng rng(14);
  const Table rows = make(all_data[0], rng, DType::f32, 4200, 3);
  vicinal::GraphOptions graph;
  graph.search.k = 5;
  EXPECT_TRUE(takes_tree(vicinal::plan_graph(shape_of(rows.points()), graph)));
  const Neighbors got = vicinal::knn_graph(rows.points(), graph);
  graph.search.proof = vicinal::Proof::exhaustive;
  EXPECT_EQ(difference(got, vicinal::knn_graph(rows.points(), graph)), "");

  vicinal::RangeOptions range;
  EXPECT_TRUE(takes_tree(vicinal::plan_range(shape_of(rows.points()), shape_of(rows.points()), range)));
  const vicinal::CsrNeighbors within = vicinal::range_search(rows.points(), rows.points(), 0.1, range);
  range.search.proof = vicinal::Proof::exhaustive;
  const vicinal::CsrNeighbors all = vicinal::range_search(rows.points(), rows.points(), 0.1, range);
  ASSERT_EQ(within.entries(), all.entries());
  for (std::int64_t i = 0; i < all.entries(); ++i) ASSERT_EQ(within.ids()[i], all.ids()[i]);

  KnnOptions options;
  const Neighbors want = scanned(rows, rows, options);
  for (const Memory memory : all_memory)
    EXPECT_EQ(difference(vicinal::knn(rows.points(), rows.points(),
                                      apply({.memory = memory}, options, rows.points(), rows.points())),
                         want),
              "")
        << memory_name(memory);
  Table bad = rows;
  bad.set(4100, 1, std::nan(""));
  EXPECT_EQ(refusal([&] { vicinal::knn(rows.points(), bad.points(), options); }).code,
            vicinal::ErrorCode::invalid_value);
  EXPECT_EQ(refusal([&] { vicinal::knn(bad.points(), rows.points(), options); }).code,
            vicinal::ErrorCode::invalid_value);
}

// So many rows that all threads split them; coarse values, so that ids decide; more answers than a pool keeps in order, and fewer than k.
TEST(Filters, KdTreesOfManyRows) {
  Rng rng(15), share(18);
  std::vector<double> values(70'000 * 3);
  for (double& x : values) x = std::floor(12 * rng.gauss());
  const Table rows(DType::f32, 70'000, 3, values), queries(DType::f32, 600, 3, {values.begin(), values.begin() + 1800});
  for (const std::int64_t k : {10, 90})
    for (const int threads : {1, 4}) {
      if (threads == 1 && !in_share(share)) continue;
      KnnOptions options{.k = k, .pad = true};
      options.run.threads = threads;
      if (k == 90) options.eligible.first = 70'000 - 60;
      EXPECT_EQ(difference(vicinal::knn(rows.points(), queries.points(), options), scanned(rows, queries, options)), "")
          << k << " of " << threads << " threads";
    }
}

TEST(Filters, TilesThatServeBothSidesOfAGraph) {
  Rng rng(16), share(27);
  for (const Data& data : all_data)
    for (const Metric metric : {Metric::sqeuclidean, Metric::cosine, Metric::inner_product}) {
      if (!in_share(share, 0.3)) continue;
      const Table rows =
          make(data, rng, rng.chance(0.7) ? DType::f32 : DType::u8, 1100 + rng.between(0, 300), rng.between(16, 60));
      vicinal::GraphOptions options;
      options.search.metric = metric;
      options.search.k = rng.chance(0.7) ? 8 : 90;
      options.search.degenerate = vicinal::Degenerate::one;
      options.search.run.threads = static_cast<int>(rng.between(1, 2));
      if (rng.chance(0.2)) options.search.eligible.last = 700;
      options.include_self = rng.chance(0.2);
      options.search.proof = vicinal::Proof::exhaustive;
      const Neighbors want = vicinal::knn_graph(rows.points(), options);
      options.search.proof = vicinal::Proof::certified;
      for (const char* filter : {"int8", "rotated", "projected", "f32"}) {
        options.search.run.filter = filter;
        options.search.run.instruction_set = rng.pick(instruction_sets());
        EXPECT_TRUE(vicinal::plan_graph(shape_of(rows.points()), options).symmetric);
        EXPECT_EQ(difference(vicinal::knn_graph(rows.points(), options), want), "")
            << data.name << " " << metric_name(metric) << " " << filter << " " << options.search.run.instruction_set;
      }
    }
}

// The transform is chosen by a sample: rows of whole numbers, but for some that it hardly saw, and queries that are not whole either.
TEST(Filters, WholeNumbersButForAFewRows) {
  Rng rng(17);
  const std::int64_t n = 20000, d = 40;
  for (const double odd : {0.5, 300.0, -1e6, 1e30}) {
    std::vector<double> rows, asked;
    for (std::int64_t i = 0; i < n * d; ++i) rows.push_back(static_cast<double>(rng.between(0, 255)));
    asked.assign(rows.begin(), rows.begin() + 30 * d);
    for (int i = 0; i < 12; ++i) rows[static_cast<std::size_t>(rng.between(0, n - 1) * d + i)] = odd;
    for (int i = 0; i < 3; ++i) asked[static_cast<std::size_t>(i * d + i)] = odd;
    const Table corpus{DType::f32, n, d, rows}, queries{DType::f32, 30, d, asked};
    KnnOptions options;
    options.k = 20;
    const Neighbors want = scanned(corpus, queries, options);
    for (const char* filter : {"auto", "int8", "rotated", "projected", "f32"}) {
      options.run.filter = filter;
      options.run.instruction_set = rng.pick(instruction_sets());
      EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "")
          << odd << " " << filter << " " << options.run.instruction_set;
    }
  }
}

// Bounds of bytes are guessed from 64 tiles on.
TEST(Filters, GuessedBoundsOnEveryKindOfData) {
  Rng rng(27), share(28);
  for (const Data& data : all_data)
    for (const char* filter : {"auto", "int8"}) {
      if (!in_share(share, 0.5)) continue;
      const DType type = rng.chance(0.5) ? DType::f32 : DType::u8;
      const std::int64_t d = rng.pick(std::vector<std::int64_t>{16, 60, 300});
      const Table corpus = make(data, rng, type, 17000, d), queries = make(data, rng, type, 30, d);
      KnnOptions options{.k = 100, .metric = rng.chance(0.5) ? Metric::sqeuclidean : Metric::inner_product};
      const Neighbors want = scanned(corpus, queries, options);
      options.run.filter = filter;
      options.run.instruction_set = rng.pick(instruction_sets());
      EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "")
          << data.name << " " << filter << " d=" << d << " " << options.run.instruction_set;
    }
}

// What is near the queries lies in the tile that is seen first: guesses are far too low, the queries see all rows again, and still none is left for
// the next precision. One query in two is not misled, and waits. All rows have the same largest element but for the sign, of which tiles have one after the
// other, each by number; the first tile to be seen is the middle one.
TEST(Filters, QueriesWhoseGuessMissedStartAfresh) {
  constexpr std::int64_t n = 79 * 256, d = 16, near = 45, count = 20;
  for (const char* kind : {"whole", "mostly whole", "fractions"}) {
    const bool whole = kind[0] == 'w', fractions = kind[0] == 'f';
    Rng rng(29);
    std::vector<double> rows, asked;
    const auto add = [&](std::vector<double>& to, bool first_half, bool in_cluster) {
      for (std::int64_t j = 0; j + 1 < d; ++j)
        to.push_back(!in_cluster ? static_cast<double>(rng.between(30, 225)) + (fractions ? 0.9 * rng.uniform() : 0)
                     : whole     ? static_cast<double>(rng.between(100, 101))
                                 : 100 + 0.01 * rng.gauss());
      to.push_back(first_half ? 255 : 0);
    };
    for (std::int64_t i = 0; i < n; ++i) add(rows, i < n / 2, i < near || (i < n / 2 && i >= n / 2 - near));
    for (std::int64_t i = 0; i < count; ++i) add(asked, true, i % 2 == 0);
    const DType type = whole ? DType::u8 : DType::f32;
    const Table corpus{type, n, d, rows}, queries{type, count, d, asked};
    KnnOptions options{.k = 100, .metric = Metric::sqeuclidean};
    const Neighbors want = scanned(corpus, queries, options);
    options.run.filter = "int8";
    for (const std::string& set : instruction_sets())
      for (const int threads : {1, 3}) {
        options.run.instruction_set = set;
        options.run.threads = threads;
        // A kept corpus of fractions has second bytes, whose bounds are guesses too.
        const Neighbors got = fractions ? Corpus(corpus.points(), {.metric = options.metric, .run = options.run})
                                              .knn(queries.points(), {.k = options.k, .run = options.run})
                                        : vicinal::knn(corpus.points(), queries.points(), options);
        EXPECT_EQ(difference(got, want), "") << set << " " << kind;
        EXPECT_EQ(got.certificate.proven, count) << set << " " << kind;
      }
  }
}

// Every pair: equal rows that follow one another share a distance, here in runs of 1 to 700, which cross blocks of 256, and with a sign of zero that differs.
TEST(Filters, RunsOfEqualRowsOnTheCanonicalPrecision) {
  Rng rng(31);
  for (const DType type : {DType::f32, DType::u8, DType::f64}) {
    constexpr std::int64_t d = 20;
    std::vector<double> rows;
    std::int64_t n = 0;
    for (const std::int64_t run : {1, 255, 256, 257, 1, 700, 2, 3, 1, 512}) {
      std::vector<double> row;
      for (std::int64_t j = 0; j < d; ++j) row.push_back(static_cast<double>(rng.between(0, 3)));
      for (std::int64_t i = 0; i < run; ++i, ++n)
        for (std::int64_t j = 0; j < d; ++j)
          rows.push_back(type != DType::u8 && i % 7 == 3 && row[static_cast<std::size_t>(j)] == 0
                             ? -0.0
                             : row[static_cast<std::size_t>(j)]);
    }
    const Table corpus{type, n, d, rows};
    const vicinal::Points asked = corpus.points().slice(100, 700);
    for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::l1})
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{300}, n}) {
        KnnOptions options{.k = k, .metric = metric, .degenerate = vicinal::Degenerate::one};
        options.run.filter = "canonical";
        const Neighbors got = vicinal::knn(corpus.points(), asked, options);
        options.run.filter = "f32";
        EXPECT_EQ(difference(got, vicinal::knn(corpus.points(), asked, options)), "") << k;
        options.eligible.bitmap = {};
        std::vector<std::uint64_t> every(static_cast<std::size_t>(n + 63) / 64, ~std::uint64_t{0});
        options.eligible.bitmap = every;  // the way of chosen rows, which shares nothing
        options.run.filter = "canonical";
        EXPECT_EQ(difference(got, vicinal::knn(corpus.points(), asked, options)), "") << k;
      }
  }
}

// Where all are whole numbers the sums of bytes are the answer: roots that round to the same float tie, many rows are equal, nothing is ranked.
TEST(Filters, WholeNumbersAreNotRankedAgain) {
  Rng rng(18);
  for (const auto& [d, top] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{16, 1}, {40, 3}, {130, 255}, {258, 255}})
    for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean}) {
      const std::int64_t n = 3000;
      std::vector<double> rows, asked;
      for (std::int64_t i = 0; i < n * d; ++i) rows.push_back(static_cast<double>(rng.between(0, top)));
      for (std::int64_t i = 0; i < 20 * d; ++i) asked.push_back(static_cast<double>(rng.between(0, top)));
      const DType type = rng.chance(0.5) ? DType::u8 : DType::f32;
      const Table corpus{type, n, d, rows}, queries{type, 20, d, asked};
      KnnOptions options{.k = rng.chance(0.5) ? 10 : 300, .metric = metric};
      const Neighbors want = scanned(corpus, queries, options);
      options.run.filter = "int8";
      options.run.instruction_set = rng.pick(instruction_sets());
      const Neighbors got = vicinal::knn(corpus.points(), queries.points(), options);
      EXPECT_EQ(difference(got, want), "")
          << "d=" << d << " " << metric_name(metric) << " " << options.run.instruction_set;
      EXPECT_EQ(got.stats.reranked, 0);
      EXPECT_EQ(got.certificate.proven, 20);
    }
}

// From 64 tiles of 256 rows on a block visits runs of two and more, and the tiles that fill no run at the end.
TEST(Filters, OneQueryOnBothSidesOfARun) {
  Rng rng(26);
  for (const std::int64_t rows : {63 * 256, 64 * 256 - 1, 64 * 256, 64 * 256 + 1, 65 * 256 + 1, 97 * 256 + 5}) {
    const Table corpus = gaussian(rng, DType::f32, rows, 24, rng.chance(0.5) ? 1e3 : 0);
    const vicinal::Points query = corpus.points().slice(rows - 1, 1);  // what is left out most easily is the last row
    for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product}) {
      KnnOptions options{.k = rng.chance(0.5) ? 10 : 100, .metric = metric};
      options.proof = vicinal::Proof::exhaustive;
      const Neighbors want = vicinal::knn(corpus.points(), query, options);
      options.proof = KnnOptions{}.proof;
      options.run.filter = "int8";
      for (const int threads : {1, 3}) {
        options.run.threads = threads;
        options.run.instruction_set = rng.pick(instruction_sets());
        SCOPED_TRACE(std::to_string(rows) + " rows, " + metric_name(metric) + ", " + std::to_string(threads) +
                     " threads, " + options.run.instruction_set);
        EXPECT_EQ(difference(vicinal::knn(corpus.points(), query, options), want), "");
        const vicinal::Corpus kept(corpus.points(), {.metric = metric, .run = options.run});
        EXPECT_EQ(difference(kept.knn(query, options), want), "") << "kept";
      }
    }
  }
}

// Where bytes cannot tell rows apart they are not even tried, and where they are whole numbers they are.
TEST(Filters, ThePilotTakesBytesWhereTheyPay) {
  const std::string best = instruction_sets().front();
  if (best != "avx512amx" && best != "avx512vnni" && best != "avxvnni")
    GTEST_SKIP() << "not run: bytes are not faster here";
  Rng rng(15);
  const auto first_precision = [&](const Data& data, DType type) {
    const Table corpus = make(data, rng, type, 20000, 64), queries = make(data, rng, type, 300, 64);
    KnnOptions options;
    options.metric = Metric::sqeuclidean;
    return vicinal::knn(corpus.points(), queries.points(), options).certificate.precisions.front();
  };
  EXPECT_EQ(first_precision(all_data[0], DType::f32), "int8");
  EXPECT_EQ(first_precision(all_data[5], DType::u8), "int8");
  EXPECT_NE(first_precision(all_data[4], DType::f32), "int8");
  EXPECT_NE(first_precision(all_data[8], DType::f32), "int8");
}

TEST(Filters, APlanThatSeesRowsSaysWithWhichFilterTheSearchBegins) {
  Rng rng(31);
  int looked = 0, dearer = 0;
  for (const Data& data : all_data)
    for (const Metric metric : {Metric::sqeuclidean, Metric::cosine, Metric::inner_product}) {
      SCOPED_TRACE(testing::Message() << data.name << ", " << vicinal::metric_info(metric).name);
      const Table corpus = make(data, rng, DType::f32, 12000, 64), queries = make(data, rng, DType::f32, 300, 64);
      const KnnOptions options{.k = 10, .metric = metric, .degenerate = vicinal::Degenerate::one};
      const vicinal::Plan blind = vicinal::plan({12000, 64}, {300, 64}, options),
                          seeing = vicinal::plan(corpus.points(), queries.points(), options);
      const Neighbors found = vicinal::knn(corpus.points(), queries.points(), options);
      EXPECT_EQ(seeing.cascade.front(), found.certificate.precisions.front());
      EXPECT_EQ(seeing.rotated, found.stats.rotated);
      EXPECT_EQ(seeing.projected, found.stats.projected);
      EXPECT_EQ(seeing.peak_bytes, blind.peak_bytes);
      EXPECT_EQ(blind.sampled_rows, 0);
      EXPECT_LE(seeing.sampled_rows, 512);
      looked += seeing.sampled_rows > 0;
      if (seeing.cascade != blind.cascade) {
        EXPECT_GT(seeing.seconds, blind.seconds);
        ++dearer;
      }
    }
  EXPECT_GT(looked, 15);
  const std::string best = instruction_sets().front();
  if (best == "avx512amx" || best == "avx512vnni" || best == "avxvnni") {
    EXPECT_GT(dearer, 2) << "no data on which bytes do not pay";
  }
}

TEST(Filters, ThePilotRotatesRowsWhereItPays) {
  const std::string best = instruction_sets().front();
  if (best != "avx512amx" && best != "avx512vnni" && best != "avxvnni")
    GTEST_SKIP() << "not run: bytes are not faster here";
  Rng rng(19);
  const auto rotates = [&](const Data& data, DType type, Metric metric) {
    const Table rows = make(data, rng, type, 20000, 64), queries = make(data, rng, type, 40, 64);
    return Corpus(rows.points(), {.metric = metric}).knn(queries.points(), {.k = 10}).stats.rotated;
  };
  EXPECT_TRUE(rotates(all_data[7], DType::f32, Metric::sqeuclidean));
  EXPECT_TRUE(rotates(all_data[7], DType::f32, Metric::cosine));
  EXPECT_FALSE(rotates(all_data[0], DType::f32, Metric::sqeuclidean));
  EXPECT_FALSE(rotates(all_data[5], DType::u8, Metric::sqeuclidean));
  EXPECT_FALSE(rotates(all_data[7], DType::f32, Metric::l1));
  // One call's queries are too few for it.
  const Table rows = make(all_data[7], rng, DType::f32, 20000, 64),
              queries = make(all_data[7], rng, DType::f32, 100, 64);
  EXPECT_FALSE(vicinal::knn(rows.points(), queries.points(), {.k = 10}).stats.rotated);
}

/// What a search by a filter of that name says of rows and transforms; a kept corpus says the same, and of every pair none.
vicinal::Stats stats_by(const Table& rows, const char* filter, Metric metric) {
  KnnOptions options{.metric = metric};
  options.run.filter = filter;
  const Neighbors found = vicinal::knn(rows.points(), rows.points(), options);
  const Corpus kept(rows.points(), {.metric = metric, .run = options.run});
  const vicinal::Stats of_kept = kept.knn(rows.points(), options).stats;
  EXPECT_EQ(of_kept.rotated, found.stats.rotated);
  EXPECT_EQ(of_kept.projected, found.stats.projected);
  options.run.filter = "canonical";
  const vicinal::Stats of_all = kept.knn(rows.points(), options).stats;
  EXPECT_FALSE(of_all.rotated);
  EXPECT_EQ(of_all.projected, 0);
  return found.stats;
}

TEST(Filters, RotationIsForcedByNameButNeverOfWholeNumbers) {
  Rng rng(20);
  const Table some = make(all_data[0], rng, DType::f32, 500, 24), whole = make(all_data[5], rng, DType::f32, 500, 24);
  const auto rotates = [](const Table& rows, const char* filter, Metric metric) {
    return stats_by(rows, filter, metric).rotated;
  };
  EXPECT_TRUE(rotates(some, "rotated", Metric::euclidean));
  EXPECT_TRUE(rotates(some, "rotated", Metric::cosine));
  EXPECT_TRUE(rotates(some, "rotated", Metric::inner_product));
  EXPECT_FALSE(rotates(some, "int8", Metric::euclidean));
  EXPECT_FALSE(rotates(some, "f32", Metric::euclidean));
  EXPECT_FALSE(rotates(some, "rotated", Metric::l1));
  EXPECT_FALSE(rotates(some, "rotated", Metric::linf));
  EXPECT_FALSE(rotates(whole, "rotated", Metric::euclidean));
  EXPECT_TRUE(vicinal::plan(shape_of(some.points()), shape_of(some.points()), {.run = {.filter = "rotated"}}).rotated);
}

/// Rows whose columns are mixtures of a few, and noise: `few` of them hold nearly all of a row's length.
Table mixtures(Rng& rng, std::int64_t n, std::int64_t d, std::int64_t few, double noise) {
  Rng same(40);
  std::vector<double> weights(static_cast<std::size_t>(few * d)), values(static_cast<std::size_t>(n * d));
  for (double& weight : weights) weight = same.gauss();
  for (std::int64_t i = 0; i < n; ++i) {
    double* const row = values.data() + i * d;
    for (std::int64_t j = 0; j < few; ++j) {
      const double x = rng.gauss();
      for (std::int64_t c = 0; c < d; ++c) row[c] += x * weights[static_cast<std::size_t>(j * d + c)];
    }
    for (std::int64_t c = 0; c < d; ++c) row[c] += noise * rng.gauss();
  }
  return {DType::f32, n, d, values};
}

// By an instruction set whose bytes are no faster than floats; where they are, it pays on longer rows.
TEST(Filters, ThePilotProjectsRowsWhereItPays) {
  Rng rng(41);
  const std::int64_t n = 34000, d = 256;
  vicinal::Execution run;
  run.instruction_set = std::count(instruction_sets().begin(), instruction_sets().end(), "avx2") > 0 ? "avx2" : "plain";
  const Table mixed = mixtures(rng, n, d, 12, 0.05), queries = mixtures(rng, 10, d, 12, 0.05);
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product}) {
    const KnnOptions options{.k = 10, .metric = metric, .run = run};
    const Corpus kept(mixed.points(), {.metric = metric, .run = run});
    const Neighbors found = kept.knn(queries.points(), options);
    if (metric != Metric::inner_product) {
      EXPECT_GT(found.stats.projected, 0) << metric_name(metric);
    }
    EXPECT_FALSE(found.stats.rotated && found.stats.projected > 0);
    EXPECT_EQ(difference(found, scanned(mixed, queries, options)), "") << metric_name(metric);
  }
  // A call of few queries does not look for directions; where columns have nothing in common, or are few, there are none.
  const KnnOptions options{.k = 10, .run = run};
  EXPECT_EQ(vicinal::knn(mixed.points(), queries.points(), options).stats.projected, 0);
  const Table noise = make(all_data[0], rng, DType::f32, n, d), few = mixtures(rng, n, 64, 4, 0.05);
  EXPECT_EQ(Corpus(noise.points(), {.run = run}).knn(queries.points(), options).stats.projected, 0);
  EXPECT_EQ(Corpus(few.points(), {.run = run}).knn(few.points().slice(0, 5), options).stats.projected, 0);
}

// A query that comes alone, or the last block of others, has the distances of its first rows before any is tested.
TEST(Filters, TheFirstRowsOfAQueryAlone) {
  Rng rng(seed_or(48)), share(49);
  const Data outliers{"outliers", [](Rng& r, std::int64_t row, std::int64_t) {
                        return r.gauss() * (row % 89 == 3 ? 1e30 : row % 97 == 5 ? 1e-30 : 1);
                      }};
  std::vector<Data> data(std::begin(all_data), std::end(all_data));
  data.insert(data.end(), 2, outliers);
  const std::vector<Metric> metrics{Metric::euclidean,   Metric::cosine, Metric::inner_product,
                                    Metric::correlation, Metric::l1,     Metric::linf};
  for (const std::int64_t n : {255, 256, 257, 512, 543, 1000, 4096, 4097, 5000})
    for (const Data& one : data)
      for (const DType type : {DType::f32, DType::u8}) {
        const bool far = one.name == outliers.name;
        if (!in_share(share, 0.3) || (far && type == DType::u8)) continue;
        const Metric metric = rng.pick(metrics);
        const std::int64_t d = rng.pick(std::vector<std::int64_t>{16, 17, 64, 100});
        const Table corpus = make(one, rng, type, n, d), queries = make(one, rng, type, 15, d);
        KnnOptions options{.k = rng.pick(std::vector<std::int64_t>{1, 2, 10, 11, 31, 32, 33, n}), .metric = metric};
        options.degenerate = vicinal::Degenerate::one;
        if (far) options.distance_type = vicinal::DistanceType::f64;
        options.run.instruction_set = rng.pick(instruction_sets());
        options.run.filter = rng.pick(std::vector<std::string>{"auto", "int8", "f32", "rotated"});
        options.run.threads = static_cast<int>(rng.between(1, 3));
        KnnOptions every_pair = options;
        every_pair.proof = vicinal::Proof::exhaustive;
        const Corpus kept(corpus.points(), {.metric = metric, .degenerate = options.degenerate, .run = options.run});
        const std::string text = std::string(one.name) + " " + metric_name(metric) + " " + vicinal::dtype_name(type) +
                                 " n=" + std::to_string(n) + " d=" + std::to_string(d) +
                                 " k=" + std::to_string(options.k) + " " + options.run.filter + " " +
                                 options.run.instruction_set;
        for (const auto& [first, count] : {std::pair{0, 15}, {0, 1}, {3, 1}, {5, 2}}) {
          const vicinal::Points some = queries.points().slice(first, count);
          const Neighbors want = vicinal::knn(corpus.points(), some, every_pair);
          EXPECT_EQ(difference(kept.knn(some, options), want), "") << text << " kept, from query " << first;
          EXPECT_EQ(difference(vicinal::knn(corpus.points(), some, options), want), "") << text << ", " << first;
        }
      }
}

// Its first threshold is no nearer than the k-th row, so nothing is done again, and excludes nearly all of them.
TEST(Filters, TheFirstThresholdOfAQueryAlone) {
  Rng rng(50);
  for (const std::string& set : instruction_sets())
    for (const auto& [data, type, filter, first] : {std::tuple{0, DType::f32, "f32", "f32"},
                                                    {0, DType::f32, "int8", "int8"},
                                                    {5, DType::f32, "int8", "int8"},
                                                    {5, DType::u8, "int8", "int8"}})
      for (const std::int64_t n : {260, 999, 4096, 4100}) {
        const Table rows = make(all_data[data], rng, type, n, 64), queries = make(all_data[data], rng, type, 8, 64);
        KnnOptions options{.k = 10};
        options.run.filter = filter;
        options.run.instruction_set = set;
        options.run.threads = 1;
        const Corpus kept(rows.points(), {.run = options.run});
        for (std::int64_t q = 0; q < 8; ++q) {
          const Neighbors found = kept.knn(queries.points().slice(q, 1), options);
          const std::string text = set + " " + filter + " " + all_data[data].name + " n=" + std::to_string(n);
          EXPECT_EQ(found.certificate.precisions, std::vector<std::string>{first}) << text;
          EXPECT_EQ(found.certificate.redone, 0) << text;
          EXPECT_LT(found.stats.candidates, 120) << text;
        }
      }
}

// A row of zeros is as far from all others as degenerate rows are said to be: it has no bound, and the others have theirs.
TEST(Filters, TheFirstThresholdBesideARowWithoutABound) {
  Rng rng(51);
  for (const char* const filter : {"f32", "int8"}) {
    Table rows = make(all_data[0], rng, DType::f32, 1000, 64);
    for (std::int64_t c = 0; c < 64; ++c) rows.set(77, c, 0);
    KnnOptions options{.k = 10, .metric = Metric::cosine};
    options.degenerate = vicinal::Degenerate::one;
    options.run.filter = filter;
    const Corpus kept(rows.points(),
                      {.metric = Metric::cosine, .degenerate = vicinal::Degenerate::one, .run = options.run});
    const Table queries = make(all_data[0], rng, DType::f32, 8, 64);
    for (std::int64_t q = 0; q < 8; ++q) {
      const Neighbors found = kept.knn(queries.points().slice(q, 1), options);
      EXPECT_EQ(found.certificate.redone, 0) << filter;
      EXPECT_LT(found.stats.candidates, 120) << filter;
    }
  }
}

// Few queries of a corpus that no cache holds read a quarter by bytes; more of them wait for products, which floats give
// as soon where an instruction set has no instruction for bytes. One or two read bytes of smaller ones too, by tiles of
// their own.
TEST(Filters, FewQueriesOfALargeKeptCorpusTakeBytes) {
  Rng rng(46);
  constexpr std::int64_t n = 34000, d = 128;
  constexpr std::int64_t held = (std::int64_t{1} << 22) / d;  // by caches
  const Table rows = make(all_data[0], rng, DType::f32, n, d);
  for (const std::string set : {"avx2", "avx512"}) {
    if (std::count(instruction_sets().begin(), instruction_sets().end(), set) == 0) continue;
    KnnOptions options{.k = 10};
    options.run.instruction_set = set;
    options.run.threads = 2;  // each takes memory to prepare
    const Corpus large(rows.points(), {.run = options.run}), small(rows.points().slice(0, held), {.run = options.run}),
        least(rows.points().slice(0, held + 1), {.run = options.run});
    EXPECT_EQ(least.knn(rows.points().slice(0, 1), options).certificate.precisions.front(), "int8") << set;
    for (const auto& [count, first] : {std::pair{1, "int8"}, {16, "int8"}, {17, "f32"}}) {
      const Table queries = make(all_data[0], rng, DType::f32, count, d);
      const Neighbors found = large.knn(queries.points(), options);
      EXPECT_EQ(found.certificate.precisions.front(), first) << set << ", " << count;
      EXPECT_EQ(difference(found, scanned(rows, queries, options)), "") << set << ", " << count;
      EXPECT_EQ(small.knn(queries.points(), options).certificate.precisions.front(), count == 1 ? "int8" : "f32")
          << set << ", " << count;
    }
    const Corpus half(rows.points().slice(0, held / 2), {.run = options.run}),
        few(rows.points().slice(0, (1 << 15) / d - 1), {.run = options.run});
    for (const auto& [count, first] : {std::pair{1, "int8"}, {2, "int8"}, {3, "f32"}}) {
      const vicinal::Points queries = rows.points().slice(40, count);
      EXPECT_EQ(half.knn(queries, options).certificate.precisions.front(), first) << set << ", " << count;
      EXPECT_EQ(few.knn(queries, options).certificate.precisions.front(), "f32") << set << ", " << count;
    }
    // A budget that holds floats alone keeps them.
    const Corpus tight(rows.points(), {.memory = {.host = large.bytes() / 10 * 9}, .run = options.run});
    EXPECT_TRUE(tight.resident());
    EXPECT_LT(tight.bytes(), large.bytes() / 10 * 9);
    EXPECT_EQ(tight.knn(rows.points().slice(0, 1), options).certificate.precisions.front(), "f32") << set;
  }
}

// Wide rows might have been projected, which serves any number of queries: where they are not, many find bytes that are
// kept for few.
TEST(Filters, BytesOfWideRowsThatAreNotProjectedServeFewQueries) {
  Rng rng(47);
  const Table rows = make(all_data[0], rng, DType::f32, 34000, 256);
  for (const std::string set : {"avx2", "avx512"}) {
    if (std::count(instruction_sets().begin(), instruction_sets().end(), set) == 0) continue;
    KnnOptions options{.k = 10};
    options.run.instruction_set = set;
    const Corpus kept(rows.points(), {.run = options.run});
    for (const auto& [count, first] : {std::pair{16, "int8"}, {17, "f32"}}) {
      const Table queries = make(all_data[0], rng, DType::f32, count, 256);
      const Neighbors found = kept.knn(queries.points(), options);
      EXPECT_EQ(found.certificate.precisions.front(), first) << set << ", " << count;
      EXPECT_EQ(difference(found, scanned(rows, queries, options)), "") << set << ", " << count;
      const vicinal::RangeOptions range{.search = options};
      const double radius = found.distance(0, 5);
      const vicinal::CsrNeighbors in_range = kept.range_search(queries.points(), radius, range),
                                  truth = vicinal::range_search(rows.points(), queries.points(), radius, range);
      EXPECT_TRUE(
          std::equal(in_range.ids(), in_range.ids() + in_range.entries(), truth.ids(), truth.ids() + truth.entries()));
    }
  }
}

TEST(Filters, ProjectionIsForcedByName) {
  Rng rng(42);
  const auto columns = [](const Table& rows, const char* filter, Metric metric) {
    return stats_by(rows, filter, metric).projected;
  };
  const Table some = make(all_data[0], rng, DType::f32, 500, 24), whole = make(all_data[5], rng, DType::f32, 500, 24),
              wide = mixtures(rng, 300, 300, 5, 0.1), narrow = make(all_data[0], rng, DType::f32, 500, 3);
  EXPECT_EQ(columns(some, "projected", Metric::euclidean), 8);
  EXPECT_EQ(columns(some, "projected", Metric::cosine), 8);
  EXPECT_EQ(columns(some, "projected", Metric::inner_product), 8);
  EXPECT_EQ(columns(whole, "projected", Metric::euclidean), 8);
  EXPECT_EQ(columns(wide, "projected", Metric::euclidean), 128);
  EXPECT_EQ(columns(narrow, "projected", Metric::euclidean), 0) << "too few columns";
  EXPECT_EQ(columns(some, "int8", Metric::euclidean), 0);
  EXPECT_EQ(columns(some, "f32", Metric::euclidean), 0);
  EXPECT_EQ(columns(some, "projected", Metric::l1), 0);
  const auto planned = [](const Table& rows) {
    return vicinal::plan(shape_of(rows.points()), shape_of(rows.points()), {.run = {.filter = "projected"}}).projected;
  };
  EXPECT_EQ(planned(wide), 128);
  // There are no more directions than rows, of which a sample of very wide ones has few.
  const Table few = mixtures(rng, 40, 300, 5, 0.1), widest = mixtures(rng, 100, 16384, 5, 0.1);
  for (const auto& [rows, want] : {std::pair{&few, 41}, std::pair{&widest, 65}}) {
    EXPECT_EQ(columns(*rows, "projected", Metric::euclidean), want);
    EXPECT_EQ(planned(*rows), want);
    KnnOptions options{.k = 7};
    const Neighbors want_lists = scanned(*rows, *rows, options);
    options.run.filter = "projected";
    EXPECT_EQ(difference(vicinal::knn(rows->points(), rows->points(), options), want_lists), "");
  }
}

// Of rows that lie in few directions bytes and directions leave next to nothing: their distances are no estimates all the same.
TEST(Filters, ProjectedRowsThatBytesHoldAsTheyAre) {
  Rng rng(43);
  for (const std::string& set : instruction_sets())
    for (const std::int64_t d : {8, 64, 260}) {
      std::vector<double> values(static_cast<std::size_t>(700 * d));
      for (std::int64_t i = 0; i < 700; ++i) {
        const std::int64_t column = rng.between(0, d - 1);
        values[static_cast<std::size_t>(i * d + column)] = static_cast<double>(rng.between(-2, 2));
      }
      const Table corpus(DType::f32, 700, d, values),
          queries(DType::f32, 20, d, std::vector<double>(values.begin() + 300 * d, values.begin() + 320 * d));
      for (const std::int64_t k : {1, 7, 100}) {
        KnnOptions options{.k = k};
        options.run.instruction_set = set;
        const Neighbors want = scanned(corpus, queries, options);
        options.run.filter = "projected";
        EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << set << " d=" << d;
        const Corpus kept(corpus.points(), {.run = options.run});
        EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << set << " d=" << d << " kept";
      }
    }
}

}  // namespace
}  // namespace conformance
