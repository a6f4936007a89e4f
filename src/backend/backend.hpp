// The seam. Above it: plan, the loop over tiles, certify, merge, written once. Below it: one folder a device.
// A backend says what it has, what a plan would cost in bytes, and opens sessions; a session is one search on one device.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/ranks.hpp"
#include "backend/strings.hpp"
#include "core/parallel.hpp"
#include "core/precision.hpp"
#include "core/row_filter.hpp"
#include "select/problem.hpp"
#include "vicinal/device.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// Columns of rows that Plan::groups may ask a backend to put into groups.
inline constexpr std::int64_t most_group_dims = 8;

struct Facts {
  std::string name;                                 // "cpu", "cuda:0"
  std::string description;                          // "2 threads, avx512"
  std::vector<std::string> instruction_sets;        // usable here, best first
  std::vector<std::string> built_instruction_sets;  // compiled in
  std::int64_t tile_rows = 0;                       // corpus chunks are multiples of this
  bool has_halves =
      false;  // tiles of halves between those of bytes and of floats; then floats take differences, of large sides only
  bool has_pairs = true;                 // a graph's tiles may serve both sides
  bool has_groups = false;               // takes Plan::groups
  std::int64_t ready_bytes = INT64_MAX;  // of a call: beyond it memory costs more time than taking queries in batches
  std::int64_t most_filtered_k = INT64_MAX;  // beyond it every pair is ranked
};

/// What a search is, apart from how it is carried out. `k` is what a query can really get: min(k, eligible rows).
struct SearchSpec {
  Points corpus;
  Metric metric = Metric::euclidean;
  DistanceType type = DistanceType::f32;
  Degenerate degenerate = Degenerate::error;
  std::int64_t k = 0;
  std::int64_t first_id = 0;
  RowFilter filter = {};
  std::optional<double> radius = {};  // a range search: everything within it, and k is 0
  bool symmetric = false;             // the queries are the corpus, prepared alike, so that a tile serves both sides
  void* stream = nullptr;             // KnnOptions::stream
};

/// The shapes that bytes() needs.
struct ProblemShape {
  Shape corpus, queries;
  Metric metric = Metric::euclidean;
  std::int64_t k = 0;          // min(k, rows)
  bool kept = false;           // the prepared corpus exists already and is not counted
  const Plan* made = nullptr;  // the plan that the kept corpus was prepared by; null while it is being prepared
  bool range = false;
  bool symmetric = false;  // a graph, where tiles may serve both sides
  std::int64_t filter_bytes = 0;
};

/// A whole corpus in the form that a backend searches, immutable.
struct PreparedCorpus {
  virtual ~PreparedCorpus() = default;
  virtual std::int64_t bytes() const = 0;
};

/// What finish() says of each query of the batch, for certify.
inline constexpr std::int64_t unknown_count = -1;
struct BoundsView {
  double* settled;  // every row whose folded key is <= this was ranked canonically; +inf: all rows were
  double* largest;  // largest proved |filter distance - true distance| (0 on the canonical precision)
  std::int64_t* found =
      nullptr;  // rows in the query's answer; unknown_count where the answer lies on a device, which counts them itself. Null: not asked for
};

/// Where the matches of a batch go: query i has entries [begin[i], begin[i] + count[i]).
struct RangeView {
  std::int64_t* ids = nullptr;
  void* distances = nullptr;
  DistanceType type = DistanceType::f32;
  std::span<const std::int64_t> begin, count;
};

struct Session {
  virtual ~Session() = default;
  /// The next batch: rows `rows` of `queries`. Forgets the batch before.
  virtual void prepare_queries(const Points& queries, std::span<const std::int64_t> rows) = 0;
  /// The next chunk of the corpus, rows [first, first + count). Not called when the corpus is kept.
  virtual void prepare_corpus(std::int64_t first, std::int64_t count) = 0;
  /// Tile distances of the batch against the chunk; keeps what beats each query's threshold, tightening it.
  virtual void filter() = 0;
  /// Drops what the final thresholds of the chunk exclude.
  virtual void select() = 0;
  /// Canonical distance of the survivors; keeps the best k in the total order.
  virtual void rerank() = 0;
  /// Results of query i of the batch to row rows[i] of `out`, sorted; bounds to position i.
  virtual void finish(const NeighborsView& out, const BoundsView& bounds) = 0;

  // A range search (SearchSpec::radius) ends differently, for the size of its result is not known before:
  /// Matches of each query of the batch after the last chunk. lost: they were counted and not kept, for want of memory.
  virtual void counts(std::span<std::int64_t> counts, std::vector<bool>& lost) = 0;
  /// After prepare_queries, for queries that were lost once: their matches go straight to their places.
  virtual void place(const RangeView& out) = 0;
  /// Matches that were kept go to their places, those of lost queries (count 0 here) do not; every row is sorted.
  virtual void finish_range(const RangeView& out, const BoundsView& bounds) = 0;
};

/// What a sample of the rows says of a plan, before the search. No answer depends on it.
struct Outlook {
  std::int64_t sampled = 0;  // rows of the corpus; 0: it says nothing
  bool int8_pays = true;     // where Plan::pilot leaves it open
  bool rotated = false;
  double left_int8 = 0, left_f32 = 0;  // rows of the corpus, a query, that each precision does not exclude
};

