// One search on the host CPU: the buffers of a search, and the calls that take it through the stages of src/cpu.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "backend/search.hpp"
#include "cpu/bits/search.hpp"
#include "cpu/filter/pass.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/kd_tree/search.hpp"
#include "cpu/prepare/prepared_corpus.hpp"
#include "cpu/rerank/exhaustive.hpp"
#include "cpu/rerank/range.hpp"

namespace vicinal::cpu {

/// The bytes of memory that are taken while the transform of the rows is chosen.
std::int64_t transform_bytes(const SearchPlan& plan, std::int64_t dims) noexcept;

class CpuSession final : public Session {
 public:
  CpuSession(const InstructionSet& set, const SearchSpec& spec, const SearchPlan& plan, Precision precision,
             Transform chosen, std::shared_ptr<const CpuPreparedCorpus> prepared, ThreadPool& thread_pool,
             Stats& stats);
  ~CpuSession() override;
  /// A session is as short-lived as its buffers, and comes from where they do.
  static void* operator new(std::size_t bytes) { return acquire_bytes(bytes); }
  static void operator delete(void* at, std::size_t bytes) noexcept { release_bytes(at, bytes); }

  void prepare_queries(const Points& queries, const QueryRows& rows) override;
  void prepare_corpus(std::int64_t first, std::int64_t count) override;
  void filter() override;
  void select() override;
  void rerank() override;
  void finish(const NeighborsView& out, const BoundsView& bounds) override;
  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) override;
  void write_matches_to(const RangeView& out) override;
  void finish_range(const RangeView& out, const BoundsView& bounds) override;

  /// Bytes of everything a session holds but the packed corpus.
  static std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) noexcept;

 private:
  const PackedRows& chunk() const noexcept { return prepared_ ? prepared_->of(precision_).rows : streamed_; }
  const Transform& transform() const noexcept { return prepared_ ? prepared_->of(precision_).transform : transform_; }
  /// Rows lie in a k-d tree.
  bool uses_kd_tree() const noexcept { return !has_filter(precision_) && plan_.techniques.kd_tree; }
  bool answers_by_tree() const noexcept;
  bool counts_bits() const noexcept { return plan_.techniques.bit_counts; }
  /// Rows that int8 cannot exclude are refined by their second-level codes.
  bool refines() const noexcept {
    return in_codes(precision_) && plan_.techniques.second_level && !(transform().integral_step > 0) &&
           (!prepared_ || chunk().second.present());
  }
  void note_largest_rows();
  /// The row of each query, in the session's order, and its position in the batch; of none: its own number.
  std::span<const std::int64_t> rows() const noexcept { return uses_kd_tree() ? kd_tree_queries_.rows() : rows_; }
  std::span<const std::int64_t> given() const noexcept {
    return uses_kd_tree() ? kd_tree_queries_.given() : queries_.order.empty() ? given_ : queries_.order;
  }
  /// Packs the queries of rows() and starts their results. steps: of each block where they are the packed rows; null:
  /// their own.
  void pack_queries(const std::vector<float>* steps);
  void start_results();
  void start_range();
  /// Makes the packed rows the queries, in their order and rounded alike: each query is what it is as a row.
  void pack_rows_as_queries();
  PackArgs pack_args() const noexcept {
    return {kernels_, spec_, precision_, model_.get(), &transform(), plan_.techniques};
  }
  SearchBatch batch() noexcept;
  FilterPass pass(const SearchBatch& batch) noexcept;
  Output output(const SearchBatch& batch) noexcept { return {batch, model_.get(), largest_rows_, stats_}; }

  const Kernels& kernels_;
  const BitKernels& bits_;
  const Int8Kernels* int8_ = nullptr;  // null but on a precision of codes
  Precision precision_;
  const SearchSpec& spec_;
  const SearchPlan& plan_;
  std::shared_ptr<const CpuPreparedCorpus> prepared_;
  ThreadPool& thread_pool_;
  Stats& stats_;
  Transform transform_;
  std::unique_ptr<BoundModel> model_;  // null on the canonical precision
  PackedRows streamed_;
  Points query_points_;
  std::vector<std::int64_t> rows_;   // as rows(), but in a tree
  std::vector<std::int64_t> given_;  // as given(), of queries that are the packed rows
  KdTreeQueries kd_tree_queries_;
  BitQueries bit_queries_;
  PackedQueries queries_;
  std::vector<QueryResult> results_;    // [splits][queries], as the next
  std::vector<Candidates> candidates_;  // empty on the canonical precision
  Buffer<Slot> slots_;                  // of candidates_
  Buffer<Entry> entries_;               // of the pools of results_
  RangeMatches matches_;
  FilterNorms largest_rows_;  // maxima over every chunk seen, for the certificate
  PerThread<RankScratch> rank_scratch_;
  PerThread<FilterScratch> filter_scratch_;
  PerThread<BitScratch> bit_scratch_;
  std::atomic<bool> speculation_missed_{false};
};

}  // namespace vicinal::cpu
