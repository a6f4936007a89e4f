// The path matrix: whatever the instruction set, threads, memory, partition, proof, preparation, batching or layout,
// the bits are those of the oracle. Metrics, types, sets and filters come from the library's own lists.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::KnnOptions;
using vicinal::Neighbors;

constexpr std::int64_t rows = 710, dims = 37, query_count = 9, neighbours = 17;

class Paths : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Rng rng(40 + static_cast<std::uint64_t>(GetParam().metric) * 7 + static_cast<std::uint64_t>(GetParam().dtype));
    corpus = mixed_table(rng, GetParam().dtype, rows, dims);
    queries = mixed_table(rng, GetParam().dtype, query_count, dims);
    options.metric = GetParam().metric;
    options.k = neighbours;
    want = oracle::knn(corpus.rows(), queries.rows(), spec(options));
    ASSERT_FALSE(want.error) << vicinal::error_name(*want.error);
  }
  KnnOptions with(const Setting& setting) const { return apply(setting, options, corpus.points(), queries.points()); }

  template <class Body>
  void for_each_setting(Body body) const {
    static Rng share(21);  // others for every kind, where VICINAL_TEST_SCALE asks for a part of them
    for (const std::string& set : instruction_sets())
      for (const int threads : all_threads)
        for (const Memory memory : all_memory) {
          if (!in_share(share, 0.15)) continue;
          // Few queries may skip the filter on their own; here it is forced.
          Setting setting{set, filters().front(), threads, memory, vicinal::Proof::certified};
          SCOPED_TRACE(setting.text());
          body(setting);
        }
  }

  Table corpus, queries;
  KnnOptions options;
  oracle::Answer want;
};

TEST_P(Paths, EverySettingAndFilter) {
  for_each_setting([&](Setting setting) {
    EXPECT_EQ(check(corpus.points(), queries.points(), with(setting), want), "");
    for (const std::string& filter : filters()) {
      setting.filter = filter;
      EXPECT_EQ(check(corpus.points(), queries.points(), with(setting), want), "") << "filter " << filter;
    }
    setting.filter = "auto";
    setting.proof = vicinal::Proof::exhaustive;
    EXPECT_EQ(check(corpus.points(), queries.points(), with(setting), want), "") << "exhaustive";
  });
}

TEST_P(Paths, CorpusInPartsMerged) {
  for_each_setting([&](const Setting& setting) {
    for (const std::int64_t parts : {1, 2, 3, 7}) {
      std::vector<Neighbors> results;
      for (std::int64_t p = 0; p < parts; ++p) {
        const std::int64_t first = rows * p / parts, last = rows * (p + 1) / parts;
        KnnOptions part = with(setting);
        part.memory.host = 0;
        part.first_id = first;
        const vicinal::Points slice = corpus.points().slice(first, last - first);
        results.push_back(vicinal::knn(slice, queries.points(), apply(setting, part, slice, queries.points())));
      }
      std::vector<vicinal::NeighborsView> views;
      for (const Neighbors& result : results) views.push_back(result.view());
      std::reverse(views.begin(), views.end());
      EXPECT_EQ(difference(vicinal::merge(views, {neighbours, options.metric, false}), want, From::merge), "")
          << parts << " parts";
    }
  });
}

TEST_P(Paths, PreparedCorpus) {
  for_each_setting([&](const Setting& setting) {
    const KnnOptions search = with(setting);
    const vicinal::Corpus prepared(
        corpus.points(),
        {.metric = options.metric, .copy = setting.threads == 2, .memory = search.memory, .run = search.run});
    EXPECT_EQ(prepared.rows(), rows);
    EXPECT_EQ(prepared.cols(), dims);
    EXPECT_EQ(prepared.metric(), options.metric);
    EXPECT_EQ(prepared.dtype(), corpus.dtype);
    EXPECT_EQ(difference(prepared.knn(queries.points(), search), want), "");
    EXPECT_EQ(difference(prepared.knn(queries.points(), {.k = neighbours}), want), "") << "with defaults";
  });
}

