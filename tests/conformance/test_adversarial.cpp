// At least 20,000 seeded cases over all families, metrics, types and settings; ids and distances, or the error that is
// due, compared bit for bit with the oracle. A failing case prints what is needed to run it alone:
// VICINAL_TEST_SEED=S VICINAL_TEST_CASE=N vicinal_conformance --gtest_filter=Adversarial.*
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>

#include "conformance/families.hpp"
#include "conformance/lists.hpp"
#include "vicinal/corpus.hpp"

namespace conformance {
namespace {

struct Case {
  const Family* family = nullptr;
  Scene scene;
  vicinal::KnnOptions options;
  Table corpus, queries;
  std::string text(std::uint64_t seed, std::int64_t number, const Setting& setting) const {
    return std::string("family ") + family->name + ", seed " + std::to_string(seed) + ", case " +
           std::to_string(number) + ", n=" + std::to_string(corpus.n) + " Q=" + std::to_string(queries.n) +
           " d=" + std::to_string(corpus.d) + " k=" + std::to_string(options.k) + ", " + metric_name(options.metric) +
           " " + vicinal::dtype_name(corpus.dtype) + " against " + vicinal::dtype_name(queries.dtype) + " to " +
           vicinal::distance_type_name(options.distance_type) +
           (options.degenerate == vicinal::Degenerate::one ? ", degenerate=one" : "") + ", " + setting.text();
  }
};

std::int64_t draw_k(Rng& rng, std::int64_t n) {
  const std::vector<std::int64_t> ks = {1, 2, 10, 31, 32, 33, 64, 100, 129, n - 1, n, rng.log_between(1, n)};
  return std::clamp<std::int64_t>(rng.pick(ks), 1, n);
}

// Everything of a case follows from (seed, number), so any case can be run alone.
Case make_case(std::uint64_t seed, std::int64_t number) {
  Rng rng(seed * 1000003 + static_cast<std::uint64_t>(number));
  Case c;
  c.family = &families()[static_cast<std::size_t>(number) % families().size()];
  const Kind kind = rng.pick(all_kinds());
  Scene& s = c.scene;
  s.dtype = kind.dtype;
  s.metric = kind.metric;
  s.n = rng.log_between(1, 3000);
  s.q = rng.log_between(1, 12);
  s.d = rng.log_between(1, 160);
  while (s.n * s.q * s.d > 250000) (s.q > 2 ? s.q : s.d > 2 ? s.d : s.n) /= 2;
  s.k = draw_k(rng, s.n);
  s.resize(s.d);
  c.family->fill(rng, s);
  std::tie(c.corpus, c.queries) = to_tables(s);
  if (kind.metric != Metric::hamming && rng.chance(0.06)) {
    Scene other = s;
    other.dtype = rng.pick(all_dtypes);
    c.queries = to_tables(other).second;
  }
  c.options.metric = kind.metric;
  c.options.k = s.k;
  if (kind.metric != Metric::hamming && rng.chance(0.4))
    c.options.distance_type = rng.chance(0.6) ? vicinal::DistanceType::f64 : vicinal::DistanceType::f32;
  if (rng.chance(0.3)) c.options.degenerate = vicinal::Degenerate::one;
  if (rng.chance(0.1)) c.options.pad = true, c.options.k = s.k + rng.between(0, 3);
  if (rng.chance(0.1)) c.options.first_id = rng.between(0, 1) ? 1000 : std::int64_t{1} << 40;
  return c;
}

TEST(Adversarial, ThereAreAtLeastFortyFamiliesWithDistinctNames) {
  std::set<std::string> names;
  for (const Family& family : families()) names.insert(family.name);
  EXPECT_EQ(names.size(), families().size());
  EXPECT_GE(names.size(), 40u);
}

/// All of them, or the share that VICINAL_TEST_ADVERSARIAL or else VICINAL_TEST_SCALE says.
std::int64_t cases() {
  constexpr std::int64_t all = 20480;
  const char* share = std::getenv("VICINAL_TEST_ADVERSARIAL");
  return share != nullptr ? static_cast<std::int64_t>(std::atof(share) * static_cast<double>(all)) : scaled(all);
}

/// A part of the cases, or the one that the environment names; settings as drawn, or on a device.
void run_cases(const char* device, std::int64_t part, std::int64_t parts) {
  const std::uint64_t seed = seed_or(20240601);
  const char* single = std::getenv("VICINAL_TEST_CASE");
  const std::int64_t first = single ? std::atoll(single) : cases() * part / parts,
                     last = single ? first + 1 : cases() * (part + 1) / parts;
  std::int64_t mismatches = 0, errors_due = 0;
  for (std::int64_t number = first; number < last; ++number) {
    Case c = make_case(seed, number);
    Rng rng(seed ^ static_cast<std::uint64_t>(number) << 20);
    Setting setting = random_setting(rng);
    std::vector<std::string> tried = {setting.filter};
    if (device != nullptr) {
      const std::vector<std::string> filters = {"int8", "auto", "fp16", "f32", "canonical"};
      setting.instruction_set = rng.chance(0.5) ? "auto" : "mma";
      tried = {rng.pick(filters)};
      if (number % 4 == 0) tried = filters;  // all of them have the same bits
      c.options.run.device = device;
    }
    const oracle::Answer want = oracle::knn(c.corpus.rows(), c.queries.rows(), spec(c.options));
    errors_due += want.error.has_value();
    for (const std::string& filter : tried) {
      setting.filter = filter;
      std::string fault;
      try {
        fault = check(c.corpus.points(), c.queries.points(),
                      apply(setting, c.options, c.corpus.points(), c.queries.points()), want);
      } catch (const vicinal::Error& error) {
        fault = std::string("plan threw ") + error.what();
      }
      if (fault.empty()) continue;
      if (++mismatches <= 10) ADD_FAILURE() << c.text(seed, number, setting) << "\n  " << fault;
    }
  }
  std::printf("%lld adversarial cases (%lld of them errors that are due), %zu families, %lld mismatches, seed %llu\n",
              static_cast<long long>(last - first), static_cast<long long>(errors_due), families().size(),
              static_cast<long long>(mismatches), static_cast<unsigned long long>(seed));
  EXPECT_EQ(mismatches, 0);
}

// In four parts, which programs side by side share.
TEST(Adversarial, EveryCaseHasTheBitsOfTheOracle) { run_cases(nullptr, 0, 4); }
TEST(Adversarial, EveryCaseOfTheSecondQuarter) { run_cases(nullptr, 1, 4); }
TEST(Adversarial, EveryCaseOfTheThirdQuarter) { run_cases(nullptr, 2, 4); }
TEST(Adversarial, EveryCaseOfTheLastQuarter) { run_cases(nullptr, 3, 4); }

TEST(CudaAdversarial, EveryCaseHasTheBitsOfTheOracle) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  run_cases("cuda", 0, 1);
}

/// Every fourth case as a range search, whose radius is on a value that some query returns.
TEST(CudaAdversarial, RangesHaveTheBitsOfTheOracle) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const std::uint64_t seed = seed_or(20240602);
  std::int64_t mismatches = 0, run = 0;
  for (std::int64_t number = 0; number < cases(); number += 4, ++run) {
    const Case c = make_case(seed, number / 4);
    Rng rng(seed ^ static_cast<std::uint64_t>(number) << 20);
    vicinal::RangeOptions options{.search = c.options};
    options.search.k = 1;
    options.search.pad = false;
    options.search.run.device = "cuda";
    const std::vector<std::string> filters = {"auto", "int8", "fp16", "f32", "canonical"};
    Setting setting{rng.chance(0.5) ? "auto" : "mma", rng.pick(filters), 2, rng.pick(all_memory),
                    vicinal::Proof::certified};
    oracle::SearchSpec asked = spec(options.search);
    const Filter filter = make_filter(rng, rng.pick(all_conditions), c.corpus.n, c.queries.n, options.search.first_id);
    if (rng.chance(0.3)) filter.put(options.search, asked);
    oracle::SearchSpec whole = asked;
    whole.eligible = {};
    whole.k = rng.between(1, c.corpus.n);
    whole.pad = false;
    const oracle::Answer nearest = oracle::knn(c.corpus.rows(), c.queries.rows(), whole);
    const double radius =
        nearest.error ? 1.0 : nearest.keys[static_cast<std::size_t>((rng.between(1, c.queries.n) * whole.k) - 1)];
    const std::string fault = check_range(setting, c.corpus.points(), c.queries.points(), radius, options,
                                          oracle::range(c.corpus.rows(), c.queries.rows(), radius, asked));
    if (fault.empty()) continue;
    if (++mismatches <= 10)
      ADD_FAILURE() << c.text(seed, number / 4, setting) << " radius " << radius << "\n  " << fault;
  }
  std::printf("%lld ranges, %lld mismatches\n", static_cast<long long>(run), static_cast<long long>(mismatches));
}

