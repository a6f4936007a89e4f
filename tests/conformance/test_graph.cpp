// k-NN graphs against the oracle: whatever the instruction set, threads, memory or use of symmetry, row i has the bits
// of a search for it with id i left out. Then what is built on a graph: its symmetrised forms and its CSR form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "conformance/lists.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;
using vicinal::GraphOptions;
using vicinal::Neighbors;
using vicinal::Symmetrize;

GraphOptions graph_options(Metric metric, std::int64_t k) {
  GraphOptions options;
  options.search.metric = metric;
  options.search.k = k;
  options.search.degenerate = vicinal::Degenerate::one;  // one-column rows are constant
  return options;
}
oracle::Answer expected(const Table& table, const GraphOptions& options) {
  return oracle::graph(table.rows(), spec(options.search), options.include_self);
}

class Graph : public testing::TestWithParam<Kind> {
 protected:
  Rng rng{300 + static_cast<std::uint64_t>(GetParam().metric) * 7 + static_cast<std::uint64_t>(GetParam().dtype)};
  Table table(std::int64_t n, std::int64_t d) { return mixed_table(rng, GetParam().dtype, n, d); }
};

TEST_P(Graph, EverySettingWithAndWithoutSymmetry) {
  const Table rows = table(290, 37);
  GraphOptions options = graph_options(GetParam().metric, 17);
  const oracle::Answer want = expected(rows, options);
  ASSERT_FALSE(want.error);
  for (Setting setting : every_setting())
    for (const bool symmetry : {true, false}) {
      options.symmetry = symmetry;
      EXPECT_EQ(check_graph(setting, rows.points(), options, want), "") << setting.text() << " symmetry " << symmetry;
    }
  for (const bool symmetry : {true, false}) {
    options.symmetry = symmetry;
    for (const std::string& filter : filters())
      EXPECT_EQ(check_graph({"auto", filter}, rows.points(), options, want), "") << filter << " symmetry " << symmetry;
    EXPECT_EQ(check_graph({"auto", "auto", 2, Memory::third, vicinal::Proof::exhaustive}, rows.points(), options, want),
              "")
        << "exhaustive";
  }
}

TEST_P(Graph, OtherOutputTypesAndEveryLayout) {
  const Table rows = table(200, 19);
  for (const auto type : {vicinal::DistanceType::automatic, vicinal::DistanceType::f32, vicinal::DistanceType::f64}) {
    if (GetParam().metric == Metric::hamming && type != vicinal::DistanceType::automatic) continue;
    GraphOptions options = graph_options(GetParam().metric, 11);
    options.search.distance_type = type;
    const oracle::Answer want = expected(rows, options);
    EXPECT_EQ(check_graph(rows.points(), options, want), "") << vicinal::distance_type_name(type);
    for (const Layout layout : all_layouts) {
      options.symmetry = rng.chance(0.5);
      const Arranged arranged(rows, layout);
      const Setting setting{rng.pick(instruction_sets()), filters().front(), rng.pick(all_threads),
                            rng.pick(all_memory), vicinal::Proof::certified};
      EXPECT_EQ(check_graph(setting, arranged.points, options, want), "")
          << layout_name(layout) << " " << setting.text();
    }
  }
}

// Removing the row itself from a search for one more is the definition said in another way.
TEST_P(Graph, IsTheSearchWithItselfRemoved) {
  const Table rows = table(420, 23);
  constexpr std::int64_t k = 20;
  const GraphOptions options = graph_options(GetParam().metric, k);
  vicinal::KnnOptions one_more = options.search;
  one_more.k = k + 1;
  const Neighbors graph = vicinal::knn_graph(rows.points(), options);
  const Neighbors search = vicinal::knn(rows.points(), rows.points(), one_more);
  ASSERT_EQ(graph.k(), k);
  for (std::int64_t i = 0; i < rows.n; ++i)
    for (std::int64_t j = 0, rank = 0; j < k; ++j, ++rank) {
      if (search.id(i, rank) == i) ++rank;
      ASSERT_EQ(graph.id(i, j), search.id(i, rank)) << "row " << i << " rank " << j;
      ASSERT_EQ(graph.distance(i, j), search.distance(i, rank)) << "row " << i << " rank " << j;
    }
}

