// What a search returns: ids and distances row by row, a certificate, and how the work went.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// Why the answer is exact. Every query is certified when a call returns, so all() is always true:
/// `proven` of them by the first precision, `redone` by a finer one.
struct Certificate {
  std::int64_t queries = 0;
  std::int64_t proven = 0;
  std::int64_t redone = 0;
  std::vector<std::string>
      precisions;  // precisions used, first to last: "int8", "fp16" (on a CUDA device), "f32", "canonical"
  /// Largest proved |filter distance - true distance| of a proven query: of |q - r| for sqeuclidean too, of the chord
  /// between unit rows for cosine and correlation, of the value itself for the others.
  double largest_bound = 0;
  bool all() const noexcept { return proven + redone == queries; }
};

/// How the work was done. Not covered by the promise of equal bits.
struct Stats {
  std::string device;           // "cpu"
  std::string instruction_set;  // "avx512"
  int threads = 0;
  double seconds = 0;              // wall time of the call
  double prepare_seconds = 0;      // wall time of preparing the corpus inside this call; 0 when it was kept
  std::int64_t pairs = 0;          // rows of the corpus times queries
  std::int64_t candidates = 0;     // pairs that passed the filter
  std::int64_t reranked = 0;       // canonical fp64 distances computed
  std::int64_t underflowed = 0;    // returned values that are 0 or subnormal though the canonical one is not
  std::int64_t copied_bytes = 0;   // input copied before the search could read it
  std::int64_t planned_bytes = 0;  // peak anonymous memory that the plan allowed
  std::int64_t used_bytes =
      0;  // most of a CUDA device's memory that it held at once, beyond what was kept before; 0 on the CPU
  bool rotated = false;            // rows were rotated before they were rounded to bytes
  std::int64_t projected = 0;      // columns that rows were projected to before that; 0: they kept theirs
  double planned_seconds = 0;      // what the plan predicted
  std::int64_t passes = 0;         // times the corpus was read
  std::vector<std::string> notes;  // what a user may want to know: a cap on threads, underflow, ...
};

/// Caller's memory for rows x k results, row-major and dense. `distances` points at float, double or
/// uint32 as `type` says (never automatic). `counts`, if not null, takes the eligible results a row.
struct NeighborsView {
  std::int64_t* ids = nullptr;
  void* distances = nullptr;
  DistanceType type = DistanceType::f32;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t* counts = nullptr;
};

/// Owned results: rows x k, nearest first, ties by smaller id; missing entries are id -1 and the worst
/// distance (+inf; -inf for inner_product; 4294967295 for hamming and levenshtein).
class Neighbors {
 public:
  Neighbors() = default;
  Neighbors(std::int64_t rows, std::int64_t k, DistanceType type, bool counted);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t k() const noexcept { return k_; }
  DistanceType type() const noexcept { return type_; }
  const std::int64_t* ids() const noexcept { return ids_.get(); }
  const void* distances() const noexcept { return distances_.get(); }
  /// Null unless the search was padded.
  const std::int64_t* counts() const noexcept { return counts_.get(); }
  /// The owners of the three arrays, for who keeps one of them longer than the result (Python does).
  std::shared_ptr<const void> shared_ids() const noexcept { return ids_; }
  std::shared_ptr<const void> shared_distances() const noexcept { return distances_; }
  std::shared_ptr<const void> shared_counts() const noexcept { return counts_; }
  std::int64_t id(std::int64_t row, std::int64_t rank) const noexcept {
    return ids_[static_cast<std::size_t>(row * k_ + rank)];
  }
  /// Any distance type, widened exactly to double.
  double distance(std::int64_t row, std::int64_t rank) const noexcept;
  NeighborsView view() noexcept;
  NeighborsView view() const noexcept;  // for merge and writers, which only read

  Certificate certificate;
  Stats stats;

 private:
  std::int64_t rows_ = 0, k_ = 0;
  DistanceType type_ = DistanceType::f32;
  // Plain arrays, not vectors: pages that a search fills in parallel must not be touched first by one thread.
  std::shared_ptr<std::int64_t[]> ids_;
  std::shared_ptr<std::byte[]> distances_;
  std::shared_ptr<std::int64_t[]> counts_;
};

/// Rows of differing lengths (CSR): entries offsets()[i] to offsets()[i + 1] belong to row i. What a range search
/// returns, each row by (distance, id); and what a symmetrised graph is, each row by id.
class CsrNeighbors {
 public:
  CsrNeighbors() = default;
  /// `rows` rows that take offsets[rows] entries in all; the arrays come uninitialised but offsets, which are 0.
  /// Throws OutOfMemory.
  CsrNeighbors(std::int64_t rows, std::int64_t entries, DistanceType type);
  /// Takes over arrays that exist.
  CsrNeighbors(std::int64_t rows, DistanceType type, std::shared_ptr<std::int64_t[]> offsets,
               std::shared_ptr<std::int64_t[]> ids, std::shared_ptr<std::byte[]> distances)
      : rows_(rows), type_(type), offsets_(std::move(offsets)), ids_(std::move(ids)), distances_(std::move(distances)) {
  }

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t entries() const noexcept { return rows_ == 0 ? 0 : offsets_[static_cast<std::size_t>(rows_)]; }
  DistanceType type() const noexcept { return type_; }
  const std::int64_t* offsets() const noexcept { return offsets_.get(); }  // rows + 1
  const std::int64_t* ids() const noexcept { return ids_.get(); }
  const void* distances() const noexcept { return distances_.get(); }
  std::int64_t* offsets() noexcept { return offsets_.get(); }
  std::int64_t* ids() noexcept { return ids_.get(); }
  void* distances() noexcept { return distances_.get(); }
  std::shared_ptr<const void> shared_offsets() const noexcept { return offsets_; }
  std::shared_ptr<const void> shared_ids() const noexcept { return ids_; }
  std::shared_ptr<const void> shared_distances() const noexcept { return distances_; }
  std::int64_t count(std::int64_t row) const noexcept {
    return offsets_[static_cast<std::size_t>(row + 1)] - offsets_[static_cast<std::size_t>(row)];
  }
  std::int64_t id(std::int64_t row, std::int64_t rank) const noexcept {
    return ids_[static_cast<std::size_t>(offsets_[static_cast<std::size_t>(row)] + rank)];
  }
  /// Any distance type, widened exactly to double.
  double distance(std::int64_t row, std::int64_t rank) const noexcept;

  Certificate certificate;
  Stats stats;

 private:
  std::int64_t rows_ = 0;
  DistanceType type_ = DistanceType::f32;
  std::shared_ptr<std::int64_t[]> offsets_ = nullptr;
  std::shared_ptr<std::int64_t[]> ids_;
  std::shared_ptr<std::byte[]> distances_;
};

/// Bytes of one distance: 4, 8, 4.
constexpr std::size_t distance_size(DistanceType type) noexcept { return type == DistanceType::f64 ? 8 : 4; }
/// The type that `automatic` stands for.
DistanceType resolve_distance_type(DistanceType asked, Metric metric, DType corpus, DType queries);

}  // namespace vicinal
