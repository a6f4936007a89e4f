// What a backend searches: the specification of a search, what the device proposes for it, and the session that carries
// it out.
#pragma once
#include <algorithm>
#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/metric.hpp"
#include "core/parallel.hpp"
#include "core/precision.hpp"
#include "core/row_filter.hpp"
#include "vicinal/device.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// A SearchSpec says what is searched, apart from how it is carried out. `k` is what a query can really get: min(k,
/// eligible rows).
struct SearchSpec {
  Points corpus;
  Metric metric = Metric::euclidean;
  DistanceType type = DistanceType::f32;
  Degenerate degenerate = Degenerate::error;
  std::int64_t k = 0;
  std::int64_t first_id = 0;
  RowFilter filter = {};
  std::optional<double> radius = {};  // of a range search, which returns everything within it; k is 0 then
  bool symmetric = false;             // the queries are the corpus, prepared alike, so that a tile serves both sides
  void* stream = nullptr;             // KnnOptions::stream
};

/// The sizes of a plan are multiples of these.
struct Multiples {
  std::int64_t queries = 1;  // of a batch and of a block: those that a tile takes side by side
  std::int64_t rows = 1;     // of a chunk of the corpus
};

/// Techniques are what a device may do besides its precisions; a plan has those that it proposed and that fit.
struct Techniques {
  bool kd_tree = false;       // rows of few columns are ranked through a tree
  bool bit_counts = false;    // differing bits are counted in tiles
  bool second_level = false;  // rows get a second code byte, for those that the first cannot exclude
  bool pilot = false;  // a sample of the rows decides whether the first precision is used, and of which transform
};

/// A SearchPlan is a plan as the pipeline and the backends see it; users get its Plan from public_plan
/// (src/pipeline/plan.hpp).
struct SearchPlan : Plan {
  Multiples multiples;
  Techniques techniques;
  std::int64_t symmetric_rows = 0;  // of a block whose tiles serve both of their sides, where Plan::symmetric
};

/// A ProblemShape says of a search what its plan depends on: no row is read for it.
struct ProblemShape {
  Shape corpus, queries;
  Metric metric = Metric::euclidean;
  std::int64_t k = 0;                // min(k, rows)
  bool prepared = false;             // the prepared corpus exists already and is not counted
  const SearchPlan* made = nullptr;  // the plan that it was prepared by; null while it is being prepared
  bool range = false;
  bool symmetric = false;  // a graph, where tiles may serve both sides
  bool filtered = false;   // some rows may not answer some query, beside the query's own (RowFilter::filters)
  std::int64_t filter_bytes = 0;

  /// Whether a prepared corpus, where there is one, has rows of the precision. The canonical one needs nothing
  /// prepared.
  bool has_rows_of(Precision precision) const {
    return !has_filter(precision) || made == nullptr ||
           std::find(made->cascade.begin(), made->cascade.end(), precision_name(precision)) != made->cascade.end();
  }
};

/// A PreparedCorpus holds all rows of a corpus in the form that a backend searches; it never changes.
struct PreparedCorpus {
  virtual ~PreparedCorpus() = default;
  virtual std::int64_t bytes() const = 0;
};

/// Session::finish() fills a BoundsView with what certify needs to know of each query of the batch.
inline constexpr std::int64_t unknown_count = -1;
struct BoundsView {
  double* verified_radius;  // every row whose folded key is <= this was ranked canonically; +inf: all rows were
  double* largest;          // largest proved |filter distance - true distance| (0 on the canonical precision)
  /// Rows in the query's answer; unknown_count where the answer lies on a device, which counts them itself. Null: not
  /// asked for.
  std::int64_t* found = nullptr;
  /// Or null. Where a session knows every query of the batch to be proved it may say so here, and the largest error of
  /// all in largest[0], in place of all the rest: of many queries that is memory which is not touched.
  bool* all_proved = nullptr;
};

/// A RangeView says where the matches of a batch go: query i has entries [begin[i], begin[i] + count[i]).
struct RangeView {
  std::int64_t* ids = nullptr;
  void* distances = nullptr;
  DistanceType type = DistanceType::f32;
  std::span<const std::int64_t> begin, count;
};

