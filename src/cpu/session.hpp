// One search on the host CPU: the stages of src/cpu bound to buffers and threads.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "backend/search.hpp"
#include "cpu/filter/filter.hpp"
#include "cpu/isa/table.hpp"

namespace vicinal::cpu {

/// A whole corpus as precisions see it: packed, or only checked and normed.
struct CpuPreparedCorpus final : PreparedCorpus {
  struct Packed {
    Transform transform;
    PackedRows rows;
  };
  std::vector<Packed> precisions;  // of the cascade's filters, or the canonical one alone
  const Packed& of(Precision precision) const noexcept;
  std::int64_t bytes() const override;
};

/// The facts of a precision's bound; null for the canonical one.
std::unique_ptr<BoundModel> make_model(const Kernels& kernels, const SearchSpec& spec, Precision precision,
                                       const Transform& transform);

/// Entries that a pool holds beyond k before it is trimmed.
std::int64_t pool_slack(std::int64_t k) noexcept;

/// The part of [0, count) (tiles or rows) that belongs to one split.
struct Range {
  std::int64_t begin, end;
};
inline Range split_range(std::int64_t count, std::int64_t split, std::int64_t splits) noexcept {
  return {count * split / splits, count * (split + 1) / splits};
}

class CpuSession final : public Session {
 public:
  CpuSession(const InstructionSet& set, const SearchSpec& spec, const Plan& plan, Precision precision, Transform chosen,
             std::shared_ptr<const CpuPreparedCorpus> kept, ThreadPool& thread_pool, Stats& stats);
  ~CpuSession() override;

  void prepare_queries(const Points& queries, std::span<const std::int64_t> rows) override;
  void prepare_corpus(std::int64_t first, std::int64_t count) override;
  void filter() override;
  void select() override;
  void rerank() override;
  void finish(const NeighborsView& out, const BoundsView& bounds) override;
  void counts(std::span<std::int64_t> counts, std::vector<bool>& lost) override;  // range.cpp
  void place(const RangeView& out) override;                                      // range.cpp
  void finish_range(const RangeView& out, const BoundsView& bounds) override;     // range.cpp

  /// Bytes of everything a session holds but the packed corpus.
  static std::int64_t bytes(const Plan& plan, const ProblemShape& problem) noexcept;

 private:
  /// One thread's memory for ranking and filtering.
  struct Worker {
    Worker(const Points& corpus, const Plan& plan, Precision precision);
    RankScratch rank;
    Buffer<float> thr, partial;
    Buffer<float> facing_thr, terms;  // of the other block of a pair; of the block's queries as rows
    Buffer<ThresholdCoeffs> lines;    // of bytes, as the next two
    Buffer<std::int32_t> limits, seeds, sums;
    Buffer<ThresholdCoeffs> facing_lines;  // of bytes in pairs, as the next two
    Buffer<std::int32_t> facing_limits, int8_terms;
    std::optional<Ranker> ranker;
  };
  const PackedRows& chunk() const noexcept { return kept_ ? kept_->of(precision_).rows : streamed_; }
  const Transform& transform() const noexcept { return kept_ ? kept_->of(precision_).transform : transform_; }
  QueryState& state(std::int64_t split, std::int64_t query) noexcept {
    return states_[static_cast<std::size_t>(split * queries_.count + query)];
  }
  Worker& worker(int number);
  FilterTask task(Worker& worker, std::int64_t split, std::int64_t first, std::int64_t count);
  FilterTask block_task(Worker& worker, std::int64_t split, std::int64_t block);
  /// Slots a query: those of the plan, but floats, which can tell more rows apart, need fewer than bytes.
  std::int64_t capacity() const noexcept;
  /// Queries of a packed block: in pairs of floats all that meet at once, in pairs of bytes those that share a step. Else bytes join as many blocks
  /// of the plan, which are those of floats, as take the same place in the cache and leave each thread as much to do.
  static std::int64_t block_of(const Plan& plan, Precision precision) noexcept;
  /// Runs body(split, block, worker) over all of them.
  template <class Body>
  void each_block(const Body& body);
  void note_largest_rows();
  void filter_tiles();
  bool may_guess(std::int64_t tiles) const noexcept;
  void filter_groups();  // search.cpp
  /// Of few columns, and not every pair is asked for.
  bool grouped() const noexcept { return precision_ == Precision::canonical && plan_.groups; }
  void group_queries(const Points& queries);
  std::size_t given(std::int64_t query) const noexcept {
    return static_cast<std::size_t>(given_.empty() ? query : given_[static_cast<std::size_t>(query)]);
  }
  /// Rows that bytes cannot exclude are looked at again by their second bytes.
  bool looks_twice() const noexcept {
    return precision_ == Precision::int8 && plan_.second && !(transform().whole > 0) &&
           (!kept_ || chunk().second.present());
  }
  bool any_eligible(std::int64_t tile) const noexcept;
  void start_queries(const std::vector<float>* steps);
  void filter_pairs();  // pairs.cpp
  void turn_rows_to_queries();
  void pair_bytes(Worker& worker, std::int64_t block, std::int64_t facing);
  void meet_tiles(Worker& worker, std::int64_t tile, std::int64_t facing, bool both);
  void pair(Worker& worker, std::int64_t block, std::int64_t facing);
  void pair_panels(Worker& worker, std::int64_t block, std::int64_t facing, std::int64_t panel, std::int64_t panels,
                   FilterTask& other);
  void scan_canonical();
  std::int64_t write_row(std::int64_t query, const NeighborsView& out, Worker& worker);
  void start_matches();
  /// A query over all splits; fills its bounds.
  struct Totals {
    double settled = infinite;
    bool abandoned = false;
    std::int64_t passed = 0, ranked = 0;
  };
  Totals totals(std::int64_t query, const BoundsView& bounds);
  /// The entry's key is nothing though its distance is not; throws RangeError for one that is infinite.
  bool underflowed(const Entry& entry, std::int64_t query, Ranker& ranker, bool& started);

  const Kernels& kernels_;
  const Int8Kernels* bytes_;  // null but on the int8 precision
  Precision precision_;
  const SearchSpec& spec_;
  const Plan& plan_;
  std::shared_ptr<const CpuPreparedCorpus> kept_;
  ThreadPool& thread_pool_;
  Stats& stats_;
  Transform transform_;
  std::unique_ptr<BoundModel> model_;  // null on the canonical precision
  PackedRows streamed_;
  Points query_points_;
  std::vector<std::int64_t> rows_;   // of the queries, in the session's order
  std::vector<std::int64_t> given_;  // where each of them was in the batch; empty: there
  Buffer<double> group_queries_;     // where rows are in groups: [query][width]
  PackedQueries queries_;
  std::vector<QueryState> states_;
  FilterNorms largest_rows_;  // maxima over every chunk seen, for the certificate
  Buffer<Slot> slots_;
  Buffer<Entry> entries_;
  std::vector<Matches> matches_;  // of a range search, as states_
  std::vector<Place> places_;     // of its queries that were lost once
  Room room_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<bool> missed_{false};  // a guess was too low; it decides about time alone
};

}  // namespace vicinal::cpu