TEST(CudaAdversarial, LargerRangesHaveTheBitsOfTheCpu) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const struct {
    std::int64_t n, q, d;
    Metric metric;
    DType dtype;
    double radius, radius_of_all;
  } shapes[] = {{200000, 3000, 32, Metric::euclidean, DType::f32, 4.6, 9},
                {60000, 500, 200, Metric::cosine, DType::f32, 0.8, 1.2},
                {60000, 300, 64, Metric::inner_product, DType::f32, 22, 0},
                {40000, 300, 96, Metric::l1, DType::f32, 80, 120}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(std::string(metric_name(shape.metric)) + " " + std::to_string(shape.n) + " x " +
                 std::to_string(shape.d));
    Rng rng(static_cast<std::uint64_t>(shape.n + shape.d));
    const Table corpus = gaussian(rng, shape.dtype, shape.n, shape.d, 0, 1),
                queries = gaussian(rng, shape.dtype, shape.q, shape.d, 0, 1);
    vicinal::RangeOptions options;
    options.search.metric = shape.metric;
    for (const bool all : {false, true}) {
      // Of few queries nearly every row, which no batch has room for.
      const vicinal::Points asked = all ? queries.points().slice(0, 200) : queries.points();
      const double radius = all ? shape.radius_of_all : shape.radius;
      options.search.run.device = "cpu";
      const vicinal::CsrNeighbors want = vicinal::range_search(corpus.points(), asked, radius, options);
      options.search.run.device = "cuda";
      const vicinal::CsrNeighbors got = vicinal::range_search(corpus.points(), asked, radius, options);
      ASSERT_EQ(got.entries(), want.entries());
      const auto size = static_cast<std::size_t>(want.entries());
      EXPECT_EQ(std::memcmp(got.ids(), want.ids(), size * 8), 0);
      EXPECT_EQ(std::memcmp(got.distances(), want.distances(), size * vicinal::distance_size(want.type())), 0);
      std::printf("%s, %lld rows, %lld queries, radius %g: %lld entries, %lld passed, %.1f ms (cpu %.1f)\n",
                  metric_name(shape.metric).c_str(), static_cast<long long>(shape.n),
                  static_cast<long long>(asked.rows), radius, static_cast<long long>(want.entries()),
                  static_cast<long long>(got.stats.candidates), got.stats.seconds * 1e3, want.stats.seconds * 1e3);
    }
  }
}