/// QueryRows are the queries of a batch: a run of the caller's rows, which takes no memory however long it is, or a
/// list of them in any order, which lives as long as the batch.
class QueryRows {
 public:
  QueryRows() = default;
  QueryRows(std::span<const std::int64_t> list)  // NOLINT(google-explicit-constructor)
      : first_(list.empty() ? 0 : list.front()), size_(list.size()), list_(list.data()) {
    adjacent_ = size_ > 0 && list.back() - first_ == static_cast<std::int64_t>(size_) - 1;
    for (std::size_t i = 1; adjacent_ && i < size_; ++i) adjacent_ = list[i] == list[i - 1] + 1;
  }
  QueryRows(const std::vector<std::int64_t>& list)  // NOLINT(google-explicit-constructor)
      : QueryRows(std::span(list)) {}
  QueryRows(std::vector<std::int64_t>&&) = delete;  // it would be gone before the batch is
  static QueryRows run(std::int64_t first, std::int64_t count) noexcept {
    QueryRows rows;
    rows.first_ = first;
    rows.size_ = static_cast<std::size_t>(count);
    rows.adjacent_ = count > 0;
    return rows;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t operator[](std::size_t i) const noexcept {
    return list_ == nullptr ? first_ + static_cast<std::int64_t>(i) : list_[i];
  }
  std::int64_t front() const noexcept { return first_; }
  std::int64_t back() const noexcept { return (*this)[size_ - 1]; }
  /// Whether each follows the one before.
  bool adjacent() const noexcept { return adjacent_; }
  /// Where they lie; of a run, and of none, nowhere.
  std::span<const std::int64_t> list() const noexcept { return {list_, list_ == nullptr ? 0 : size_}; }
  /// Each of them becomes an element of `into`.
  void copy_to(std::vector<std::int64_t>& into) const {
    into.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) into[i] = (*this)[i];
  }

 private:
  std::int64_t first_ = 0;
  std::size_t size_ = 0;
  const std::int64_t* list_ = nullptr;  // null: a run
  bool adjacent_ = false;
};

/// A Session carries out one search on one device and one precision, stage by stage.
struct Session {
  virtual ~Session() = default;
  /// It takes the next batch, rows `rows` of `queries`, and forgets the batch before.
  virtual void prepare_queries(const Points& queries, const QueryRows& rows) = 0;
  /// It takes the next chunk of the corpus, rows [first, first + count). Not called when the corpus is prepared
  /// already.
  virtual void prepare_corpus(std::int64_t first, std::int64_t count) = 0;
  /// It may begin to fetch rows [first, first + count), the chunk after those that were expected before and not
  /// prepared yet; every chunk but a corpus that stays in memory is expected before it is prepared, and the next one
  /// before that.
  virtual void expect_corpus(std::int64_t /*first*/, std::int64_t /*count*/) {}
  /// It computes tile distances of the batch against the chunk and keeps the candidates within each query's threshold,
  /// which it lowers.
  virtual void filter() = 0;
  /// It drops the candidates that the final thresholds of the chunk exclude.
  virtual void select() = 0;
  /// It computes the canonical distances of the others and keeps the best k in the total order.
  virtual void rerank() = 0;
  /// It writes the result of query i of the batch to row rows[i] of `out`, sorted, and its bounds to position i.
  virtual void finish(const NeighborsView& out, const BoundsView& bounds) = 0;

  // A range search (SearchSpec::radius) ends differently, for the size of its result is not known before.
  /// It counts the matches of each query of the batch after the last chunk. overflowed: they were counted and not kept,
  /// for want of memory.
  virtual void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) = 0;
  /// It says where the matches of the batch go, which are written there as they are found. After prepare_queries, for
  /// queries that overflowed once.
  virtual void write_matches_to(const RangeView& out) = 0;
  /// It writes the matches that were kept, not those of overflowed queries (count 0 here), and sorts every row.
  virtual void finish_range(const RangeView& out, const BoundsView& bounds) = 0;
};

