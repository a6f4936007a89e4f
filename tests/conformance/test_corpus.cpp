// What a Corpus answers has the bits of the free functions of the same names: every metric and element type, made under one
// setting and asked under another, its form kept or not, with and without conditions on rows.
#include <gtest/gtest.h>

#include <cstring>

#include "conformance/lists.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;
using vicinal::CsrNeighbors;
using vicinal::ErrorCode;
using vicinal::GraphOptions;
using vicinal::KnnOptions;
using vicinal::Neighbors;
using vicinal::RangeOptions;

std::string csr_difference(const CsrNeighbors& got, const CsrNeighbors& want) {
  if (got.rows() != want.rows() || got.type() != want.type() || got.entries() != want.entries()) return "another shape";
  const auto entries = static_cast<std::size_t>(want.entries());
  if (std::memcmp(got.offsets(), want.offsets(), 8 * static_cast<std::size_t>(want.rows() + 1)) != 0) return "offsets";
  if (std::memcmp(got.ids(), want.ids(), 8 * entries) != 0) return "ids";
  if (std::memcmp(got.distances(), want.distances(), vicinal::distance_size(want.type()) * entries) != 0)
    return "distances";
  return got.certificate.all() ? "" : "not certified";
}

class CorpusSearches : public testing::TestWithParam<Kind> {
 protected:
  Rng rng{5200 + static_cast<std::uint64_t>(GetParam().metric) * 7 + static_cast<std::uint64_t>(GetParam().dtype)};

  Corpus make(const Table& table, bool kept) {
    vicinal::CorpusOptions options;
    options.metric = GetParam().metric;
    options.degenerate = vicinal::Degenerate::one;
    const Setting setting = random_setting(rng);
    options.run = {.threads = setting.threads, .instruction_set = setting.instruction_set};
    if (!kept) options.memory.host = 1;
    Corpus corpus(table.points(), options);
    EXPECT_EQ(corpus.resident(), kept);
    return corpus;
  }
  KnnOptions ask(std::int64_t k) {
    KnnOptions options;
    options.metric = GetParam().metric;
    options.degenerate = vicinal::Degenerate::one;
    options.k = k;
    options.run.threads = rng.pick(all_threads);
    options.distance_type = GetParam().metric == Metric::hamming || rng.chance(0.5) ? vicinal::DistanceType::automatic
                                                                                    : vicinal::DistanceType::f64;
    return options;
  }
};