TEST(CudaAdversarial, RangesOfManyQueriesTakeInEveryRow) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  // More blocks of queries than any device has multiprocessors, and a tile of rows of which every pair is a match.
  Rng rng(3);
  const Table corpus = gaussian(rng, DType::f32, 200, 8, 0, 1), queries = gaussian(rng, DType::f32, 60000, 8, 0, 1);
  for (const std::int64_t count : {33793, 40000, 60000}) {
    const vicinal::Points asked = queries.points().slice(0, count);
    vicinal::RangeOptions options;
    options.search.run.device = "cpu";
    const vicinal::CsrNeighbors want = vicinal::range_search(corpus.points(), asked, 1e30, options);
    options.search.run.device = "cuda";
    const vicinal::CsrNeighbors got = vicinal::range_search(corpus.points(), asked, 1e30, options);
    ASSERT_EQ(got.entries(), 200 * count);
    const auto size = static_cast<std::size_t>(want.entries());
    EXPECT_EQ(std::memcmp(got.ids(), want.ids(), size * 8), 0);
    EXPECT_EQ(std::memcmp(got.distances(), want.distances(), size * 4), 0);
  }
}

TEST(CudaAdversarial, SamplesOfAnySizeHaveTheirSharedMemory) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  // A kernel has 48 KiB of shared memory unless it asks for more, in which its own arrays count: of 2.8 to 3.1 million rows it did not.
  Rng rng(4);
  const Table corpus = gaussian(rng, DType::f32, 6'500'000, 2, 0, 1);
  for (const std::int64_t rows :
       {2'400'000, 2'800'000, 3'000'001, 3'145'728, 3'200'000, 5'900'000, 6'300'000, 6'500'000})
    for (const std::int64_t count : {18, 300}) {
      const vicinal::Points asked = corpus.points().slice(1000, count);
      std::optional<vicinal::Neighbors> lists[2];
      for (const bool on_device : {false, true}) {
        vicinal::CorpusOptions options;
        options.run.device = on_device ? "cuda" : "cpu";
        const vicinal::Corpus kept(corpus.points().slice(0, rows), options);
        vicinal::KnnOptions search;
        search.k = count == 18 ? 10 : 40;
        search.run.device = options.run.device;
        lists[on_device ? 1 : 0] = kept.knn(asked, search);
      }
      const auto size = static_cast<std::size_t>(lists[0]->rows() * lists[0]->k());
      EXPECT_EQ(std::memcmp(lists[0]->ids(), lists[1]->ids(), size * 8), 0) << rows << " rows, " << count << " queries";
      EXPECT_EQ(std::memcmp(lists[0]->distances(), lists[1]->distances(), size * 4), 0);
    }
}