/// A Proposal says what a device prefers for a search, whatever the budget is: src/pipeline/plan.cpp fits it into that.
struct Proposal {
  std::vector<std::string> cascade;  // precisions, first to last; the last is "canonical"
  Multiples multiples;
  std::int64_t slots = 0;                // candidates of a query that wait to be ranked, beside its k
  std::int64_t float_slots = 0;          // the same, where the pipeline leaves out the int8 precision of a pilot
  std::int64_t ready_bytes = INT64_MAX;  // of a call: beyond it memory costs more time than taking queries in batches
  // So many bytes stay between calls where no corpus is prepared; what a call takes beyond them is mapped for it.
  std::int64_t kept_bytes = INT64_MAX;
  // Rows of a chunk that is fetched while the one before is searched, or that stays in caches until it has been; 0: a
  // corpus that fits is fetched at once.
  std::int64_t arriving_rows = 0;
  std::int64_t symmetric_tiles = 0;  // of the largest block whose tiles serve both of their sides; 0: they serve one
  Techniques techniques;             // second_level: if int8 comes first and tiles serve one side
  bool rotated = false;              // rows are rotated, by name, as the next
  std::int64_t projected = 0;        // the most columns that rows are projected to
  int most_threads = INT_MAX;  // that pay, where the caller names no number: waking one takes as long as a small search
  std::vector<std::string> notes;

  /// It sets the slots that serve both of today's devices. narrow: the first precision is so coarse that many
  /// candidates wait beside each answer.
  void set_slots(const ProblemShape& problem, bool narrow) {
    float_slots = std::max<std::int64_t>(problem.range ? 480 : 64, problem.k);
    slots = narrow ? std::max<std::int64_t>(320, std::min(10 * problem.k, 5 * problem.k + 500)) : float_slots;
  }
};

/// It tells whether no filter may be used: the user says so, or the metric has none.
inline bool ranks_every_pair(const ProblemShape& problem, const Execution& run, Proof proof) {
  return proof == Proof::exhaustive || run.filter == precision_name(Precision::canonical) ||
         filter_sum_of(problem.metric) == Sum::none;
}

/// Calls may come from any thread.
struct SearchBackend {
  virtual ~SearchBackend() = default;
  /// It says how it would search, by its own cost model. run: with an instruction set of its own, and a filter's name
  /// or "auto". Throws Unsupported for a filter that it does not have.
  virtual Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const = 0;
  /// It predicts the seconds of a plan, by the same cost model.
  virtual double seconds(const SearchPlan& plan, const ProblemShape& problem) const = 0;
  /// It predicts the seconds in which several devices of this kind, all at once, take so many bytes from the host, from
  /// `data` on; null: from ordinary memory. 0 where they share nothing that is known.
  virtual double shared_seconds(const void* /*data*/, std::int64_t /*bytes*/) const { return 0; }
  /// It returns the peak bytes of anonymous memory of a plan. Pure.
  virtual std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const = 0;
  /// It returns the peak bytes of a prepared corpus while it is made, most of which stay. Pure.
  virtual std::int64_t prepared_bytes(const ProblemShape& problem, const SearchPlan& plan) const = 0;
  /// It prepares the whole corpus once.
  virtual std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const SearchPlan& plan,
                                                               ThreadPool& thread_pool) const = 0;
  /// It opens a session on one precision. Null where Techniques::pilot leaves it open whether the precision pays, and
  /// on these rows it does not, or not for so many queries, or where they were kept without it.
  virtual std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                        std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                        Stats& stats) const = 0;

  // Optional.
  /// It corrects precisions and seconds of a plan by a sample of the rows, in milliseconds whatever the shape. No
  /// answer depends on it.
  virtual void sample(SearchPlan& /*plan*/, const ProblemShape& /*problem*/, const SearchSpec& /*spec*/) const {}
  /// It measures what the device can do at best, here and now.
  virtual Rates rates(const std::string& /*instruction_set*/, Precision /*precision*/, int /*threads*/) const {
    return {};
  }
};

}  // namespace vicinal
