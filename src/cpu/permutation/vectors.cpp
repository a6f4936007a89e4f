// Rows of numbers as objects: the canonical kernels that searches rerank with, asked for chosen rows.
#include <chrono>
#include <cmath>

#include "core/check_shapes.hpp"
#include "core/measures/math.hpp"
#include "core/text.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/permutation/objects.hpp"
#include "cpu/prepare/prepare.hpp"
#include "cpu/rerank/rerank.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"
#include "vicinal/corpus.hpp"

namespace vicinal::cpu {
namespace {

static_assert(evaluator_block == rank_block);

class VectorEvaluator final : public DistanceEvaluator {
 public:
  VectorEvaluator(const Kernels& kernels, const SearchSpec& spec, const PackedRows& rows, const Points& queries,
                  const std::vector<std::int64_t>* numbers, const std::vector<QueryFacts>& facts)
      : rows_(rows), numbers_(numbers), facts_(facts),
        scratch_(spec.corpus.cols, spec.corpus.dtype, spec.corpus.plain_rows() && queries.plain_rows()),
        ranker_(kernels, spec, queries, scratch_) {}
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

/// The same for what the canonical kernels do not know.
class MeasureEvaluator final : public DistanceEvaluator {
 public:
  MeasureEvaluator(const InstructionSet& set, const Measure& measure, std::int64_t window, const Points& rows,
                   const Points& queries, const std::vector<std::int64_t>* numbers)
      : set_(set), measure_(measure), window_(window), rows_(rows), queries_(queries), numbers_(numbers),
        query_(static_cast<std::size_t>(rows.cols)), gathered_(query_.size()) {}
  void start(std::int64_t query) override {
    const std::int64_t row = numbers_ != nullptr ? (*numbers_)[static_cast<std::size_t>(query)] : query;
    load_row(set_.floats, queries_, row, gathered_.data(), query_.data());
  }
  void measure(const std::uint32_t* objects, std::int64_t count, double* values) override {
    measure_.measure(set_, query_.data(), rows_, objects, count, window_, scratch_, values);
    // Rows were finite when they were checked, so this is of one
    // that another thread changed: it must not reach an order.
    for (std::int64_t i = 0; i < count; ++i)
      if (std::isnan(values[i]))
        fail(ErrorCode::invalid_value,
             cat("the distance to corpus row ", objects[i], " is NaN: a row changed during the call"));
  }

 private:
  const InstructionSet& set_;
  const Measure& measure_;
  std::int64_t window_;
  const Points &rows_, &queries_;
  const std::vector<std::int64_t>* numbers_;
  std::vector<double> query_, gathered_, scratch_;
};

/// Rows of the caller's, or some of the objects themselves.
class VectorQueries final : public Queries {
 public:
  VectorQueries(const InstructionSet& set, const Measure* measure, std::int64_t window, const SearchSpec& spec,
                const PackedRows& rows, const Points& queries, std::vector<std::int64_t> numbers,
                std::vector<QueryFacts> facts)
      : measure_(measure), window_(window), set_(set), spec_(spec), rows_(rows), queries_(queries),
        numbers_(std::move(numbers)), facts_(std::move(facts)) {}
  std::int64_t count() const noexcept override { return static_cast<std::int64_t>(facts_.size()); }
  std::optional<MeasuredRows> measured_rows() const override {
    if (measure_ != nullptr || !numbers_.empty()) return {};
    for (const QueryFacts& facts : facts_) self_.push_back(facts.self), mean_.push_back(facts.mean);
    return MeasuredRows{queries_, self_.data(), mean_.data(), spec_.metric};
  }
  std::unique_ptr<DistanceEvaluator> evaluator() const override {
    if (measure_ != nullptr)
      return std::make_unique<MeasureEvaluator>(set_, *measure_, window_, spec_.corpus, queries_,
                                                numbers_.empty() ? nullptr : &numbers_);
    return std::make_unique<VectorEvaluator>(set_.floats, spec_, rows_, queries_,
                                             numbers_.empty() ? nullptr : &numbers_, facts_);
  }

 private:
  const Measure* measure_;
  std::int64_t window_;
  const InstructionSet& set_;
  const SearchSpec& spec_;
  const PackedRows& rows_;
  Points queries_;
  std::vector<std::int64_t> numbers_;  // rows of `queries`; empty: all of them
  std::vector<QueryFacts> facts_;
  mutable std::vector<double> self_, mean_;  // of measured_rows
};

class Vectors final : public VectorObjects {
 public:
  Vectors(const Points& rows, Metric metric, std::int64_t window, const std::string& instruction_set,
          ThreadPool& thread_pool)
      : set_(find_instruction_set(instruction_set)), measure_(find_measure(metric)), window_(window) {
    check_view(rows, "corpus");
    check_corpus(shape_of(rows), searched(metric));
    if (window < 0) fail(ErrorCode::invalid_argument, cat("window must be >= 0, got ", window));
    if (window > 0 && metric != Metric::dtw)
      fail(ErrorCode::invalid_argument,
           cat("window is for dtw, got window=", window, " with ", metric_info(metric).name));
    spec_.corpus = rows;
    spec_.metric = metric;
    spec_.type = DistanceType::f64;
    prepare_rows({.kernels = set_.floats, .spec = spec_}, 0, rows.rows, thread_pool, packed_);
    if (measure_ != nullptr && measure_->histograms) check_histograms(rows, "corpus", thread_pool);
    true_distance_ = TrueDistance(metric, rows.cols, mass_);
  }