TEST_P(CorpusSearches, HaveTheBitsOfTheFreeFunctions) {
  // Few columns, where rows stand in a tree; many, where bytes come first; and a graph large enough that tiles serve both sides.
  for (const auto& [n, d] : {std::pair<std::int64_t, std::int64_t>{1100, 3}, {1100, 40}, {200, 300}}) {
    const Table rows = mixed_table(rng, GetParam().dtype, n, d), queries = mixed_table(rng, GetParam().dtype, 9, d);
    for (const bool kept : {true, false}) {
      if (!kept && n > 500) continue;  // as the free functions do it: once is enough
      const Corpus corpus = make(rows, kept);
      const KnnOptions knn = ask(11);
      const Neighbors truth = vicinal::knn(rows.points(), queries.points(), knn);
      EXPECT_EQ(difference(corpus.knn(queries.points(), knn), truth), "") << GetParam().text() << " d=" << d;
      for (const Condition condition : {Condition::none, rng.pick(all_conditions)}) {
        const std::string where = GetParam().text() + " d=" + std::to_string(d) + (kept ? " kept, " : ", ");
        const Filter filter = make_filter(rng, condition, n, n);
        GraphOptions graph;
        graph.search = ask(13);
        graph.search.pad = true;
        graph.search.eligible = filter.view();
        graph.search.eligible.query_labels = {};
        graph.include_self = rng.chance(0.3);
        graph.symmetry = rng.chance(0.7);
        const Neighbors want = vicinal::knn_graph(rows.points(), graph);
        EXPECT_EQ(difference(corpus.knn_graph(graph), want), "") << where << filter.name;

        const Filter some = make_filter(rng, condition, n, 9);
        RangeOptions range;
        range.search = ask(1);
        range.search.eligible = some.view();
        for (const double radius : {truth.distance(4, 7), truth.distance(0, 0), -1.0}) {
          const CsrNeighbors found = vicinal::range_search(rows.points(), queries.points(), radius, range);
          EXPECT_EQ(csr_difference(corpus.range_search(queries.points(), radius, range), found), "")
              << where << some.name << " radius " << radius;
        }
      }
      vicinal::Claim claim{9, 11, truth.ids(), truth.distances(), truth.type()};
      const auto right = corpus.verify(queries.points(), claim, {.search = knn});
      EXPECT_EQ(right.correct, 9) << GetParam().text();
      EXPECT_EQ(difference(right.truth, truth), "");
      std::vector<std::int64_t> ids(truth.ids(), truth.ids() + 99);
      ids[35] = vicinal::knn(rows.points(), queries.points().slice(3, 1), ask(n)).id(0, n - 1);
      claim.ids = ids.data();
      const auto got = corpus.verify(queries.points(), claim, {.search = knn});
      const auto wanted = vicinal::verify(rows.points(), queries.points(), claim, {.search = knn});
      ASSERT_EQ(got.faults.size(), 1u) << GetParam().text();
      EXPECT_EQ(got.faults[0].row, 3);
      EXPECT_EQ(wanted.faults.size(), 1u);
      EXPECT_EQ(got.faults[0].fault, wanted.faults[0].fault);
      EXPECT_EQ(got.faults[0].given, wanted.faults[0].given);
      EXPECT_EQ(got.recall, wanted.recall);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CorpusSearches, testing::ValuesIn(all_kinds()), [](const auto& info) {
  return metric_name(info.param.metric) + "_" + vicinal::dtype_name(info.param.dtype);
});

TEST(CorpusErrors, AreThoseOfTheFreeFunctions) {
  Rng rng(53);
  const Table rows = gaussian(rng, DType::f32, 40, 5), queries = gaussian(rng, DType::f32, 4, 5),
              wide = gaussian(rng, DType::f32, 4, 6);
  const Corpus corpus(rows.points(), {.metric = Metric::l1});
  const auto same = [](const auto& of_corpus, const auto& of_function, ErrorCode code) {
    const Refusal got = refusal(of_corpus), want = refusal(of_function);
    ASSERT_TRUE(got.code);
    EXPECT_EQ(*got.code, code);
    EXPECT_EQ(got.message, want.message);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  KnnOptions l1{.k = 40, .metric = Metric::l1};
  same([&] { corpus.knn_graph({.search = l1}); }, [&] { vicinal::knn_graph(rows.points(), {.search = l1}); },
       ErrorCode::invalid_argument);
  same([&] { corpus.range_search(queries.points(), nan); },
       [&] { vicinal::range_search(rows.points(), queries.points(), nan, {.search = l1}); },
       ErrorCode::invalid_argument);
  same([&] { corpus.range_search(wide.points(), 1); },
       [&] { vicinal::range_search(rows.points(), wide.points(), 1, {.search = l1}); }, ErrorCode::invalid_argument);
  same([&] { corpus.range_search(queries.points(), 100, {.max_results = 7}); },
       [&] { vicinal::range_search(rows.points(), queries.points(), 100, {.search = l1, .max_results = 7}); },
       ErrorCode::capacity_exceeded);
  const std::vector<std::int64_t> ids(3 * 2);
  same(
      [&] {
        corpus.verify(queries.points(), {3, 2, ids.data()});
      },
      [&] {
        vicinal::verify(rows.points(), queries.points(), {3, 2, ids.data()}, {.search = l1});
      },
      ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace conformance