// Graphs of so many rows that tiles serve both of their sides, beside tiles that serve one and the CPU's lists of some
// rows; of numbers that spread, of bytes, of rows of all lengths, of clusters, of many equal rows.
TEST(CudaAdversarial, GraphsFromBothSidesOfTilesHaveTheirBits) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  enum class Rows { gaussian, bytes, lengths, clusters, equal, isolated };
  const struct {
    Rows kind;
    std::int64_t n, d, k;
    Metric metric;
  } shapes[] = {
      {Rows::gaussian, 98304, 128, 15, Metric::euclidean},  {Rows::gaussian, 98305, 60, 8, Metric::sqeuclidean},
      {Rows::gaussian, 100001, 300, 12, Metric::cosine},    {Rows::bytes, 120000, 128, 15, Metric::euclidean},
      {Rows::bytes, 98560, 784, 100, Metric::sqeuclidean},  {Rows::lengths, 98400, 100, 10, Metric::euclidean},
      {Rows::lengths, 98400, 130, 20, Metric::correlation}, {Rows::clusters, 99999, 64, 15, Metric::euclidean},
      {Rows::clusters, 98304, 200, 30, Metric::euclidean},  {Rows::equal, 98304, 128, 15, Metric::euclidean},
      {Rows::isolated, 98304, 96, 32, Metric::euclidean},   {Rows::gaussian, 98304, 24, 32, Metric::euclidean}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(std::to_string(static_cast<int>(shape.kind)) + ": " + std::to_string(shape.n) + " x " +
                 std::to_string(shape.d) + ", k = " + std::to_string(shape.k));
    Rng rng(static_cast<std::uint64_t>(shape.n + shape.d));
    std::vector<double> values(static_cast<std::size_t>(shape.n * shape.d)),
        centres(static_cast<std::size_t>(50 * shape.d));
    for (double& value : centres) value = 3 * rng.gauss();
    for (std::int64_t row = 0; row < shape.n; ++row) {
      const double length = shape.kind == Rows::lengths    ? std::exp(2 * rng.gauss())
                            : shape.kind == Rows::clusters ? std::exp(-6.0 * rng.uniform())
                            : shape.kind == Rows::isolated ? (rng.between(0, 40) == 0 ? 8.0 : 0.05)
                                                           : 1.0;
      const auto centre = static_cast<std::size_t>(rng.between(0, 49) * shape.d);
      const bool same = shape.kind == Rows::equal && rng.between(0, 3) != 0;
      for (std::int64_t i = 0; i < shape.d; ++i) {
        double& value = values[static_cast<std::size_t>(row * shape.d + i)];
        if (shape.kind == Rows::bytes) value = static_cast<double>(rng.between(0, 255));
        else value = same ? 1.0 : length * rng.gauss();
        if (shape.kind == Rows::clusters) value += centres[centre + static_cast<std::size_t>(i)];
      }
    }
    const Table rows(shape.kind == Rows::bytes ? DType::u8 : DType::f32, shape.n, shape.d, values);
    vicinal::GraphOptions options;
    options.search.k = shape.k;
    options.search.metric = shape.metric;
    options.search.run.device = "cuda";
    const vicinal::Neighbors both = vicinal::knn_graph(rows.points(), options);
    EXPECT_TRUE(vicinal::plan_graph(vicinal::Shape{shape.n, shape.d, rows.points().dtype}, options).symmetric ||
                vicinal::plan_graph(vicinal::Shape{shape.n, shape.d, rows.points().dtype}, options).instruction_set !=
                    "wgmma");
    options.symmetry = false;
    const vicinal::Neighbors one = vicinal::knn_graph(rows.points(), options);
    // Where not all may answer tiles serve one side.
    std::vector<std::uint64_t> bitmap(static_cast<std::size_t>((shape.n + 63) / 64));
    for (std::uint64_t& word : bitmap) word = static_cast<std::uint64_t>(rng.between(1, INT64_MAX));
    for (const bool ranged : {false, true}) {
      vicinal::GraphOptions some = options;
      if (ranged) some.search.eligible.first = shape.n / 3;
      else some.search.eligible.bitmap = bitmap;
      const vicinal::Neighbors alone = vicinal::knn_graph(rows.points(), some);
      some.symmetry = true;
      EXPECT_FALSE(vicinal::plan_graph(vicinal::Shape{shape.n, shape.d, rows.points().dtype}, some).symmetric);
      const vicinal::Neighbors again = vicinal::knn_graph(rows.points(), some);
      EXPECT_EQ(std::memcmp(alone.ids(), again.ids(), static_cast<std::size_t>(shape.n * shape.k) * 8), 0);
    }
    const auto entries = static_cast<std::size_t>(shape.n * shape.k);
    EXPECT_EQ(std::memcmp(both.ids(), one.ids(), entries * 8), 0);
    EXPECT_EQ(std::memcmp(both.distances(), one.distances(), entries * vicinal::distance_size(one.type())), 0);
    // The CPU has a row beside itself, wherever that stands in its list.
    vicinal::KnnOptions host = options.search;
    host.run.device = "cpu";
    host.k = shape.k + 1;
    const std::int64_t first = shape.n - 77;
    const vicinal::Neighbors want = vicinal::knn(rows.points(), rows.points().slice(first, 77), host);
    std::int64_t differ = 0;
    for (std::int64_t query = 0; query < 77; ++query)
      for (std::int64_t i = 0, at = 0; i < shape.k; ++i, ++at) {
        if (want.id(query, at) == first + query) ++at;
        differ += both.id(first + query, i) != want.id(query, at) ? 1 : 0;
      }
    EXPECT_EQ(differ, 0);
    std::printf("%lld x %lld: %.1f ms from both sides, %lld redone; %.1f ms from one, %lld redone\n",
                static_cast<long long>(shape.n), static_cast<long long>(shape.d), both.stats.seconds * 1e3,
                static_cast<long long>(both.certificate.redone), one.stats.seconds * 1e3,
                static_cast<long long>(one.certificate.redone));
  }
}