struct Backend {
  virtual ~Backend() = default;
  virtual Facts facts() const = 0;
  /// Memory that a search may count on. Apart from the facts, since a driver takes longer to tell it than a small search takes.
  virtual std::int64_t free_bytes() const = 0;
  /// The stand-alone service. Throws InvalidArgument where the algorithm that is asked for cannot take the problem.
  virtual SelectStats select_k(const SelectProblem& problem) = 0;
  /// Why problem.algorithm, which runs on this kind of device, cannot take the problem; empty where it can.
  virtual std::string select_refusal(const SelectProblem& problem) const = 0;
  /// Peak bytes of anonymous memory of a plan. Pure.
  virtual std::int64_t bytes(const Plan& plan, const ProblemShape& problem) const = 0;
  /// Peak bytes of making the kept form, most of which stay.
  virtual std::int64_t prepared_bytes(const ProblemShape& problem, const Plan& plan) const = 0;
  /// Queries that a tile takes side by side; query blocks are multiples of this.
  virtual std::int64_t query_lanes(const std::string& instruction_set) const = 0;
  /// Time of an instruction set beside the backend's fastest, for predictions only.
  virtual double slowness(const std::string& instruction_set) const = 0;
  /// Speed of its tiles of bytes beside those of floats, for the choice between them.
  virtual double int8_gain(const std::string& instruction_set) const = 0;
  /// Why it has no filter of the precision for rows of so many columns, a plan's note; empty where it has. The plan names no such precision.
  virtual std::string filter_refusal(Precision /*precision*/, std::int64_t /*cols*/,
                                     const std::string& /*instruction_set*/) const {
    return "";
  }
  /// Whether it reads this memory in place, where the host does not.
  virtual bool holds(const void* /*rows*/) const { return false; }
  /// Ordinal of the CUDA device in whose memory this is, where the host cannot read it; -1: the host's, as far as the backend can tell.
  virtual int cuda_device(const void* /*memory*/) const { return -1; }
  /// Throws Unsupported where no search can begin on the caller's stream (KnnOptions::stream) now.
  virtual void check_stream(void* /*stream*/) const {}
  /// Until what is queued on that stream has run.
  virtual void wait_for(void* /*stream*/) const {}
  /// Gives back what it keeps between calls and nobody uses; returns how many bytes that were.
  virtual std::int64_t release_memory() { return 0; }
  /// Predicted seconds of a search; below 0: by `slowness` beside a core of the build machine.
  virtual double seconds(const Plan& /*plan*/, const ProblemShape& /*problem*/) const { return -1; }
  /// In milliseconds, whatever the shape.
  virtual Outlook look(const SearchSpec& /*spec*/, const Plan& /*plan*/) { return {}; }
  /// Measured here and now; nothing where a backend does not say.
  virtual Rates rates(const std::string& /*instruction_set*/, Precision /*precision*/, int /*threads*/) { return {}; }
  /// Prepares the whole corpus once.
  virtual std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const Plan& plan,
                                                               ThreadPool& thread_pool) = 0;
  /// Null where Plan::pilot leaves it open whether the precision pays, and on these rows it does not, or where they were kept without it.
  virtual std::unique_ptr<Session> open(const SearchSpec& spec, const Plan& plan, Precision precision,
                                        std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                        Stats& stats) = 0;

  // Strings. One call each: a search is one stage, since a lane's distance is exact when it is there.
  /// Decides the shape of a plan that knows its device, instruction set, threads and budget; returns peak bytes beyond the strings.
  virtual std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k,
                                     bool range) const = 0;
  /// What search_strings() can be asked; the rest is for the host.
  virtual StringShare share_strings(const StringSearchSpec& spec) const { return {spec.queries.count(), ""}; }
  /// Returns the entries of a range search, those beyond StringSearchSpec::most too.
  virtual std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                                      ThreadPool& thread_pool, Stats& stats) = 0;

  // A permutation index: its footrules with queries, the cut, and where rows are given and fit, the distances of candidates.
  /// Ranks, and rows, there for many searches. Null: the backend has nothing that the host's own code is not better at.
  virtual std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& /*ranks*/,
                                                           const std::vector<std::uint32_t>& /*permutants*/,
                                                           const MeasuredRows* /*rows*/) {
    return nullptr;
  }
  /// Can it measure those k of the rows that it keeps?
  virtual bool measures(const PreparedCorpus& /*kept*/, std::int64_t /*k*/) const { return false; }
  /// False: a distance to a permutant is not finite, which the host has words for; not where ranks are given.
  virtual bool search_ranks(const RankSearchSpec& /*spec*/, const PreparedCorpus& /*kept*/,
                            const CandidatesAnswer& /*candidates*/, const NearestAnswer& /*nearest*/,
                            ThreadPool& /*thread_pool*/) {
    return false;
  }
};

/// The backend that searches for Execution::device; "auto" is the CPU, and then nothing is loaded. Throws DeviceError for one
/// that is absent, InvalidArgument for an unknown name.
Backend& find_backend(const std::string& device);
/// The backend that selects: for values on a CUDA device (cuda_device >= 0) or on the host (-1). "auto" goes where the
/// values are. Throws as find_backend does, and DeviceError where the device cannot read the values.
Backend& find_select_backend(const std::string& device, int cuda_device);
/// Those that are compiled in, the default first.
std::vector<std::string> backend_names();
/// "auto" replaced by what VICINAL_ISA and VICINAL_FILTER force, else unchanged. VICINAL_BACKEND is for the two above.
Execution with_environment(Execution run);

/// The host CPU; src/cpu/backend.cpp.
Backend& cpu_backend();

}  // namespace vicinal