TEST_P(Graph, IncludingSelfIsTheSearchOfTheRowsInThemselves) {
  const Table rows = table(280, 9);
  GraphOptions options = graph_options(GetParam().metric, 12);
  options.include_self = true;
  for (const bool symmetry : {true, false}) {
    options.symmetry = symmetry;
    const Neighbors got = vicinal::knn_graph(rows.points(), options);
    EXPECT_EQ(difference(got, vicinal::knn(rows.points(), rows.points(), options.search)), "");
    EXPECT_EQ(difference(got, expected(rows, options)), "");
  }
  options.search.k = rows.n;
  EXPECT_EQ(check_graph(rows.points(), options, expected(rows, options)), "") << "k = n";
}

TEST_P(Graph, KAtItsLimits) {
  for (const std::int64_t n : {1, 2, 5, 33, 130}) {
    const Table rows = table(n, 6);
    for (const bool self : {false, true})
      for (const std::int64_t k : {n - 2, n - 1, n, n + 1, n + 40})
        for (const bool pad : {false, true}) {
          if (k < 1) continue;
          GraphOptions options = graph_options(GetParam().metric, k);
          options.search.pad = pad;
          options.include_self = self;
          options.symmetry = rng.chance(0.5);
          const oracle::Answer want = expected(rows, options);
          EXPECT_EQ(want.error.has_value(), !pad && k > n - !self);
          EXPECT_EQ(check_graph(rows.points(), options, want), "")
              << "n=" << n << " k=" << k << " pad " << pad << " self " << self;
        }
  }
}

TEST_P(Graph, CopiesOfOneRowStayAndGoById) {
  for (const std::int64_t n : {2, 33, 257, 600}) {
    Table rows = table(n, 5);
    const std::size_t bytes = rows.bytes.size() / static_cast<std::size_t>(n);
    for (std::size_t i = 1; i < static_cast<std::size_t>(n); ++i)
      if (n == 33 || i % 7 != 3)  // 33: all are equal
        std::copy_n(rows.bytes.begin(), bytes, rows.bytes.begin() + static_cast<std::ptrdiff_t>(i * bytes));
    GraphOptions options = graph_options(GetParam().metric, std::min<std::int64_t>(n - 1, 40));
    const oracle::Answer want = expected(rows, options);
    for (const bool symmetry : {true, false}) {
      options.symmetry = symmetry;
      EXPECT_EQ(check_graph(rows.points(), options, want), "") << n << " rows";
    }
  }
}

