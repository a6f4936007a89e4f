// Thresholds of bytes that are estimated before they are proved: rows of which estimates are too low or too high, and what
// estimates save where they are good.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance/lists.hpp"
#include "conformance/settings.hpp"

namespace conformance {
namespace {

using vicinal::Corpus;
using vicinal::KnnOptions;
using vicinal::Neighbors;

constexpr std::int64_t rows = 64 * 256 + 77;  // tiles enough to speculate from

/// count rows of d elements; element(row, column).
template <class Element>
Table table_of(std::int64_t count, std::int64_t d, const Element& element) {
  std::vector<double> values(static_cast<std::size_t>(count * d));
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < d; ++j) values[static_cast<std::size_t>(i * d + j)] = element(i, j);
  return {DType::f32, count, d, values};
}

struct Misleading {
  const char* name;
  double (*row)(Rng& rng, std::int64_t i, std::int64_t j);
  double (*query)(Rng& rng, std::int64_t i, std::int64_t j);
};

/// Whole numbers of which the first of each row is 127, so that a step of bytes is 1, moved by this off what bytes hold.
double moved(Rng& rng, std::int64_t j, double by) { return j == 0 ? 127 : rng.between(-60, 60) + by; }
double gauss(Rng& rng, std::int64_t /*i*/, std::int64_t /*j*/) { return rng.gauss(); }
double one(Rng& /*rng*/, std::int64_t /*i*/, std::int64_t /*j*/) { return 1; }

const Misleading all_misleading[] = {
    {"gauss", gauss, gauss},
    {"all products too low", [](Rng& rng, std::int64_t, std::int64_t j) { return moved(rng, j, 0.49); }, one},
    {"all products too high", [](Rng& rng, std::int64_t, std::int64_t j) { return moved(rng, j, -0.49); }, one},
    {"half of them", [](Rng& rng, std::int64_t i, std::int64_t j) { return moved(rng, j, i % 2 == 0 ? 0.49 : -0.49); },
     one},
    {"few elements",
     [](Rng& rng, std::int64_t, std::int64_t j) { return j == 0 || rng.between(0, 19) == 0 ? rng.gauss() : 0; },
     [](Rng& rng, std::int64_t, std::int64_t j) { return j == 0 || rng.between(0, 19) == 0 ? rng.gauss() : 0; }},
    {"nearer than errors",
     [](Rng& rng, std::int64_t i, std::int64_t j) {
       return static_cast<double>((i % 97 + 5) * (j + 3) % 41) + 1e-4 * rng.gauss();
     },
     [](Rng& rng, std::int64_t i, std::int64_t j) {
       return static_cast<double>((i % 97 + 5) * (j + 3) % 41) + 1e-4 * rng.gauss();
     }},
    {"the nearest come last",
     [](Rng& rng, std::int64_t i, std::int64_t j) {
       return (j == 0 ? 4.0 : rng.gauss()) * (i < rows / 2 - 2000 && i > rows / 2 - 2200 ? 0.5 : 1);
     },
     [](Rng& rng, std::int64_t, std::int64_t) { return 0.1 * rng.gauss(); }},
};

TEST(Estimates, ThatMisleadChangeNoBit) {
  Rng rng(seed_or(71)), share(72);
  for (const Misleading& data : all_misleading)
    for (const std::int64_t d : {40, 150})
      for (const Metric metric : {Metric::sqeuclidean, Metric::cosine, Metric::inner_product}) {
        if (!in_share(share, 0.4)) continue;
        const Table corpus = table_of(rows, d, [&](std::int64_t i, std::int64_t j) { return data.row(rng, i, j); });
        const Table queries = table_of(16, d, [&](std::int64_t i, std::int64_t j) { return data.query(rng, i, j); });
        KnnOptions options{.k = rng.pick(std::vector<std::int64_t>{1, 10, 100, 700}), .metric = metric};
        options.degenerate = vicinal::Degenerate::one;
        KnnOptions every_pair = options;
        every_pair.proof = vicinal::Proof::exhaustive;
        const Neighbors want = vicinal::knn(corpus.points(), queries.points(), every_pair);
        for (int i = 0; i < 2; ++i) {
          options.run.filter = rng.pick(std::vector<std::string>{"int8", "int8", "rotated"});
          options.run.instruction_set = rng.pick(instruction_sets());
          options.run.threads = static_cast<int>(rng.between(1, 2));
          const std::string text = std::string(data.name) + " " + metric_name(metric) + " d=" + std::to_string(d) +
                                   " k=" + std::to_string(options.k) + " " + options.run.filter + " " +
                                   options.run.instruction_set;
          EXPECT_EQ(difference(vicinal::knn(corpus.points(), queries.points(), options), want), "") << text;
          const Corpus kept(corpus.points(), {.metric = metric, .degenerate = options.degenerate, .run = options.run});
          EXPECT_EQ(difference(kept.knn(queries.points(), options), want), "") << text << " kept";
        }
      }
}

TEST(Estimates, LeaveLittleMoreThanTheAnswerToRank) {
  Rng rng(seed_or(73));
  const auto element = [&](std::int64_t i, std::int64_t j) { return gauss(rng, i, j); };
  const Table corpus = table_of(2 * rows, 64, element), queries = table_of(40, 64, element);
  KnnOptions options{.k = 100, .metric = Metric::euclidean};
  options.run.filter = "int8";
  options.run.threads = 1;
  options.run.instruction_set = "plain";
  EXPECT_LT(vicinal::knn(corpus.points(), queries.points(), options).stats.reranked / 40, 230);
}

}  // namespace
}  // namespace conformance
