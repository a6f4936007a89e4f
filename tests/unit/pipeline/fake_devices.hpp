// Two CUDA devices made of the host's memory and the CPU's code, for what lies above the seam: who may read which memory, what is done
// when memory is refused, and what reaches a backend. They stand in for those of the machine as long as one of these objects lives.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "backend/devices.hpp"
#include "core/text.hpp"

namespace vicinal::fakes {

/// What the devices were told to do, and what they saw.
struct State {
  std::vector<std::pair<std::string_view, int>>
      memory;                           // bytes, and the ordinal of the device that they are said to be of
  std::int64_t query_bytes = 1000;      // that a query takes, beside the rows of the corpus
  std::int64_t most_bytes = INT64_MAX;  // more is refused
  std::atomic<int> refuse_after{-1};    // sessions refuse once after so many batches
  std::atomic<int> refused{0};
  std::vector<std::int64_t> batches;  // queries of each batch that was begun
  std::vector<void*> streams;         // of the specs
  void* capturing = nullptr;
  std::int64_t unused = 0;                // bytes that release_memory() gives back
  int failing = -1;                       // ordinal of the device that selections and searches of strings fail on
  std::string refusal;                    // why no algorithm takes a selection; empty: all do
  std::int64_t most_strings = INT64_MAX;  // queries that searches of strings take; the host has the others
  std::atomic<int> selections{0}, string_runs{0}, rank_runs{0};  // that devices were given

  /// Both devices add to the lists at once.
  template <class Value>
  void note(std::vector<Value>& list, Value value) {
    const std::lock_guard lock(mutex_);
    list.push_back(value);
  }

 private:
  std::mutex mutex_;
};

class FakeSession final : public Session {
 public:
  FakeSession(State& state, std::unique_ptr<Session> session, std::int64_t row_bytes)
      : state_(state), session_(std::move(session)), row_bytes_(row_bytes) {}
  void prepare_queries(const Points& queries, const QueryRows& rows) override {
    state_.note(state_.batches, static_cast<std::int64_t>(rows.size()));
    queries_ = static_cast<std::int64_t>(rows.size()) * state_.query_bytes;
    refuse(queries_ > state_.most_bytes);
    session_->prepare_queries(queries, rows);
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override {
    refuse(queries_ + count * row_bytes_ > state_.most_bytes);
    session_->prepare_corpus(first, count);
  }
  void filter() override { session_->filter(); }
  void select() override {
    refuse(state_.refuse_after-- == 0);  // in the middle of a batch
    session_->select();
  }
  void rerank() override { session_->rerank(); }
  void finish(const NeighborsView& out, const BoundsView& bounds) override { session_->finish(out, bounds); }
  void counts(std::span<std::int64_t> counts, std::vector<bool>& lost) override { session_->counts(counts, lost); }
  void write_matches_to(const RangeView& out) override { session_->write_matches_to(out); }
  void finish_range(const RangeView& out, const BoundsView& bounds) override { session_->finish_range(out, bounds); }

 private:
  void refuse(bool now) {
    if (!now) return;
    ++state_.refused;
    fail(ErrorCode::out_of_memory, "the fake device refused memory");
  }
  State& state_;
  std::unique_ptr<Session> session_;
  std::int64_t row_bytes_, queries_ = 0;
};

/// Ranks of an index, as a device keeps them.
struct KeptRanks final : PreparedCorpus {
  explicit KeptRanks(const RankRows& ranks) : ranks(ranks) {}
  std::int64_t bytes() const override { return ranks.count * ranks.stride; }
  RankRows ranks;
};

class FakeDevice final : public Backend, DeviceBackend, SearchBackend, SelectBackend, StringBackend, RankBackend {
 public:
  FakeDevice(State& state, int ordinal) : state_(state), ordinal_(ordinal), facts_(cpu_backend().device().facts()) {
    facts_.name = cat("cuda:", ordinal);
  }
  const DeviceBackend& device() const override { return *this; }
  const SearchBackend& search() const override { return *this; }
  const SelectBackend& select() const override { return *this; }
  const StringBackend* strings() const override { return this; }
  const RankBackend* ranks() const override { return this; }