TEST_P(Graph, SymmetrisedFormsAreTheOraclesAndSymmetricToTheBit) {
  for (const std::int64_t n : {1, 2, 40, 300}) {
    const Table rows = table(n, 8);
    GraphOptions options = graph_options(GetParam().metric, std::min<std::int64_t>(n, 9));
    options.search.pad = true;
    options.include_self = n == 40;
    const Neighbors graph = vicinal::knn_graph(rows.points(), options);
    const oracle::Answer want = expected(rows, options);
    EXPECT_EQ(difference(vicinal::to_csr(graph), oracle::listed(want)), "") << n << " rows";
    for (const Symmetrize how : {Symmetrize::either, Symmetrize::mutual}) {
      const vicinal::CsrNeighbors got = vicinal::symmetrize(graph, how);
      EXPECT_EQ(difference(got, oracle::symmetrized(want, how == Symmetrize::mutual)), "") << n << " rows";
      std::map<std::pair<std::int64_t, std::int64_t>, double> edges;
      for (std::int64_t i = 0; i < got.rows(); ++i)
        for (std::int64_t j = 0; j < got.count(i); ++j) {
          edges[{i, got.id(i, j)}] = got.distance(i, j);
          EXPECT_TRUE(j == 0 || got.id(i, j - 1) < got.id(i, j)) << "row " << i;
        }
      for (const auto& [edge, weight] : edges) {
        const auto back = edges.find({edge.second, edge.first});
        ASSERT_TRUE(back != edges.end()) << edge.first << " to " << edge.second;
        EXPECT_TRUE(weight == back->second && std::signbit(weight) == std::signbit(back->second));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Graph, testing::ValuesIn(all_kinds()), [](const auto& kind) {
  return metric_name(kind.param.metric) + "_" + vicinal::dtype_name(kind.param.dtype);
});

TEST(GraphShapes, SampledAroundEveryEdge) {
  const std::uint64_t seed = seed_or(7101);
  const std::vector<std::int64_t> ns = {1,   2,   3,   31,  32,  33,  63,  64,  65,  127,  128,
                                        129, 255, 256, 257, 511, 512, 513, 600, 769, 1025, 1500},
                                  ds = {1, 2, 3, 4, 5, 6, 7, 8, 31, 32, 33, 128, 784};
  for (std::int64_t trial = 0; trial < scaled(300); ++trial) {
    Rng rng(seed * 7919 + static_cast<std::uint64_t>(trial));
    const Kind kind = rng.pick(all_kinds());
    std::int64_t n = rng.pick(ns), d = rng.pick(ds);
    while (n * n * d > 3000000) n = rng.pick(ns), d = rng.pick(ds);
    const std::vector<std::int64_t> ks = {1, 2, 10, 31, 32, 33, 100, 129, n - 1, n};
    GraphOptions options = graph_options(kind.metric, std::clamp<std::int64_t>(rng.pick(ks), 1, n));
    options.search.pad = n == 1 || rng.chance(0.2);
    options.include_self = rng.chance(0.2);
    options.symmetry = rng.chance(0.7);
    const Table rows = rng.chance(0.3) && kind.metric != Metric::hamming
                           ? gaussian(rng, kind.dtype, n, d, rng.chance(0.5) ? 100 : 0)
                           : mixed_table(rng, kind.dtype, n, d);
    const Setting setting = random_setting(rng);
    ASSERT_EQ(check_graph(setting, rows.points(), options, expected(rows, options)), "")
        << "seed " << seed << " trial " << trial << " n=" << n << " d=" << d << " k=" << options.search.k << " "
        << kind.text() << " self " << options.include_self << " symmetry " << options.symmetry << " " << setting.text();
  }
}

TEST(GraphShapes, EverySmallCountOfRows) {
  Rng rng(71);
  const Table rows = mixed_table(rng, DType::f32, 140, 5);
  for (std::int64_t n = 2; n <= 140; ++n) {
    GraphOptions options =
        graph_options(n % 2 ? Metric::euclidean : Metric::inner_product, std::min<std::int64_t>(n - 1, 1 + n % 40));
    for (const int threads : all_threads) {
      options.search.run.threads = threads;
      options.search.run.filter = filters().front();
      const auto want =
          oracle::graph(oracle::decode_rows(DType::f32, rows.bytes.data(), n, 5), spec(options.search), false);
      ASSERT_EQ(check_graph(rows.points().slice(0, n), options, want), "") << "n=" << n << " threads " << threads;
    }
  }
}

// Far from the origin a product in floats says nothing; only the proof keeps the lists right.
TEST(GraphShapes, MovedByOneThousand) {
  Rng rng(72);
  const Table rows = gaussian(rng, DType::f32, 1500, 64, 1000, 1);
  for (const Metric metric : {Metric::euclidean, Metric::sqeuclidean, Metric::cosine}) {
    GraphOptions options = graph_options(metric, 15);
    const oracle::Answer want = expected(rows, options);
    for (const bool symmetry : {true, false}) {
      options.symmetry = symmetry;
      EXPECT_EQ(check_graph(rows.points(), options, want), "") << metric_name(metric);
    }
  }
}

// In little memory the graph is made in pieces; the least that its plan names is enough, and less is refused.
TEST(GraphMemory, TheLeastOfThePlanIsEnoughAndLessIsRefused) {
  Rng rng(78);
  for (const Kind kind : {Kind{Metric::euclidean, DType::f32}, Kind{Metric::l1, DType::f64},
                          Kind{Metric::cosine, DType::u8}, Kind{Metric::hamming, DType::u8}}) {
    const Table rows = mixed_table(rng, kind.dtype, 1300, 24);
    for (const bool symmetry : {true, false}) {
      GraphOptions options = graph_options(kind.metric, 12);
      options.symmetry = symmetry;
      const oracle::Answer want = expected(rows, options);
      for (const int threads : all_threads) {
        options.search.run.threads = threads;
        options.search.memory.host = 0;
        const vicinal::Plan plan = vicinal::plan_graph(shape_of(rows.points()), options);
        for (const std::int64_t more : {std::int64_t{0}, (plan.peak_bytes - plan.minimum_bytes) / 2}) {
          options.search.memory.host = plan.minimum_bytes + more;
          EXPECT_EQ(check_graph(rows.points(), options, want), "") << kind.text() << " threads " << threads;
        }
        options.search.memory.host = plan.minimum_bytes - 1;
        const Refusal got = refusal([&] { vicinal::knn_graph(rows.points(), options); });
        EXPECT_EQ(got.code, ErrorCode::memory_budget) << got.message;
        EXPECT_NE(got.message.find(std::to_string(plan.minimum_bytes)), std::string::npos) << got.message;
      }
    }
  }
}

TEST(GraphErrors, ARequestThatIsNoGraphIsRefused) {
  Rng rng(73);
  Table rows = mixed_table(rng, DType::f32, 10, 4);
  const auto refused = [&](const GraphOptions& options, std::int64_t n = 10) {
    return refusal([&] { vicinal::knn_graph(rows.points().slice(0, n), options); });
  };
  GraphOptions options = graph_options(Metric::euclidean, 3);
  options.search.first_id = 5;
  EXPECT_EQ(refused(options).code, ErrorCode::invalid_argument);
  EXPECT_NE(refused(options).message.find("first_id"), std::string::npos) << refused(options).message;
  for (const std::int64_t k : {0, -3, 10}) {
    const Refusal got = refused(graph_options(Metric::euclidean, k));
    EXPECT_EQ(got.code, ErrorCode::invalid_argument) << got.message;
    EXPECT_NE(got.message.find(std::to_string(k)), std::string::npos) << got.message;
  }
  EXPECT_NE(refused(graph_options(Metric::euclidean, 10)).message.find("pad"), std::string::npos);
  EXPECT_EQ(refused(graph_options(Metric::euclidean, 3), 0).code, ErrorCode::invalid_argument);
  GraphOptions padded = graph_options(Metric::euclidean, 3);
  padded.search.pad = true;
  EXPECT_EQ(vicinal::knn_graph(rows.points().slice(0, 0), padded).rows(), 0);
  rows.set(7, 2, std::nan(""));
  EXPECT_EQ(refused(graph_options(Metric::euclidean, 3)).code, ErrorCode::invalid_value);
  EXPECT_NE(refused(graph_options(Metric::euclidean, 3)).message.find("corpus row 7, column 2 is NaN (1 bad row"),
            std::string::npos)
      << refused(graph_options(Metric::euclidean, 3)).message;
}

TEST(GraphErrors, DegenerateRowsAndOverflow) {
  Rng rng(74);
  Table rows = mixed_table(rng, DType::f32, 40, 4);
  for (std::int64_t j = 0; j < 4; ++j) rows.set(11, j, 0);
  GraphOptions options = graph_options(Metric::cosine, 5);
  EXPECT_EQ(check_graph(rows.points(), options, expected(rows, options)), "");
  options.search.degenerate = vicinal::Degenerate::error;
  EXPECT_EQ(refusal([&] { vicinal::knn_graph(rows.points(), options); }).code, ErrorCode::invalid_value);
  rows.set(11, 0, 1e30);  // its own list cannot be returned; those of the others can, but there is one answer
  for (const bool symmetry : {true, false}) {
    options = graph_options(Metric::sqeuclidean, 5);
    options.symmetry = symmetry;
    EXPECT_EQ(check_graph(rows.points(), options, expected(rows, options)), "");
    EXPECT_EQ(refusal([&] { vicinal::knn_graph(rows.points(), options); }).code, ErrorCode::range_error);
  }
}

TEST(GraphErrors, SymmetrizeRefusesIdsThatAreNoRows) {
  Rng rng(75);
  const Table rows = mixed_table(rng, DType::f32, 10, 4);
  vicinal::KnnOptions options;
  options.k = 3;
  options.first_id = 8;
  const Neighbors foreign = vicinal::knn(rows.points(), rows.points(), options);
  for (const Symmetrize how : {Symmetrize::either, Symmetrize::mutual})
    EXPECT_EQ(refusal([&] { vicinal::symmetrize(foreign, how); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(vicinal::symmetrize(Neighbors(0, 3, vicinal::DistanceType::f32, false), Symmetrize::either).entries(), 0);
}

// An id can be listed by one end with a weight that the other end does not have: such a graph was not made here, and
// the promise is of equal bits, so it is kept or the graph refused.
TEST(GraphErrors, WeightsThatDisagreeDoNotMakeAnAsymmetricMatrix) {
  Neighbors graph(2, 1, vicinal::DistanceType::f32, false);
  const vicinal::NeighborsView view = graph.view();
  view.ids[0] = 1, view.ids[1] = 0;
  static_cast<float*>(view.distances)[0] = 1, static_cast<float*>(view.distances)[1] = 2;
  for (const Symmetrize how : {Symmetrize::either, Symmetrize::mutual}) {
    vicinal::CsrNeighbors got;
    if (refusal([&] { got = vicinal::symmetrize(graph, how); }).code) continue;
    ASSERT_EQ(got.entries(), 2);
    EXPECT_EQ(got.distance(0, 0), got.distance(1, 0));
  }
}

TEST(GraphWithFilters, EveryConditionOnTheRows) {
  Rng rng(76), share(23);
  for (const Kind& kind : all_kinds())
    for (const Condition condition : all_conditions) {
      if (!in_share(share, 0.2)) continue;
      const std::int64_t n = rng.pick(std::vector<std::int64_t>{1, 33, 130, 270});
      const Table rows = mixed_table(rng, kind.dtype, n, rng.between(1, 20));
      GraphOptions options = graph_options(kind.metric, rng.pick(std::vector<std::int64_t>{1, 7, 40}));
      options.search.pad = rng.chance(0.7);
      options.include_self = rng.chance(0.2);
      options.symmetry = rng.chance(0.5);
      Filter filter = make_filter(rng, condition, n, n);
      filter.plain.query_labels.clear();  // those of the corpus
      oracle::SearchSpec asked = spec(options.search);
      filter.put(options.search, asked);
      const Setting setting = random_setting(rng);
      EXPECT_EQ(check_graph(setting, rows.points(), options, oracle::graph(rows.rows(), asked, options.include_self)),
                "")
          << kind.text() << " " << filter.name << " n=" << n << " k=" << options.search.k << " pad "
          << options.search.pad << " symmetry " << options.symmetry << " " << setting.text();
    }
}

// "Labels of queries are those of the corpus where none are given": so they may be given.
TEST(GraphWithFilters, LabelsOfTheQueriesMayBeOthers) {
  Rng rng(77);
  for (const Condition condition : {Condition::same_label, Condition::other_label})
    for (const bool symmetry : {true, false}) {
      const Table rows = mixed_table(rng, DType::f32, 150, 6);
      GraphOptions options = graph_options(Metric::euclidean, 7);
      options.search.pad = true;
      options.symmetry = symmetry;
      const Filter filter = make_filter(rng, condition, 150, 150);
      oracle::SearchSpec asked = spec(options.search);
      filter.put(options.search, asked);
      EXPECT_EQ(check_graph(rows.points(), options, oracle::graph(rows.rows(), asked, false)), "") << filter.name;
    }
}

}  // namespace
}  // namespace conformance
