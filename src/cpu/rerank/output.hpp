// OUTPUT: the splits of each query are joined, and its answer and its bounds are written.
#pragma once
#include <cmath>
#include <limits>
#include <optional>

#include "cpu/rerank/batch.hpp"

namespace vicinal::cpu {

/// One query over all splits.
struct QueryTotals {
  double threshold_key = infinite;  // the smallest of the splits
  bool given_up = false;
  std::int64_t passed = 0, ranked = 0;
};

/// Writes answers, and what certify and the caller's statistics are told of them.
class Output {
 public:
  /// model: null on the canonical precision. largest_rows: maxima over every chunk that the batch met.
  Output(const SearchBatch& batch, const BoundModel* model, const FilterNorms& largest_rows, Stats& stats)
      : batch_(batch), model_(model), largest_rows_(largest_rows), stats_(stats) {}
  /// A k-nearest search: row rows[i] of `out` is query i, sorted.
  void write(const NeighborsView& out, const BoundsView& bounds) const;
  /// Joins the splits of a query and fills its bounds.
  QueryTotals totals(std::int64_t query, const BoundsView& bounds) const;
  /// Writes the row of a query whose pool holds the best k in order; returns how many of its distances underflowed.
  std::int64_t write_sorted(std::int64_t query, const Pool& pool, const NeighborsView& out, int thread) const;
  const SearchBatch& batch() const noexcept { return batch_; }
  Stats& stats() const noexcept { return stats_; }

 private:
  std::int64_t write_row(std::int64_t query, const NeighborsView& out, int thread) const;
  const SearchBatch& batch_;
  const BoundModel* model_;
  const FilterNorms& largest_rows_;
  Stats& stats_;
};

/// Counts the distances of one query that underflowed: entries
/// whose key is nothing, or subnormal, though the distance is not.
class UnderflowCount {
 public:
  UnderflowCount(const SearchBatch& batch, std::int64_t query, int thread)
      : batch_(batch), query_(query), thread_(thread), normal_(least_normal(batch.spec.type)) {}
  /// Throws RangeError for a distance that is infinite.
  void add(const Entry& entry) {
    const double size = std::fabs(entry.key);
    if (size >= normal_ && size < infinite) return;
    count_ += static_cast<std::int64_t>(underflowed(entry));
  }
  std::int64_t count() const noexcept { return count_; }

 private:
  /// Counts of bits do not underflow.
  static double least_normal(DistanceType type) noexcept {
    if (type == DistanceType::u32) return 0;
    return type == DistanceType::f64 ? std::numeric_limits<double>::min()
                                     : static_cast<double>(std::numeric_limits<float>::min());
  }
  /// Of an entry that is infinite, subnormal or zero.
  bool underflowed(const Entry& entry);
  const SearchBatch& batch_;
  std::int64_t query_, count_ = 0;
  int thread_;
  double normal_;
  std::optional<Ranker> ranker_;  // made when it is first needed, which is seldom
};

}  // namespace vicinal::cpu
