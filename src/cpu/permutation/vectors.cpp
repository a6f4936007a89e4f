// Rows of numbers as objects: the canonical kernels that searches rerank with, asked for chosen rows.
#include <chrono>

#include "cpu/load.hpp"
#include "cpu/permutation/objects.hpp"
#include "cpu/prepare.hpp"
#include "cpu/rerank.hpp"
#include "pipeline/check.hpp"
#include "vicinal/corpus.hpp"

namespace vicinal::cpu {
namespace {

static_assert(meter_block == rank_block);

class VectorMeter final : public Meter {
 public:
  VectorMeter(const Kernels& kernels, const Question& question, const PackedRows& rows, const Points& queries,
              const std::vector<std::int64_t>* numbers, const std::vector<QueryFacts>& facts)
      : rows_(rows), numbers_(numbers), facts_(facts),
        scratch_(question.corpus.cols, question.corpus.dtype, question.corpus.plain_rows() && queries.plain_rows()),
        ranker_(kernels, question, queries, scratch_) {}
  void start(std::int64_t query) override {
    const auto at = static_cast<std::size_t>(query);
    ranker_.start(numbers_ != nullptr ? (*numbers_)[at] : query, facts_[at]);
  }
  void measure(const std::uint32_t* objects, std::int64_t count, double* values) override {
    for (std::int64_t begin = 0; begin < count; begin += rank_block) {
      const std::int64_t used = std::min(rank_block, count - begin);
      const std::span<const Entry> entries = ranker_.rank(rows_, objects + begin, 0, used);
      for (std::int64_t i = 0; i < used; ++i) values[begin + i] = entries[static_cast<std::size_t>(i)].key;
    }
  }

 private:
  const PackedRows& rows_;
  const std::vector<std::int64_t>* numbers_;
  const std::vector<QueryFacts>& facts_;
  RankScratch scratch_;
  Ranker ranker_;
};

/// Rows of the caller's, or some of the objects themselves.
class VectorQueries final : public Queries {
 public:
  VectorQueries(const Kernels& kernels, const Question& question, const PackedRows& rows, const Points& queries,
                std::vector<std::int64_t> numbers, std::vector<QueryFacts> facts)
      : kernels_(kernels), question_(question), rows_(rows), queries_(queries), numbers_(std::move(numbers)),
        facts_(std::move(facts)) {}
  std::int64_t count() const noexcept override { return static_cast<std::int64_t>(facts_.size()); }
  std::unique_ptr<Meter> meter() const override {
    return std::make_unique<VectorMeter>(kernels_, question_, rows_, queries_, numbers_.empty() ? nullptr : &numbers_,
                                         facts_);
  }

 private:
  const Kernels& kernels_;
  const Question& question_;
  const PackedRows& rows_;
  Points queries_;
  std::vector<std::int64_t> numbers_;  // rows of `queries`; empty: all of them
  std::vector<QueryFacts> facts_;
};

class Vectors final : public VectorObjects {
 public:
  Vectors(const Points& rows, Metric metric, const std::string& instruction_set, Team& team)
      : kernels_(find_kernels(instruction_set)), true_distance_(metric, rows.cols) {
    check_view(rows, "corpus");
    check_corpus(shape_of(rows), metric);
    question_.corpus = rows;
    question_.metric = metric;
    question_.type = DistanceType::f64;
    prepare_rows(kernels_, question_, Rung::canonical, nullptr, nullptr, false, 0, rows.rows, team, packed_);
  }

  std::int64_t count() const noexcept override { return question_.corpus.rows; }
  const Points& rows() const noexcept override { return question_.corpus; }
  const TrueDistance& true_distance() const noexcept override { return true_distance_; }
  std::int64_t bytes() const noexcept override { return packed_.norms.self.bytes() + packed_.norms.mean.bytes(); }

  std::unique_ptr<Queries> some(std::vector<std::int64_t> ids) const override {
    std::vector<QueryFacts> facts(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (packed_.norms.self.size() > 0) facts[i].self = packed_.norms.self[ids[i]];
      if (packed_.norms.mean.size() > 0) facts[i].mean = packed_.norms.mean[ids[i]];
    }
    return std::make_unique<VectorQueries>(kernels_, question_, packed_, question_.corpus, std::move(ids),
                                           std::move(facts));
  }

  std::unique_ptr<Queries> read(const Points& queries, Team& team) const override {
    check_view(queries, "query");
    check_shapes(shape_of(question_.corpus), shape_of(queries), question_.metric);
    std::vector<std::int64_t> all(static_cast<std::size_t>(queries.rows));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    PackedQueries prepared;
    prepare_queries(kernels_, nullptr, nullptr, question_, nullptr, nullptr, queries, all, kernels_.query_lanes, team,
                    prepared);
    return std::make_unique<VectorQueries>(kernels_, question_, packed_, queries, std::vector<std::int64_t>{},
                                           std::move(prepared.facts));
  }

  double exact_seconds(const std::vector<std::int64_t>& ids, std::int64_t k, const Execution& run) const override {
    const Points& rows = question_.corpus;
    const auto row_bytes = rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype));
    Buffer<std::byte> copied(static_cast<std::int64_t>(ids.size()) * row_bytes);
    for (std::size_t i = 0; i < ids.size(); ++i)
      gather_row(rows, ids[i], copied.data() + static_cast<std::int64_t>(i) * row_bytes);
    const Points queries(copied.data(), rows.dtype, static_cast<std::int64_t>(ids.size()), rows.cols);
    const Corpus corpus(rows, {.metric = question_.metric, .run = run});
    const auto start = std::chrono::steady_clock::now();
    corpus.knn(queries, {.k = k, .metric = question_.metric, .run = run});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
           static_cast<double>(ids.size());
  }

 private:
  const Kernels& kernels_;
  TrueDistance true_distance_;
  Question question_;
  PackedRows packed_;
};

}  // namespace

std::unique_ptr<VectorObjects> open_vectors(const Points& rows, Metric metric, const std::string& instruction_set,
                                            Team& team) {
  return std::make_unique<Vectors>(rows, metric, instruction_set, team);
}

}  // namespace vicinal::cpu