// Of rows at two poles, a few per cent of them in four tight clusters, for which more rows look near than may pass: by guesses their queries are given up,
// and others come to their positions. A list of one call may not be what another left in memory.
TEST(CudaAdversarial, GraphsWithCrowdedQueriesHaveTheirBits) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const std::int64_t n = 98304, d = 12, k = 8;
  for (const auto& [seed, share, pole] : {std::tuple{2, .028, 20.0}, {3, .03, 20.0}, {1, .026, 20.0}, {4, .03, 10.0}}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<std::uint64_t>(seed));
    std::vector<double> values(static_cast<std::size_t>(n * d)), centres(static_cast<std::size_t>(4 * d));
    const auto direct = [&](double* row) {
      double square = 0;
      for (std::int64_t j = 1; j < d; ++j) {
        row[j] = rng.gauss();
        square += row[j] * row[j];
      }
      for (std::int64_t j = 1; j < d; ++j) row[j] *= 6 / std::sqrt(square);
    };
    for (std::int64_t centre = 0; centre < 4; ++centre) {
      double* const row = centres.data() + centre * d;
      if (centre % 2 == 0) direct(row);
      else
        for (std::int64_t j = 1; j < d; ++j) row[j] = -row[j - d];
      row[0] = centre % 2 == 0 ? -pole : pole;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      double* const row = values.data() + i * d;
      direct(row);
      row[0] = rng.between(0, 1) == 0 ? pole : -pole;
      const auto centre = static_cast<std::int64_t>(rng.uniform() / share);
      if (centre < 4)
        for (std::int64_t j = 0; j < d; ++j)
          row[j] = centres[static_cast<std::size_t>(centre * d + j)] + (j > 0 ? .003 * pole * rng.gauss() : 0);
    }
    const Table rows(DType::f32, n, d, values);
    vicinal::GraphOptions options;
    options.search.k = k;
    options.search.run.device = "cuda";
    options.symmetry = false;
    const vicinal::Neighbors one = vicinal::knn_graph(rows.points(), options);
    options.symmetry = true;
    for (int call = 0; call < 3; ++call) {
      const vicinal::Neighbors both = vicinal::knn_graph(rows.points(), options);
      EXPECT_EQ(std::memcmp(both.ids(), one.ids(), static_cast<std::size_t>(n * k) * 8), 0) << "call " << call;
      EXPECT_EQ(std::memcmp(both.distances(), one.distances(), static_cast<std::size_t>(n * k) * 4), 0);
      std::printf("crowded: %lld redone from both sides, %lld from one\n",
                  static_cast<long long>(both.certificate.redone), static_cast<long long>(one.certificate.redone));
    }
  }
}