TEST_P(Paths, QueriesWholeSplitAndOneByOne) {
  for_each_setting([&](const Setting& setting) {
    for (const std::int64_t batch : {query_count / 2, std::int64_t{1}})
      for (std::int64_t first = 0; first < query_count; first += batch) {
        const std::int64_t count = std::min(batch, query_count - first);
        const vicinal::Points slice = queries.points().slice(first, count);
        const Neighbors got = vicinal::knn(corpus.points(), slice, apply(setting, options, corpus.points(), slice));
        oracle::Answer part = want;
        part.rows = count;
        part.ids.assign(want.ids.begin() + first * neighbours, want.ids.begin() + (first + count) * neighbours);
        part.keys.assign(want.keys.begin() + first * neighbours, want.keys.begin() + (first + count) * neighbours);
        EXPECT_EQ(difference(got, part), "") << "queries from " << first << ", batch " << batch;
      }
  });
}

TEST_P(Paths, EveryLayoutOfEitherSide) {
  Rng rng(77);
  for (const Layout layout : all_layouts) {
    const Arranged c(corpus, layout), q(queries, layout);
    for (const Memory memory : all_memory) {
      const Setting setting{rng.pick(instruction_sets()), filters().front(), rng.pick(all_threads), memory,
                            vicinal::Proof::certified};
      for (const auto& [left, right] :
           {std::pair{c.points, q.points}, std::pair{c.points, queries.points()}, std::pair{corpus.points(), q.points}})
        EXPECT_EQ(check(left, right, apply(setting, options, left, right), want), "")
            << layout_name(layout) << " " << setting.text();
      const vicinal::Corpus prepared(c.points, {.metric = options.metric});
      EXPECT_EQ(difference(prepared.knn(q.points, {.k = neighbours}), want), "") << layout_name(layout) << " prepared";
    }
  }
}

TEST_P(Paths, OtherOutputTypeAndOtherQueryTypes) {
  if (GetParam().metric == Metric::hamming) return;  // one output type, one input type
  for (const DType type : all_dtypes)
    for (const auto out : {vicinal::DistanceType::automatic, vicinal::DistanceType::f32, vicinal::DistanceType::f64}) {
      Rng rng(5);
      const Table other = mixed_table(rng, type, query_count, dims);
      KnnOptions ask = options;
      ask.distance_type = out;
      const oracle::Answer expected = oracle::knn(corpus.rows(), other.rows(), spec(ask));
      for (const std::string& set : instruction_sets()) {
        ask.run.instruction_set = set;
        ask.run.filter = filters().front();
        EXPECT_EQ(check(corpus.points(), other.points(), ask, expected), "")
            << "queries " << vicinal::dtype_name(type) << " to " << vicinal::distance_type_name(out) << " " << set;
      }
    }
}

TEST_P(Paths, ARowThatRepeatsByStrideZero) {
  vicinal::Points repeated = corpus.points();
  repeated.row_stride = 0;
  Table copies = corpus;
  const std::size_t row = copies.bytes.size() / rows;
  for (std::size_t i = 1; i < rows; ++i)
    std::copy_n(copies.bytes.begin(), row, copies.bytes.begin() + static_cast<std::ptrdiff_t>(i * row));
  EXPECT_EQ(check(repeated, queries.points(), options, oracle::knn(copies.rows(), queries.rows(), spec(options))), "");
}

INSTANTIATE_TEST_SUITE_P(All, Paths, testing::ValuesIn(all_kinds()), [](const auto& kind) {
  return metric_name(kind.param.metric) + "_" + vicinal::dtype_name(kind.param.dtype);
});

// Tiles are visited in runs where a split has many. The last ones are no whole run, and rows come nearer to the queries all along.
TEST(Runs, ManyTilesHaveTheBitsOfEveryPairRanked) {
  constexpr std::int64_t n = 40'009, d = 19, asked = 23;
  Rng rng(31), share(32);
  std::vector<double> values(static_cast<std::size_t>(n * d)), near(static_cast<std::size_t>(asked * d));
  for (std::int64_t i = 0; i < n * d; ++i)
    values[static_cast<std::size_t>(i)] =
        static_cast<double>(rng.between(-50, 50)) * (2 - static_cast<double>(i) / (n * d));
  for (double& x : near) x = static_cast<double>(rng.between(-20, 20));
  for (const DType type : {DType::f32, DType::i8}) {
    const Table corpus(type, n, d, values), queries(type, asked, d, near);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, asked}) {
      const vicinal::Points some = queries.points().slice(0, count);
      KnnOptions options{.k = 30};
      options.proof = vicinal::Proof::exhaustive;
      const Neighbors want = vicinal::knn(corpus.points(), some, options);
      options.proof = vicinal::Proof::certified;
      for (const std::string& set : instruction_sets())
        for (const char* filter : {"auto", "int8", "f32"})
          for (const int threads : {1, 2}) {
            if (!in_share(share, 0.3)) continue;
            options.run = {.threads = threads, .instruction_set = set, .filter = filter};
            const vicinal::Corpus kept(corpus.points(), {.run = options.run});
            EXPECT_EQ(difference(kept.knn(some, options), want), "")
                << vicinal::dtype_name(type) << ' ' << count << ' ' << set << ' ' << filter << ' ' << threads;
          }
    }
  }
}

