// The bad-input table, for what the C++ API has: the code of each error, and a message that names the offending value
// and the bound. Then the error guarantee: a refused call leaves everything usable.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <regex>

#include "conformance/settings.hpp"

namespace conformance {
namespace {
using vicinal::ErrorCode;
using vicinal::KnnOptions;

struct Call {
  std::int64_t n = 10, q = 3, d = 8, query_d = 8;
  KnnOptions options = {};
  DType dtype = DType::f32, query_dtype = DType::f32;
  std::vector<std::array<double, 3>> corpus_cells = {}, query_cells = {};  // row, column, value
  std::vector<std::int64_t> zero_rows = {}, constant_rows = {};
};

Refusal run(const Call& call) {
  Rng rng(1);
  Table corpus = mixed_table(rng, call.dtype, std::max<std::int64_t>(call.n, 1), std::max<std::int64_t>(call.d, 1));
  Table queries =
      mixed_table(rng, call.query_dtype, std::max<std::int64_t>(call.q, 1), std::max<std::int64_t>(call.query_d, 1));
  for (const auto& [row, column, value] : call.corpus_cells)
    corpus.set(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), value);
  for (const auto& [row, column, value] : call.query_cells)
    queries.set(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column), value);
  for (const std::int64_t row : call.zero_rows)
    for (std::int64_t j = 0; j < call.d; ++j) corpus.set(row, j, 0);
  for (const std::int64_t row : call.constant_rows)
    for (std::int64_t j = 0; j < call.d; ++j) corpus.set(row, j, 2);
  vicinal::Points c = corpus.points(), q = queries.points();
  c.rows = call.n, c.cols = call.d, q.rows = call.q, q.cols = call.query_d;
  return refusal([&] { vicinal::knn(c, q, call.options); });
}

KnnOptions with(Metric metric, std::int64_t k = 3) {
  KnnOptions options;
  options.metric = metric;
  options.k = k;
  return options;
}
KnnOptions with_run(vicinal::Execution execution) {
  KnnOptions options;
  options.k = 3;
  options.run = std::move(execution);
  return options;
}

struct Row {
  const char* name;
  Call call;
  ErrorCode code;
  const char* pattern;  // regular expression found in the message
};

const double nan_value = std::nan(""), infinite = INFINITY;

