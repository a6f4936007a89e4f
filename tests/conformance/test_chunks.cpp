// One call of few queries prepares and searches rows a chunk at a time, of a size that caches hold: ties and neighbours on
// both sides of a border between chunks, rows that the contract refuses in the last one, and what the plan says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance/lists.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::ErrorCode;
using vicinal::KnnOptions;
using vicinal::Neighbors;
using vicinal::Plan;

constexpr std::int64_t wide = 512;

/// Gaussian rows, of which every 1,009th is the first; so the nearest of it tie in every chunk.
Table rows_with_ties(Rng& rng, std::int64_t count, std::int64_t d) {
  Table table = gaussian(rng, DType::f32, count, d);
  const std::size_t row = table.bytes.size() / static_cast<std::size_t>(count);
  for (std::int64_t i = 1009; i < count; i += 1009)
    std::copy_n(table.bytes.begin(), row,
                table.bytes.begin() + static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(row));
  return table;
}

Plan plan_of(const Table& corpus, const Table& queries, const KnnOptions& options) {
  return vicinal::plan({corpus.n, corpus.d, corpus.dtype}, {queries.n, queries.d, queries.dtype}, options);
}

TEST(Chunks, OfOneCallHaveTheBitsOfAllRowsAtOnce) {
  Rng rng(seed_or(81)), share(83);
  const Table corpus = rows_with_ties(rng, 4 * 4096 + 777, wide);
  for (const std::int64_t asked : {1, 3, 20})
    for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product, Metric::l1, Metric::linf})
      for (const std::int64_t k : {1, 10, 60}) {
        if (!in_share(share, sanitized ? 0.05 : 0.15)) continue;
        Table queries = gaussian(rng, DType::f32, asked, wide);
        std::copy_n(corpus.bytes.begin(), wide * 4, queries.bytes.begin());
        KnnOptions options{.k = k, .metric = metric};
        options.run.threads = 1;
        options.run.instruction_set = rng.pick(instruction_sets());
        if (asked > 3 && options.run.instruction_set == "plain") continue;  // it takes seconds
        options.run.filter = rng.pick(std::vector<std::string>{"auto", "auto", "f32", "canonical"});
        KnnOptions every_pair = options;
        every_pair.run.filter = every_pair.run.instruction_set = "auto";
        every_pair.proof = vicinal::Proof::exhaustive;
        const std::string text = std::string(metric_name(metric)) + " Q=" + std::to_string(asked) +
                                 " k=" + std::to_string(k) + " " + options.run.filter + " " +
                                 options.run.instruction_set;
        const vicinal::Corpus kept(corpus.points(), {.metric = metric});
        const Neighbors want = kept.knn(queries.points(), every_pair);
        EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
        if (options.run.filter == "auto") continue;
        const std::int64_t chunk = plan_of(corpus, queries, options).corpus_chunk;
        EXPECT_EQ(chunk < corpus.n / 2 + 256, metric != Metric::inner_product) << text << " chunk=" << chunk;
      }
}

TEST(Chunks, RefuseTheSameRows) {
  Rng rng(seed_or(82));
  Table corpus = gaussian(rng, DType::f32, 4 * 4096 + 777, wide);
  const Table queries = gaussian(rng, DType::f32, 5, wide);
  corpus.set(corpus.n - 1, 3, std::numeric_limits<double>::quiet_NaN());
  corpus.set(corpus.n - 40, 7, std::numeric_limits<double>::infinity());
  for (const char* filter : {"f32", "canonical"})
    for (const std::int64_t asked : {1, 5}) {
      KnnOptions options{.k = 3};
      options.run.filter = filter;
      options.run.threads = 1;
      EXPECT_LT(plan_of(corpus, queries, options).corpus_chunk, corpus.n / 2 + 256) << filter;
      const auto refused = refusal([&] { vicinal::knn(corpus.points(), queries.points().slice(0, asked), options); });
      EXPECT_EQ(refused.code, ErrorCode::invalid_value) << filter;
      EXPECT_NE(refused.message.find("row " + std::to_string(corpus.n - 40)), std::string::npos) << refused.message;
    }
}

