// An emulated device behind the seam, so that a test searches as a caller does: it proposes, chooses sessions and escalates by the code of the real one.
#pragma once
#include <atomic>
#include <mutex>

#include "cuda/search/open.hpp"
#include "cuda/search/propose.hpp"
#include "cuda/strings/search.hpp"
#include "unit/cuda/emulated_search.hpp"
#include "unit/idle_backend.hpp"

namespace emulated_search {

/// The emulator runs one kernel at a time: who holds this has it.
inline std::mutex emulator;

/// A session whose stages have the emulator for themselves, since several devices are driven from a thread each.
class OneAtATime final : public Session {
 public:
  /// answered_fused: it counts the batches that the kernels for few queries answered.
  OneAtATime(std::unique_ptr<Session> session, std::int64_t& answered_fused)
      : session_(std::move(session)), fused_(dynamic_cast<cuda::FusedSession<Device>*>(session_.get())),
        answered_fused_(answered_fused) {}
  void prepare_queries(const Points& queries, const QueryRows& rows) override {
    const std::lock_guard lock(emulator);
    session_->prepare_queries(queries, rows);
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override {
    const std::lock_guard lock(emulator);
    session_->prepare_corpus(first, count);
  }
  void filter() override {
    const std::lock_guard lock(emulator);
    session_->filter();
  }
  void select() override {
    const std::lock_guard lock(emulator);
    session_->select();
  }
  void rerank() override {
    const std::lock_guard lock(emulator);
    session_->rerank();
  }
  void finish(const NeighborsView& out, const BoundsView& bounds) override {
    const std::lock_guard lock(emulator);
    session_->finish(out, bounds);
    if (fused_ != nullptr && !fused_->left_to_usual()) ++answered_fused_;
  }
  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) override {
    const std::lock_guard lock(emulator);
    session_->counts(counts, overflowed);
  }
  void expect_corpus(std::int64_t first, std::int64_t count) override {
    const std::lock_guard lock(emulator);
    session_->expect_corpus(first, count);
  }
  void write_matches_to(const RangeView& out) override {
    const std::lock_guard lock(emulator);
    session_->write_matches_to(out);
  }
  void finish_range(const RangeView& out, const BoundsView& bounds) override {
    const std::lock_guard lock(emulator);
    session_->finish_range(out, bounds);
  }

 private:
  std::unique_ptr<Session> session_;
  const cuda::FusedSession<Device>* fused_;
  std::int64_t& answered_fused_;
};

/// What of src/cuda/backend.cu and src/cuda/search/search.cu asks the driver is answered here, and nothing else.
class EmulatedBackend final : public IdleBackend, StringBackend {
 public:
  /// capability: compute capability, 90 for 9.0. shared_bytes: that a block may have.
  EmulatedBackend(int ordinal, int capability, std::int64_t shared_bytes)
      : name_(cat("cuda:", ordinal)), filters_(device_, name_, shared_bytes) {
    device_.usable = cuda::built_filters("80-virtual,90a-real", capability);
    device_.shared_bytes = shared_bytes;
    facts_.name = name_;
    for (const cuda::FilterPrecision& row : cuda::filter_precisions) facts_.precisions.push_back(row.precision);
    facts_.instruction_sets = cuda::instruction_sets_of(device_.usable);
  }

  /// Rows of a chunk, and queries of a batch, that it has memory for.
  std::int64_t most_rows = INT64_MAX, most_queries = INT64_MAX;
  /// Slots that it proposes for candidates of a query: of few, some hundred rows pass in several parts.
  std::int64_t most_slots = INT64_MAX;
  /// Searches that it begins before it fails.
  mutable std::atomic<std::int64_t> left_before_failing{INT64_MAX};
  mutable std::int64_t queries_of_strings = 0;  // that it searched for

  const StringBackend* strings() const override { return this; }
  Device& runtime() const { return device_; }
  std::int64_t answered_fused() const { return answered_fused_; }

 private:
  const Facts& facts() const override { return facts_; }
  std::string description() const override { return "emulated"; }
  std::int64_t free_bytes() const override { return device_.free_bytes(); }
  bool holds(const void* memory) const override { return memory != nullptr && device_.holds(memory); }

  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    Proposal proposal = cuda::propose(name_, INT64_MAX, problem, run, proof, [&](Precision precision) {
      return cuda::filter_refusal(name_, device_.usable, precision, filter_sum_of(problem.metric), problem.corpus.cols,
                                  run.instruction_set, device_.shared_bytes);
    });
    proposal.slots = std::min(proposal.slots, most_slots);
    proposal.float_slots = std::min(proposal.float_slots, most_slots);
    return proposal;
  }
  double seconds(const SearchPlan& plan, const ProblemShape& problem) const override {
    return cuda::search_seconds(plan, problem);
  }
  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    if (std::min(plan.corpus_chunk, problem.corpus.rows) > most_rows || plan.query_batch > most_queries)
      return std::int64_t{1} << 40;
    return problem.range ? cuda::range_bytes(plan, problem, device_.multiprocessors)
                         : cuda::session_bytes(plan, problem, 1, device_.multiprocessors, device_.packed_rows);
  }
  std::int64_t prepared_bytes(const ProblemShape& problem, const SearchPlan& plan) const override {
    return cuda::matrix_bytes(problem.corpus.rows, problem.corpus, problem.metric,
                              cuda::prepared_precision(precision_of(plan.cascade.front())), false);
  }
  std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const SearchPlan& plan,
                                                       ThreadPool& thread_pool) const override {
    const std::lock_guard lock(emulator);
    return cuda::CudaSession<Device>::keep(device_, spec, plan, thread_pool);
  }
  std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                Stats& stats) const override {
    fail_in_time();
    const std::lock_guard lock(emulator);
    auto own = std::static_pointer_cast<const cuda::CudaPreparedCorpus<Device>>(std::move(kept));
    if (!cuda::opens(filters_, spec, plan, precision, own.get(), stats)) return nullptr;
    auto session =
        cuda::session_of(device_, spec, plan, precision, std::move(own), device_.shared_bytes, thread_pool, stats);
    return std::make_unique<OneAtATime>(std::move(session), answered_fused_);
  }

  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric, std::int64_t, bool) const override {
    plan.corpus_chunk = sizes.rows;
    plan.query_batch = plan.query_block = 16;
    return 0;
  }
  StringShare share_strings(const StringSearchSpec& spec) const override { return cuda::share_of_strings(spec); }
  std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                              ThreadPool& thread_pool, Stats&) const override {
    fail_in_time();
    const std::lock_guard lock(emulator);
    queries_of_strings += spec.query_end() - spec.first_query;
    emulated::Device device;
    return cuda::StringsSearch<emulated::Device>(device, spec, thread_pool, plan.query_batch).run(answer);
  }

  void fail_in_time() const {
    if (left_before_failing.fetch_sub(1) <= 0) fail(ErrorCode::device_error, "an illegal address was read");
  }

  std::string name_;
  Facts facts_;
  mutable Device device_;
  mutable cuda::DeviceFilters<Device> filters_;
  mutable std::int64_t answered_fused_ = 0;
};

}  // namespace emulated_search