 private:
  const Facts& facts() const override { return facts_; }
  std::string description() const override { return cpu_backend().device().description(); }
  std::int64_t free_bytes() const override { return cpu_backend().device().free_bytes(); }
  void check_instruction_set(const std::string& name) const override {
    cpu_backend().device().check_instruction_set(name);
  }
  bool holds(const void* memory) const override { return cuda_device(memory) == ordinal_; }
  int cuda_device(const void* memory) const override {
    for (const auto& [bytes, ordinal] : state_.memory)
      if (memory >= bytes.data() && memory < bytes.data() + bytes.size()) return ordinal;
    return -1;
  }
  void check_stream(void* stream) const override {
    if (stream != nullptr && stream == state_.capturing) fail(ErrorCode::unsupported, "the stream is capturing");
  }
  std::int64_t release_memory() const override { return std::exchange(state_.unused, 0); }

  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    return cpu_backend().search().propose(problem, run, proof);
  }
  double seconds(const SearchPlan& plan, const ProblemShape& problem) const override {
    return cpu_backend().search().seconds(plan, problem);
  }
  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    return plan.query_batch * state_.query_bytes +
           (problem.prepared ? 0 : std::min(plan.corpus_chunk, problem.corpus.rows) * row_bytes(problem.corpus));
  }
  std::int64_t prepared_bytes(const ProblemShape& problem, const SearchPlan& plan) const override {
    return cpu_backend().search().prepared_bytes(problem, plan);
  }
  std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const SearchPlan& plan,
                                                       ThreadPool& thread_pool) const override {
    state_.note(state_.streams, spec.stream);
    return cpu_backend().search().prepare_corpus(spec, plan, thread_pool);
  }
  std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                Stats& stats) const override {
    state_.note(state_.streams, spec.stream);
    auto session = cpu_backend().search().open(spec, plan, precision, std::move(kept), thread_pool, stats);
    return session ? std::make_unique<FakeSession>(state_, std::move(session),
                                                   row_bytes({.cols = spec.corpus.cols, .dtype = spec.corpus.dtype}))
                   : nullptr;
  }

  std::string select_refusal(const SelectProblem& /*problem*/) const override { return state_.refusal; }
  SelectStats select_k(const SelectProblem& problem) const override {
    ++state_.selections;
    fail_if_told();
    if (!state_.refusal.empty())
      fail(ErrorCode::invalid_argument, cat("no selection from ", problem.values.rows, " rows: ", state_.refusal));
    return cpu_backend().select().select_k(problem);
  }

  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k,
                             bool range) const override {
    return cpu_backend().strings()->shape_strings(plan, sizes, metric, k, range);
  }
  StringShare share_strings(const StringSearchSpec& spec) const override {
    return {std::min(state_.most_strings, spec.queries.count()), "long queries"};
  }
  std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                              ThreadPool& thread_pool, Stats& stats) const override {
    ++state_.string_runs;
    fail_if_told();
    return cpu_backend().strings()->search_strings(spec, plan, answer, thread_pool, stats);
  }

  std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>&,
                                                   const MeasuredRows*) const override {
    return std::make_shared<KeptRanks>(ranks);
  }
  bool measures(const PreparedCorpus&, std::int64_t) const override { return false; }  // candidates go back
  bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                    const NearestAnswer&, ThreadPool&) const override {
    ++state_.rank_runs;
    fail_if_told();
    const RankRows& objects = static_cast<const KeptRanks&>(kept).ranks;
    std::vector<std::uint32_t> found;
    for (std::int64_t q = 0; q < spec.queries.count; ++q) {
      std::vector<std::pair<std::int64_t, std::uint32_t>> scores;
      for (std::int64_t o = 0; o < objects.count; ++o) {
        std::int64_t footrule = 0;
        for (std::int64_t j = 0; j < objects.permutants; ++j)
          footrule += std::abs(spec.queries.ranks[q * spec.queries.stride + j] - objects.ranks[o * objects.stride + j]);
        scores.emplace_back(footrule, static_cast<std::uint32_t>(o));
      }
      std::sort(scores.begin(), scores.end());
      for (std::int64_t i = 0; i < spec.candidates; ++i) found.push_back(scores[static_cast<std::size_t>(i)].second);
    }
    candidates(0, spec.queries.count, found.data());
    return true;
  }

  void fail_if_told() const {
    if (state_.failing == ordinal_) fail(ErrorCode::device_error, "an illegal address was read");
  }
  static std::int64_t row_bytes(const Shape& rows) {
    return rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype));
  }
  State& state_;
  int ordinal_;
  Facts facts_;
};

/// Those that cuda_devices() answers with; null: the machine's own.
inline const CudaDevices*& shown() {
  static const CudaDevices* devices = nullptr;
  return devices;
}

class Devices : public State {
 public:
  Devices() { shown() = &devices_; }
  ~Devices() { shown() = nullptr; }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  template <class Items>
  void own(const Items& items, int ordinal) {
    memory.emplace_back(
        std::string_view(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(*items.data())), ordinal);
  }

 private:
  FakeDevice first_{*this, 0}, second_{*this, 1};
  CudaDevices devices_{{{&first_, ""}, {&second_, ""}}, ""};
};

}  // namespace vicinal::fakes