// Shapes that many blocks share, against the CPU: thresholds from a sample, several phases, slabs of columns, kept corpora, graphs.
TEST(CudaAdversarial, LargerShapesHaveTheBitsOfTheCpu) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device here";
  const struct {
    std::int64_t n, q, d, k;
    Metric metric;
    DType dtype;
    double offset;
  } shapes[] = {{60000, 700, 128, 10, Metric::euclidean, DType::f32, 0},
                {60000, 300, 64, 1000, Metric::sqeuclidean, DType::f32, 0},
                {20000, 500, 784, 15, Metric::cosine, DType::f32, 0},
                {50000, 257, 33, 100, Metric::inner_product, DType::f32, 0},
                {50000, 129, 96, 20, Metric::euclidean, DType::f32, 1e6},
                {40000, 300, 128, 100, Metric::sqeuclidean, DType::u8, 0},
                {30000, 100, 200, 10, Metric::correlation, DType::f64, 0},
                {30000, 1, 128, 10, Metric::l1, DType::f32, 0},
                {30000, 40, 16, 30000, Metric::euclidean, DType::f32, 0},
                {30000, 64, 40, 2048, Metric::euclidean, DType::f16, 0},
                {150000, 60, 64, 4096, Metric::euclidean, DType::f32, 0},
                {60000, 20, 24, 2500, Metric::sqeuclidean, DType::u8, 0},
                {130000, 4, 48, 5000, Metric::cosine, DType::f64, 1}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(std::string(metric_name(shape.metric)) + " " + std::to_string(shape.n) + " x " +
                 std::to_string(shape.d));
    Rng rng(static_cast<std::uint64_t>(shape.n + shape.d));
    const auto table = [&](std::int64_t rows) {
      std::vector<double> values(static_cast<std::size_t>(rows * shape.d));
      for (double& value : values)
        value = shape.dtype == DType::u8 ? static_cast<double>(rng.between(0, 255)) : shape.offset + rng.gauss();
      return Table(shape.dtype, rows, shape.d, values);
    };
    const Table corpus = table(shape.n), queries = table(shape.q);
    vicinal::KnnOptions options;
    options.k = shape.k;
    options.metric = shape.metric;
    options.run.device = "cpu";
    const vicinal::Neighbors want = vicinal::knn(corpus.points(), queries.points(), options);
    options.run.device = "cuda";
    const vicinal::Neighbors got = vicinal::knn(corpus.points(), queries.points(), options);
    const auto same = [&](const vicinal::Neighbors& a, const vicinal::Neighbors& b) {
      const auto size = static_cast<std::size_t>(a.rows() * a.k());
      return std::memcmp(a.ids(), b.ids(), size * 8) == 0 &&
             std::memcmp(a.distances(), b.distances(), size * vicinal::distance_size(a.type())) == 0;
    };
    EXPECT_TRUE(same(got, want));
    for (const char* filter : {"fp16", "f32"}) {
      vicinal::KnnOptions forced = options;
      forced.run.filter = filter;
      const vicinal::Neighbors by = vicinal::knn(corpus.points(), queries.points(), forced);
      EXPECT_TRUE(same(by, want)) << filter;
      std::printf(
          "%s %lld x %lld, %lld queries, k=%lld by %s: %.1f ms, %lld redone, %.0f passed and %.0f ranked a query (int8 "
          "%.1f ms, %lld redone)\n",
          metric_name(shape.metric).c_str(), static_cast<long long>(shape.n), static_cast<long long>(shape.d),
          static_cast<long long>(shape.q), static_cast<long long>(shape.k), filter, by.stats.seconds * 1e3,
          static_cast<long long>(by.certificate.redone),
          static_cast<double>(by.stats.candidates) / static_cast<double>(shape.q),
          static_cast<double>(by.stats.reranked) / static_cast<double>(shape.q), got.stats.seconds * 1e3,
          static_cast<long long>(got.certificate.redone));
    }
    vicinal::CorpusOptions kept;
    kept.metric = shape.metric;
    kept.run.device = "cuda";
    const vicinal::Corpus prepared(corpus.points(), kept);
    EXPECT_TRUE(same(prepared.knn(queries.points(), options), want));
    vicinal::KnnOptions little = options;
    little.memory.host =
        std::max(vicinal::plan(shape_of(corpus.points()), shape_of(queries.points()), options).minimum_bytes,
                 std::int64_t{1} << 20);
    EXPECT_TRUE(same(vicinal::knn(corpus.points(), queries.points(), little), want));
    if (shape.k > 100 || shape.q < 10) continue;
    vicinal::GraphOptions graph;
    graph.search = options;
    graph.search.k = 5;
    const vicinal::Points part = queries.points();
    const vicinal::Neighbors there = vicinal::knn_graph(part, graph);
    graph.search.run.device = "cpu";
    EXPECT_TRUE(same(there, vicinal::knn_graph(part, graph)));
  }
}

}  // namespace
}  // namespace conformance