TEST(Chunks, SayFirstThatAnElementIsNoNumber) {
  Rng rng(seed_or(84));
  Table corpus = gaussian(rng, DType::f64, 3 * 4096, wide, 0, 1e150),
        queries = gaussian(rng, DType::f64, 2, wide, 0, 1e307);
  corpus.set(corpus.n - 1, wide - 1, std::numeric_limits<double>::quiet_NaN());
  for (const Metric metric : {Metric::inner_product, Metric::euclidean, Metric::cosine, Metric::correlation})
    for (const char* filter : {"f32", "canonical"}) {
      KnnOptions options{.k = 3, .metric = metric};
      options.run.filter = filter;
      options.run.threads = 1;
      if (metric == Metric::cosine || metric == Metric::correlation) queries = gaussian(rng, DType::f64, 2, wide);
      EXPECT_EQ(refusal([&] { vicinal::knn(corpus.points(), queries.points(), options); }).code,
                ErrorCode::invalid_value)
          << metric_name(metric) << ' ' << filter;
    }
}

TEST(Chunks, AreForOneCallOfFewQueries) {
  constexpr std::int64_t many = 1 << 20;
  const auto chunk = [](std::int64_t queries, std::int64_t k, const char* filter, int threads, std::int64_t n) {
    KnnOptions options{.k = k};
    options.run.filter = filter;
    options.run.threads = threads;
    options.memory.host = std::int64_t{1} << 40;
    return vicinal::plan({n, 128, DType::f32}, {queries, 128, DType::f32}, options);
  };
  const Plan few = chunk(20, 10, "f32", 2, many);
  EXPECT_LT(few.peak_bytes, 24 << 20);
  EXPECT_EQ(few.passes, 1);
  EXPECT_LT(chunk(1, 10, "canonical", 2, many).corpus_chunk, few.corpus_chunk);
  EXPECT_GT(chunk(20, 10, "f32", 16, many).corpus_chunk, 3 * few.corpus_chunk);
  EXPECT_GE(chunk(20, 4000, "f32", 2, many).corpus_chunk, 4000 * 32);
  EXPECT_GE(chunk(20, 10, "int8", 2, many).corpus_chunk, many);  // it guesses thresholds from the share of all rows
  EXPECT_LT(chunk(256, 10, "f32", 2, many).corpus_chunk, many);
  EXPECT_GE(chunk(257, 10, "f32", 2, many).corpus_chunk, many);  // preparing counts for little
  constexpr std::int64_t read = (std::int64_t{1} << 25) / 512;   // rows of a core that are read twice
  EXPECT_LT(chunk(1, 10, "canonical", 2, 2 * read).corpus_chunk, 2 * read);
  EXPECT_GE(chunk(1, 10, "canonical", 2, 2 * read - 1).corpus_chunk, 2 * read - 1);
  constexpr std::int64_t most = std::int64_t{1} << 30;  // slots hold 32-bit row numbers
  for (const char* filter : {"f32", "canonical"}) {
    KnnOptions options{.k = 1 << 25};
    options.run.filter = filter;
    options.run.threads = 2;
    options.memory.host = std::int64_t{1} << 50;
    for (const std::int64_t n : {most, 2 * most, 8 * most})
      EXPECT_LE(vicinal::plan({n, 1, DType::f32}, {1, 1, DType::f32}, options).corpus_chunk, most) << filter << n;
  }
  for (const std::int64_t k : {std::int64_t{1} << 24, (std::int64_t{1} << 24) + 1})  // 64 rows of a chunk for each
    EXPECT_EQ(chunk(1, k, "f32", 2, 8 * most).corpus_chunk == most, k == std::int64_t{1} << 24) << k;
  const std::int64_t twice = 2 * few.corpus_chunk;
  EXPECT_EQ(chunk(20, 10, "f32", 2, twice).corpus_chunk, few.corpus_chunk);
  EXPECT_GE(chunk(20, 10, "f32", 2, twice - 256).corpus_chunk, twice - 256);
}

}  // namespace
}  // namespace conformance