std::vector<Row> table() {
  const KnnOptions three = with(Metric::euclidean), negative_threads = with_run({.threads = -2});
  KnnOptions wrong_type = three, negative_budget = three;
  wrong_type.distance_type = vicinal::DistanceType::u32;
  negative_budget.memory.host = -1;
  return {
      {"empty corpus", {.n = 0, .options = three}, ErrorCode::invalid_argument, "corpus has 0 rows"},
      {"no dimension", {.d = 0, .query_d = 0, .options = three}, ErrorCode::invalid_argument, "dimension is 0"},
      {"dimensions differ",
       {.d = 64, .query_d = 30, .options = three},
       ErrorCode::invalid_argument,
       "quer.*d=30.*corpus.*d=64"},
      {"k zero", {.options = with(Metric::euclidean, 0)}, ErrorCode::invalid_argument, "k must be >= 1, got 0"},
      {"k negative", {.options = with(Metric::euclidean, -3)}, ErrorCode::invalid_argument, "k must be >= 1, got -3"},
      {"k above n",
       {.options = with(Metric::euclidean, 50)},
       ErrorCode::invalid_argument,
       "k=50 exceeds the n=10 rows of the corpus.*pad"},
      {"NaN in a query",
       {.q = 20, .options = three, .query_cells = {{17, 3, nan_value}, {19, 0, infinite}}},
       ErrorCode::invalid_value,
       "query row 17, column 3 is NaN \\(2 bad rows"},
      {"NaN in the corpus",
       {.options = three, .corpus_cells = {{4, 7, nan_value}}},
       ErrorCode::invalid_value,
       "corpus row 4, column 7 is NaN.*1 "},
      {"infinity in the corpus",
       {.options = three, .corpus_cells = {{9, 0, infinite}}},
       ErrorCode::invalid_value,
       "corpus row 9, column 0 is .*[Ii]nf"},
      {"minus infinity in a query",
       {.options = three, .query_cells = {{0, 1, -infinite}}},
       ErrorCode::invalid_value,
       "query row 0, column 1 is .*[Ii]nf"},
      {"NaN in f64",
       {.options = three, .dtype = DType::f64, .corpus_cells = {{2, 2, nan_value}}},
       ErrorCode::invalid_value,
       "corpus row 2, column 2 is NaN"},
      {"NaN in f16",
       {.options = three, .dtype = DType::f16, .corpus_cells = {{2, 2, nan_value}}},
       ErrorCode::invalid_value,
       "corpus row 2, column 2 is NaN"},
      {"infinity in bf16",
       {.options = three, .dtype = DType::bf16, .corpus_cells = {{2, 2, infinite}}},
       ErrorCode::invalid_value,
       "corpus row 2, column 2 is .*[Ii]nf"},
      {"NaN for l1",
       {.options = with(Metric::l1), .corpus_cells = {{6, 5, nan_value}}},
       ErrorCode::invalid_value,
       "corpus row 6, column 5 is NaN"},
      {"NaN for cosine",
       {.options = with(Metric::cosine), .corpus_cells = {{6, 5, nan_value}}},
       ErrorCode::invalid_value,
       "corpus row 6, column 5 is NaN"},
      {"zero rows for cosine",
       {.options = with(Metric::cosine), .zero_rows = {5, 7, 8}},
       ErrorCode::invalid_value,
       "corpus row 5 is zero: cosine.*undefined.*\\(3 rows"},
      {"constant rows for correlation",
       {.options = with(Metric::correlation), .constant_rows = {2, 4}},
       ErrorCode::invalid_value,
       "corpus row 2 is constant: correlation.*undefined.*\\(2 rows"},
      {"squares beyond f32",
       {.n = 3, .options = with(Metric::sqeuclidean), .corpus_cells = {{0, 0, 1e30}, {1, 0, 1e30}, {2, 0, 1e30}}},
       ErrorCode::range_error,
       "exceeds f32.*euclidean.*f64"},
      {"dots beyond f32",
       {.options = with(Metric::inner_product), .corpus_cells = {{1, 0, 3e38}}, .query_cells = {{0, 0, 3e38}}},
       ErrorCode::range_error,
       "exceed.*f32.*f64"},
      {"f64 rows too large for cosine",
       {.options = with(Metric::cosine), .dtype = DType::f64, .corpus_cells = {{3, 0, 1e200}}},
       ErrorCode::range_error,
       "corpus row 3"},
      {"hamming of floats", {.options = with(Metric::hamming)}, ErrorCode::invalid_argument, "hamming.*u8"},
      {"integer output of floats", {.options = wrong_type}, ErrorCode::invalid_argument, "u32"},
      {"negative threads", {.options = negative_threads}, ErrorCode::invalid_argument, "threads must be >= 0.*-2"},
      {"unknown device", {.options = with_run({.device = "gpux"})}, ErrorCode::invalid_argument, "gpux"},
      {"no GPU here", {.options = with_run({.device = "cuda"})}, ErrorCode::device_error, "cuda|CUDA"},
      {"unknown instruction set",
       {.options = with_run({.instruction_set = "avx3"})},
       ErrorCode::invalid_argument,
       "avx3.*plain"},
      {"halves on the CPU",
       {.options = with_run({.filter = "fp16"})},
       ErrorCode::unsupported,
       "fp16 does not run on cpu.*f32"},
      {"unknown filter",
       {.options = with_run({.filter = "f8"})},
       ErrorCode::invalid_argument,
       "unknown filter \"f8\"; did you mean .* known: auto, .*canonical"},
      {"negative budget", {.options = negative_budget}, ErrorCode::invalid_argument, "memory.*-1"},
  };
}

TEST(BadInput, EveryRowOfTheTable) {
  for (const Row& row : table()) {
    const Refusal got = run(row.call);
    ASSERT_TRUE(got.code) << row.name;
    EXPECT_STREQ(vicinal::error_name(*got.code), vicinal::error_name(row.code)) << row.name << ": " << got.message;
    EXPECT_TRUE(std::regex_search(got.message, std::regex(row.pattern)))
        << row.name << "\n  message: " << got.message << "\n  wanted:  " << row.pattern;
    EXPECT_EQ(got.message.find('\n'), std::string::npos) << row.name << ": one line";
  }
}