// Waking a thread takes as long as a small search; a number that was asked for is taken at its word.
TEST(Threads, SmallSearchesTakeOneUnlessANumberIsAskedFor) {
  const vicinal::Shape few{200, 16, DType::f32}, many{1'000'000, 128, DType::f32}, one{1, 16, DType::f32},
      some{1000, 128, DType::f32};
  KnnOptions options{.k = 5};
  EXPECT_EQ(vicinal::plan(few, one, options).threads, 1);
  EXPECT_EQ(vicinal::plan(many, some, options).threads, vicinal::info().threads);
  const vicinal::Shape bits{1'000'000, 8, DType::u8}, one_of_bits{1, 8, DType::u8};
  KnnOptions hamming{.k = 5, .metric = Metric::hamming};
  EXPECT_EQ(vicinal::plan(bits, one_of_bits, hamming).threads, vicinal::info().threads);  // one call packs all rows
  options.run.threads = 3;
  EXPECT_EQ(vicinal::plan(few, one, options).threads, 3);
}

TEST(Lists, NameEverythingOnce) {
  const vicinal::Info info = vicinal::info();
  ASSERT_FALSE(info.instruction_sets.empty());
  EXPECT_EQ(info.instruction_sets.back(), "plain");
  for (const std::string& name : info.instruction_sets)
    EXPECT_EQ(std::count(info.built_instruction_sets.begin(), info.built_instruction_sets.end(), name), 1) << name;
  ASSERT_FALSE(info.filters.empty());
  EXPECT_EQ(info.filters.back(), "canonical");
  ASSERT_FALSE(info.backends.empty());
  EXPECT_EQ(info.backends.front(), "cpu");
  EXPECT_EQ(info.devices.front().name, "cpu");
  EXPECT_TRUE(info.devices.front().usable);
  EXPECT_GE(info.threads, 1);
  EXPECT_EQ(info.semantics_version, 1);
  const auto of_vectors = std::count_if(vicinal::metrics().begin(), vicinal::metrics().end(),
                                        [](const vicinal::MetricInfo& metric) { return metric.vectors; });
  EXPECT_EQ(all_kinds().size(), static_cast<std::size_t>(of_vectors - 1) * all_dtypes.size() + 1);
}

TEST(Lists, AForcedInstructionSetIsTheOneThatRan) {
  Rng rng(3);
  const Table corpus = gaussian(rng, DType::f32, 500, 16), queries = gaussian(rng, DType::f32, 4, 16);
  for (const std::string& set : instruction_sets()) {
    KnnOptions options;
    options.run.instruction_set = set;
    EXPECT_EQ(vicinal::knn(corpus.points(), queries.points(), options).stats.instruction_set, set);
    EXPECT_EQ(vicinal::plan(shape_of(corpus.points()), shape_of(queries.points()), options).instruction_set, set);
  }
  for (const std::string& filter : filters()) {
    KnnOptions options;
    options.run.filter = filter;
    const auto precisions = vicinal::knn(corpus.points(), queries.points(), options).certificate.precisions;
    ASSERT_FALSE(precisions.empty());
    EXPECT_EQ(precisions.front(), filter);
  }
}

TEST(Lists, EveryBackendIsSearchedByName) {
  Rng rng(3);
  const Table corpus = gaussian(rng, DType::f32, 500, 16), queries = gaussian(rng, DType::f32, 4, 16);
  for (const std::string& backend : vicinal::info().backends) {
    KnnOptions options;
    options.run.device = backend;
    EXPECT_EQ(
        check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))),
        "")
        << backend;
  }
}

}  // namespace
}  // namespace conformance
