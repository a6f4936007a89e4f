// One search of an index by one thread: a few queries at a time against blocks of ranks, the cut, and what is measured of it.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/key.hpp"
#include "cpu/rerank.hpp"
#include "permutation/cut.hpp"
#include "permutation/state.hpp"

namespace vicinal {

/// What is asked of every query.
struct IndexQuestion {
  DistanceType type = DistanceType::f32;
  std::int64_t k = 0;           // 0: everything within the radius
  double radius = 0;            // folded
  std::int64_t candidates = 0;  // by rank; of exact searches those that are looked at first
  bool exact = false;
};

/// Where time went, in objects.
struct IndexCounts {
  std::int64_t candidates = 0, measured = 0;
};

/// Throws RangeError where a distance from query `query` to a permutant is infinite.
void check_order_of(std::int64_t query, std::span<const double> distances);

/// Scores of several queries with all objects. Memory for one thread.
class RankScan {
 public:
  RankScan(const PermutationIndex::State& state, const cpu::Scores& kernels, std::int64_t batch);
  /// Queries [first, first + used) of the meter's.
  void run(Meter& meter, std::int64_t first, std::int64_t used, Team& team);
  const std::uint32_t* scores(std::int64_t query) const noexcept { return scores_.data() + query * count_; }
  /// Distances to the permutants.
  const double* distances(std::int64_t query) const noexcept { return distances_.data() + query * width_; }
  /// Queries that share a look at a block of ranks.
  static std::int64_t batch_for(std::int64_t objects, std::int64_t queries, int threads) noexcept;

 private:
  const PermutationIndex::State& state_;
  std::int64_t count_, width_;
  std::vector<std::uint32_t> permutants_;
  std::vector<RankScorer> scorers_;
  Buffer<std::uint32_t> scores_;
  std::vector<double> distances_;
};

/// What is looked at for one query at a time, and what of it is the answer.
class Collector {
 public:
  Collector(const PermutationIndex::State& state, const Queries& queries, const IndexQuestion& question);
  void start(std::int64_t query);
  void look_at(const std::uint32_t* objects, std::int64_t count);
  /// Entries with a key above are of no use.
  double limit() const noexcept { return question_.k > 0 ? pool_.worst.key : question_.radius; }
  void trim() noexcept {
    if (question_.k > 0) pool_.trim();
  }
  std::span<const Entry> sorted();
  /// Keys that lost their sign, by their objects.
  void measure_zeros(std::vector<Entry>& entries);
  Meter& meter() noexcept { return *meter_; }
  std::int64_t measured = 0;

 private:
  Entry entry_of(double value, std::int64_t id) const;
  const IndexQuestion& question_;
  std::unique_ptr<Meter> meter_;
  bool descends_;
  std::vector<Entry> entries_;
  cpu::Pool pool_;
};

class IndexSearch {
 public:
  IndexSearch(const PermutationIndex::State& state, const Queries& queries, const IndexQuestion& question,
              const cpu::Scores& kernels, std::int64_t batch);
  /// Answers to queries [first, first + used), sorted, with folded keys of the question's type.
  using Answer = std::function<void(std::int64_t query, std::span<const Entry> entries)>;
  IndexCounts run(std::int64_t first, std::int64_t used, Team& team, const Answer& answer);

 private:
  void answer_exactly(std::int64_t query);
  void look_within(std::int64_t query);

  const PermutationIndex::State& state_;
  const IndexQuestion& question_;
  const cpu::Scores& kernels_;
  std::int64_t count_;
  Collector collector_;
  RankScan scan_;
  Cut cut_;
  std::vector<std::uint32_t> objects_, survivors_;
  IndexCounts counts_;
};

}  // namespace vicinal