TEST(BadInput, PlanRefusesAsTheSearchDoes) {
  EXPECT_EQ(refusal([] {
              vicinal::plan({10, 8, DType::f32}, {3, 8, DType::f32}, with(Metric::euclidean, 0));
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(refusal([] {
              vicinal::plan({10, 8, DType::f32}, {3, 9, DType::f32}, with(Metric::euclidean, 3));
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(refusal([] {
              vicinal::plan({10, 8, DType::f32}, {3, 8, DType::f32}, with(Metric::euclidean, 11));
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(refusal([] {
              vicinal::plan({10, 8, DType::f32}, {3, 8, DType::f32}, with(Metric::hamming, 3));
            }).code,
            ErrorCode::invalid_argument);
}

/// Sizes at the largest that 64 bits can hold in products are refused whatever the other size is, never divided by.
TEST(BadInput, SizesBeyondAnyMachineAreRefusedWithoutRowsToo) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  KnnOptions padded = with(Metric::euclidean, 1);
  padded.pad = true;
  const vicinal::GraphOptions graph{.search = padded};
  for (const std::int64_t cols : {most + 1, std::int64_t{1} << 62, INT64_MAX})
    for (const std::int64_t rows : {0, 1}) {
      const vicinal::Shape shape{rows, cols, DType::u8};
      for (const Refusal& got :
           {refusal([&] { vicinal::plan(shape, shape, padded); }), refusal([&] { vicinal::plan_graph(shape, graph); }),
            refusal([&] { vicinal::plan_range(shape, shape, {.search = padded}); })}) {
        ASSERT_TRUE(got.code) << rows << " x " << cols;
        EXPECT_STREQ(vicinal::error_name(*got.code), "InvalidArgument") << got.message;
        EXPECT_NE(got.message.find("is larger than"), std::string::npos) << got.message;
      }
    }
  const vicinal::Points empty(nullptr, DType::u8, 0, std::int64_t{1} << 62);
  EXPECT_EQ(refusal([&] { vicinal::knn(empty, empty, padded); }).code, ErrorCode::invalid_argument);
}

/// What a plan computes of the largest sizes that are taken stays within 64 bits, as a build with UBSan sees.
TEST(BadInput, TheLargestSizesArePlannedOrRefused) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{0, std::int64_t{1} << 40},
                                   {1, std::int64_t{1} << 40},
                                   {1 << 16, std::int64_t{1} << 40},
                                   {std::int64_t{1} << 48, 256},
                                   {std::int64_t{1} << 48, 1}})
    for (const DType dtype : {DType::u8, DType::f64})
      for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::l1})
        for (const int threads : {1, 1024}) {
          KnnOptions padded = with(metric, INT64_MAX);
          padded.pad = true;
          padded.run.threads = threads;
          const vicinal::Shape shape{rows, cols, dtype};
          for (const Refusal& got : {refusal([&] { vicinal::plan(shape, shape, padded); }),
                                     refusal([&] { vicinal::plan_graph(shape, {.search = padded}); }),
                                     refusal([&] { vicinal::plan_range(shape, shape, {.search = padded}); })})
            EXPECT_TRUE(!got.code || *got.code == ErrorCode::memory_budget || *got.code == ErrorCode::invalid_argument)
                << rows << " x " << cols << ": " << got.message;
        }
}

/// One neighbour more than k is asked for inside a resumable graph, where k may be the largest there is.
TEST(BadInput, TheLargestKOfAResumableGraph) {
  const float row[] = {1, 2, 3, 4};
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("vicinal-large-k-" + std::to_string(::getpid()))).string();
  vicinal::GraphOptions options{.search = with(Metric::euclidean, INT64_MAX)};
  options.search.pad = true;
  const auto search = [&](std::int64_t rows) {
    return vicinal::knn_graph_resumable(vicinal::MatrixView<float>{row, rows, 1}, options, folder);
  };
  EXPECT_EQ(search(0).rows(), 0);
  EXPECT_TRUE(refusal([&] { search(4); }).code);
  vicinal::discard_pieces(folder);
}

TEST(BadInput, AnEmptySetOfQueriesIsAnEmptyAnswer) {
  EXPECT_FALSE(run({.q = 0}).code);
  Rng rng(2);
  const Table corpus = gaussian(rng, DType::f32, 20, 4), queries = gaussian(rng, DType::f32, 1, 4);
  const auto got = vicinal::knn(corpus.points(), queries.points().slice(0, 0), with(Metric::euclidean, 7));
  EXPECT_EQ(got.rows(), 0);
  EXPECT_EQ(got.k(), 7);
  EXPECT_TRUE(got.certificate.all());
}

TEST(BadInput, OneRowOneColumnOneNeighbour) {
  const float row = 3, query = 5;
  const auto got = vicinal::knn(vicinal::MatrixView<float>{&row, 1, 1}, vicinal::MatrixView<float>{&query, 1, 1},
                                with(Metric::euclidean, 1));
  EXPECT_EQ(got.id(0, 0), 0);
  EXPECT_EQ(got.distance(0, 0), 2.0);
}

TEST(BadInput, PaddingFillsWithTheWorstAndCounts) {
  Rng rng(3);
  for (const Kind& kind : all_kinds())
    for (const std::int64_t n : {0, 1, 5, 300}) {
      const Table corpus = mixed_table(rng, kind.dtype, std::max<std::int64_t>(n, 1), 6),
                  queries = mixed_table(rng, kind.dtype, 3, 6);
      KnnOptions options = with(kind.metric, n + 4);
      options.pad = true;
      options.first_id = 100;
      oracle::Rows rows = corpus.rows();
      rows.n = n;
      rows.value.resize(static_cast<std::size_t>(n * 6));
      const auto got = vicinal::knn(corpus.points().slice(0, n), queries.points(), options);
      EXPECT_EQ(difference(got, oracle::knn(rows, queries.rows(), spec(options))), "") << kind.text() << " n=" << n;
      ASSERT_NE(got.counts(), nullptr);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(got.counts()[i], n);
    }
  const Table corpus = gaussian(rng, DType::f32, 9, 6);
  EXPECT_EQ(vicinal::knn(corpus.points(), corpus.points(), with(Metric::euclidean, 9)).counts(), nullptr);
}

TEST(BadInput, DegenerateRowsAsOne) {
  Rng rng(4);
  for (const Metric metric : {Metric::cosine, Metric::correlation})
    for (const DType type : all_dtypes) {
      Table corpus = mixed_table(rng, type, 400, 9), queries = mixed_table(rng, type, 4, 9);
      for (std::int64_t i = 0; i < 400; i += 3)
        for (std::int64_t j = 0; j < 9; ++j) corpus.set(i, j, metric == Metric::cosine ? 0 : 3);
      for (std::int64_t j = 0; j < 9; ++j) queries.set(2, j, metric == Metric::cosine ? 0 : 5);
      KnnOptions options = with(metric, 400);
      options.degenerate = vicinal::Degenerate::one;
      EXPECT_EQ(
          check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))),
          "")
          << metric_name(metric) << " " << vicinal::dtype_name(type);
    }
}