  std::int64_t count() const noexcept override { return spec_.corpus.rows; }
  const Points& rows() const noexcept override { return spec_.corpus; }
  const TrueDistance& true_distance() const noexcept override { return true_distance_; }
  std::optional<MeasuredRows> measured_rows() const override {
    if (measure_ != nullptr) return {};
    return MeasuredRows{spec_.corpus, packed_.norms.self.data(), packed_.norms.mean.data(), spec_.metric};
  }
  std::int64_t bytes() const noexcept override { return packed_.norms.self.bytes() + packed_.norms.mean.bytes(); }

  std::unique_ptr<Queries> some(std::vector<std::int64_t> ids) const override {
    std::vector<QueryFacts> facts(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (packed_.norms.self.size() > 0) facts[i].self = packed_.norms.self[ids[i]];
      if (packed_.norms.mean.size() > 0) facts[i].mean = packed_.norms.mean[ids[i]];
    }
    return std::make_unique<VectorQueries>(set_, measure_, window_, spec_, packed_, spec_.corpus, std::move(ids),
                                           std::move(facts));
  }

  std::unique_ptr<Queries> read(const Points& queries, ThreadPool& thread_pool) const override {
    check_view(queries, "query");
    check_shapes(shape_of(spec_.corpus), shape_of(queries), searched(spec_.metric));
    std::vector<std::int64_t> all(static_cast<std::size_t>(queries.rows));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    PackedQueries prepared;
    prepare_queries({.kernels = set_.floats, .spec = spec_},
                    {.points = queries, .rows = all, .block = set_.floats.query_lanes}, thread_pool, prepared);
    if (measure_ != nullptr && measure_->histograms) check_histograms(queries, "query", thread_pool);
    return std::make_unique<VectorQueries>(set_, measure_, window_, spec_, packed_, queries,
                                           std::vector<std::int64_t>{}, std::move(prepared.facts));
  }

  std::int64_t evaluator_bytes() const noexcept override {
    const Points& rows = spec_.corpus;
    if (measure_ == nullptr) return RankScratch::bytes(rows.cols, rows.dtype, false);
    return (2 * rows.cols + measure_->scratch(set_, rows.cols)) * 8;
  }

  double exact_seconds(const std::vector<std::int64_t>& ids, std::int64_t k, const Execution& run,
                       const Budget& memory) const override {
    if (measure_ != nullptr) return 0;
    const Points& rows = spec_.corpus;
    const auto row_bytes = rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype));
    Buffer<std::byte> copied(static_cast<std::int64_t>(ids.size()) * row_bytes);
    for (std::size_t i = 0; i < ids.size(); ++i)
      gather_row(rows, ids[i], copied.data() + static_cast<std::int64_t>(i) * row_bytes);
    const Points queries(copied.data(), rows.dtype, static_cast<std::int64_t>(ids.size()), rows.cols);
    const Corpus corpus(rows, {.metric = spec_.metric, .memory = memory, .run = run});
    const auto start = std::chrono::steady_clock::now();
    corpus.knn(queries, {.k = k, .metric = spec_.metric, .memory = memory, .run = run});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
           static_cast<double>(ids.size());
  }

 private:
  /// A metric whose rules for shapes are those of this one.
  static Metric searched(Metric metric) noexcept {
    return find_measure(metric) != nullptr ? Metric::euclidean : metric;
  }

  /// Not negative; for emd of one mass, that of the first row of the corpus.
  void check_histograms(const Points& rows, const char* side, ThreadPool& thread_pool) const {
    std::vector<double> row(static_cast<std::size_t>(rows.cols)), scratch(row.size());
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      load_row(set_.floats, rows, i, scratch.data(), row.data());
      for (std::size_t column = 0; column < row.size(); ++column)
        if (row[column] < 0)
          throw RowError(
              ErrorCode::invalid_value, side, i,
              cat(", column ", column, " is negative: ", metric_info(spec_.metric).name, " compares histograms"));
      if (spec_.metric == Metric::emd) {
        const double mass =
            measures::lane_sum(rows.cols, [&](std::int64_t c) { return row[static_cast<std::size_t>(c)]; });
        if (mass_ < 0) mass_ = mass;
        if (std::fabs(mass - mass_) > mass_ * 0x1p-20)
          throw RowError(ErrorCode::invalid_value, side, i,
                         cat(" has mass ", mass, ", corpus row 0 has ", mass_,
                             ": emd compares histograms of equal mass; divide rows by their sums"));
      }
      if (i % 256 == 0) thread_pool.poll(0);
    }
  }

  const InstructionSet& set_;
  const Measure* measure_;
  std::int64_t window_;
  mutable double mass_ = -1;  // emd: of a row; set while the corpus is read
  TrueDistance true_distance_;
  SearchSpec spec_;
  PackedRows packed_;
};

}  // namespace

std::unique_ptr<VectorObjects> open_vectors(const Points& rows, Metric metric, std::int64_t window,
                                            const std::string& instruction_set, ThreadPool& thread_pool) {
  return std::make_unique<Vectors>(rows, metric, window, instruction_set, thread_pool);
}

}  // namespace vicinal::cpu
