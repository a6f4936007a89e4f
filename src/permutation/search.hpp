// One search of an index by one thread, a few queries at a time against blocks of ranks; or by all threads of a thread
// pool, one query at a time. Either way it scores the objects, partitions them at the c-th score, and measures the
// candidates.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/key.hpp"
#include "cpu/rerank/rerank.hpp"
#include "permutation/state.hpp"
#include "permutation/top_c_partition.hpp"

namespace vicinal {

/// What a search asks of every query.
struct IndexSearchSpec {
  DistanceType type = DistanceType::f32;
  std::int64_t k = 0;           // 0: everything within the radius
  double radius = 0;            // folded
  std::int64_t candidates = 0;  // by rank; of exact searches those that are looked at first
  bool exact = false;
};

/// The number of candidates in a fraction of the objects; k at least.
std::int64_t candidates_of(double fraction, std::int64_t count, std::int64_t k);

/// Counts the objects that a search spent its time on.
struct IndexCounts {
  std::int64_t candidates = 0, measured = 0;
};

/// Throws RangeError where a distance from query `query` to a permutant is infinite.
void check_order_of(std::int64_t query, std::span<const double> distances, Metric metric);

/// Computes the scores of several queries with all objects by one thread, or of one query by those of a thread_pool.
class RankScan {
 public:
  /// workers: threads that share a query.
  RankScan(const PermutationIndex::State& state, const cpu::Scores& kernels, std::int64_t batch, int workers = 1);
  /// Scores queries [first, first + used) of those that the evaluator knows.
  void run(DistanceEvaluator& evaluator, std::int64_t first, std::int64_t used, ThreadPool& thread_pool);
  /// Scores one query by all threads; each worker's evaluator was started with it.
  using Evaluators = std::function<DistanceEvaluator&(int worker)>;
  void run_together(const Evaluators& evaluators, std::int64_t query, ThreadPool& thread_pool);
  const std::uint32_t* scores(std::int64_t query) const noexcept { return scores_.data() + query * count_; }
  /// Distances to the permutants.
  const double* distances(std::int64_t query) const noexcept { return distances_.data() + query * width_; }
  /// Queries that share a look at a block of ranks.
  static std::int64_t batch_for(std::int64_t objects, std::int64_t queries, int threads) noexcept;
  static std::int64_t bytes(const PermutationIndex::State& state, std::int64_t batch) noexcept;

 private:
  std::int64_t block_rows() const noexcept;

  const PermutationIndex::State& state_;
  std::int64_t count_, width_;
  std::vector<std::uint32_t> permutants_;
  std::vector<RankScorer> scorers_;
  Buffer<std::uint32_t> scores_;
  std::vector<double> distances_;
};

/// Evaluates candidates of one query at a time and collects those that belong to the answer.
class Collector {
 public:
  Collector(const PermutationIndex::State& state, const Queries& queries, const IndexSearchSpec& spec);
  void start(std::int64_t query);
  void evaluate(const std::uint32_t* objects, std::int64_t count);
  /// Takes over what another collector found for the same query.
  void take(Collector& other);
  /// Entries with a key above are of no use.
  double limit() const noexcept { return spec_.k > 0 ? pool_.worst.key : spec_.radius; }
  void trim() noexcept {
    if (spec_.k > 0) pool_.trim();
  }
  std::span<const Entry> sorted();
  /// Keys that lost their sign, by their objects.
  void measure_zeros(std::vector<Entry>& entries);
  DistanceEvaluator& evaluator() noexcept { return *evaluator_; }
  std::int64_t measured = 0;

 private:
  Entry entry_of(double value, std::int64_t id) const;
  const IndexSearchSpec& spec_;
  std::unique_ptr<DistanceEvaluator> evaluator_;
  bool descends_;
  std::vector<Entry> entries_;
  cpu::Pool pool_;
};

/// Whether threads do better to share each query than to take some each.
constexpr bool shares_queries(std::int64_t objects, std::int64_t queries, int threads) noexcept {
  constexpr std::int64_t worth_sharing = 2048;
  return threads > 1 && queries < 2 * threads && objects >= worth_sharing;
}

class IndexSearch {
 public:
  /// together: the thread pool whose threads share every query, or null.
  IndexSearch(const PermutationIndex::State& state, const Queries& queries, const IndexSearchSpec& spec,
              const cpu::Scores& kernels, std::int64_t batch, ThreadPool* together = nullptr);
  /// Answers to queries [first, first + used), sorted, with folded keys of the spec's type.
  using Answer = std::function<void(std::int64_t query, std::span<const Entry> entries)>;
  IndexCounts run(std::int64_t first, std::int64_t used, ThreadPool& thread_pool, const Answer& answer);
  /// Memory at most, but for the answers of a range search. workers: that share a query.
  static std::int64_t bytes(const PermutationIndex::State& state, const IndexSearchSpec& spec, std::int64_t batch,
                            int workers) noexcept;

 private:
  // position: of the query among those whose scores are there.
  void answer_exactly(std::int64_t position);
  void evaluate_within_bounds(std::int64_t position);
  /// Objects that the bounds leave, ascending, to survivors_.
  void find_survivors(const BoundTest& test);
  void start(std::int64_t query);
  void choose_candidates(std::int64_t position);
  void evaluate(const std::uint32_t* objects, std::int64_t count);
  double limit() const noexcept { return collectors_.front()->limit(); }

  const PermutationIndex::State& state_;
  const IndexSearchSpec& spec_;
  const cpu::Scores& kernels_;
  ThreadPool* together_;
  std::int64_t count_;
  std::vector<std::unique_ptr<Collector>> collectors_;  // one, or of each worker; the first has what all have found
  RankScan scan_;
  TopCPartition partition_;
  std::vector<std::uint32_t> objects_, survivors_, rest_;
  IndexCounts counts_;
};

}  // namespace vicinal