TEST(BadInput, ThreadsBeyondTheCapAreNotedNotRefused) {
  Rng rng(5);
  const Table corpus = gaussian(rng, DType::f32, 50, 4);
  const auto got = vicinal::knn(corpus.points(), corpus.points(), with_run({.threads = 5000}));
  EXPECT_LE(got.stats.threads, 1024);
  bool noted = false;
  for (const std::string& note : got.stats.notes) noted = noted || note.find("5000") != std::string::npos;
  EXPECT_TRUE(noted);
}

TEST(BadInput, UnderflowIsCountedAndNoted) {
  std::vector<double> a(20 * 4), b(2 * 4, 0.0);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(1.0 + static_cast<double>(i % 7), i < 40 ? -80 : 0);
  const auto got = vicinal::knn(Table(DType::f32, 20, 4, a).points(), Table(DType::f32, 2, 4, b).points(),
                                with(Metric::sqeuclidean, 20));
  EXPECT_EQ(got.stats.underflowed, 20);  // ten rows for each of two queries
  EXPECT_FALSE(got.stats.notes.empty());
  const auto root = vicinal::knn(Table(DType::f32, 20, 4, a).points(), Table(DType::f32, 2, 4, b).points(),
                                 with(Metric::euclidean, 20));
  EXPECT_EQ(root.stats.underflowed, 0);
}

TEST(BadInput, ARefusedSearchLeavesTheCorpusUsable) {
  Rng rng(6);
  const Table corpus = gaussian(rng, DType::f32, 300, 8);
  Table queries = gaussian(rng, DType::f32, 5, 8);
  const vicinal::Corpus prepared(corpus.points(), {.metric = Metric::euclidean});
  const auto before = prepared.knn(queries.points(), {.k = 10});
  Table bad = queries;
  bad.set(3, 3, nan_value);
  EXPECT_EQ(refusal([&] { prepared.knn(bad.points(), {.k = 10}); }).code, ErrorCode::invalid_value);
  EXPECT_EQ(refusal([&] { prepared.knn(queries.points(), {.k = 301}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(difference(prepared.knn(queries.points(), {.k = 10}), before), "");
  EXPECT_EQ(refusal([&] { vicinal::Corpus broken(bad.points(), {}); }).code, ErrorCode::invalid_value);
}

TEST(BadInput, OverflowOfRowsThatAreNotReturnedIsNoError) {
  Rng rng(7);
  Table corpus = gaussian(rng, DType::f32, 300, 8), queries = gaussian(rng, DType::f32, 5, 8);
  for (std::int64_t i = 100; i < 200; ++i) corpus.set(i, 2, 1e30);
  const KnnOptions options = with(Metric::sqeuclidean, 200);
  EXPECT_EQ(
      check(corpus.points(), queries.points(), options, oracle::knn(corpus.rows(), queries.rows(), spec(options))), "");
  EXPECT_EQ(refusal([&] { vicinal::knn(corpus.points(), queries.points(), with(Metric::sqeuclidean, 201)); }).code,
            ErrorCode::range_error);
}

}  // namespace
}  // namespace conformance
