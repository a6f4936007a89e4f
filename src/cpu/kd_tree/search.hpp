// The search of rows in a k-d tree (kd_tree.hpp): a query goes down the tree, nearest box first, until the next one is
// farther than its k-th so far or its radius. Queries near each other come one after another, so that they find the
// same leaves in the caches.
#pragma once
#include <span>

#include "cpu/rerank/output.hpp"

namespace vicinal::cpu {

/// The queries of a batch as the search reads them.
class KdTreeQueries {
 public:
  /// Takes these rows of `queries` in an order in which neighbours come together. Throws InvalidValue for queries that
  /// are not finite.
  void prepare(const Kernels& kernels, const SearchSpec& spec, const Points& queries, const QueryRows& rows,
               ThreadPool& thread_pool);
  /// The row of each query, in that order, and its position in the batch.
  std::span<const std::int64_t> rows() const noexcept {
    return {rows_are_given_ ? given_.data() : rows_.data(), count_};
  }
  std::span<const std::int64_t> given() const noexcept { return {given_.data(), count_}; }
  /// [width], filled up with zeros.
  const double* point(std::int64_t query) const noexcept { return points_.data() + query * width_; }

 private:
  std::int64_t width_ = 2;
  std::size_t count_ = 0;
  bool rows_are_given_ = false;        // of a run from row 0 on
  Buffer<std::int64_t> rows_, given_;  // written by all threads, where a list is cleared by one
  Buffer<double> points_;              // [query][width]
};

/// Searches the chunk's tree for all queries; results are those of split 0.
void search_kd_tree(const SearchBatch& batch, const KdTreeQueries& queries);

/// The same of a tree of all rows, for the k nearest: a thread writes each answer when it has found it, so that a query
/// needs no pool of its own.
void answer_by_kd_tree(const Output& output, const KdTreeQueries& queries, const NeighborsView& out,
                       const BoundsView& bounds);

}  // namespace vicinal::cpu
