// Searches of vectors with the runtime: what one device's searches share, and sessions with that device made current.
#include "cuda/search/search.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>

#include "cuda/device/runtime.hpp"
#include "cuda/search/open.hpp"
#include "cuda/search/pilot.hpp"

namespace vicinal::cuda {

/// With what searches of vectors ask for besides.
class SearchRuntime : public Runtime {
 public:
  /// filters: that it may use.
  SearchRuntime(const DeviceContext& context, FilterSet filters, std::int64_t carved, void* after = nullptr)
      : Runtime(context, {"copying rows or results", "waiting for the search", "set a smaller memory budget"}, carved,
                after),
        filters_(std::move(filters)) {}

  static constexpr std::int64_t packed_rows = most_packed_rows;
  static constexpr SpeculationRule speculation = {};
  const FilterSet& filters() const noexcept { return filters_; }
  std::int64_t select_bytes(const SelectArgs& task) const { return select_workspace(task, multiprocessors); }
  void select(SelectArgs task, void* workspace) const {
    task.stream = stream_;
    run_select(task, workspace, multiprocessors);
  }

 private:
  FilterSet filters_;
};

class SearchDevice {
 public:
  SearchDevice(const DeviceContext& context, std::int64_t shared_bytes, int capability)
      : runtime_(context, built_filters(VICINAL_CUDA_ARCHITECTURES, capability), 0),
        filters_(runtime_, cat("cuda:", context.ordinal), shared_bytes) {}

  int ordinal() const noexcept { return runtime_.context().ordinal; }
  /// The runtime that prepared corpora are made with; a session has its own, whose small arrays are pieces of one.
  SearchRuntime& runtime() noexcept { return runtime_; }
  DeviceFilters<SearchRuntime>& filters() noexcept { return filters_; }
  /// Operations a second that the device's units for a filter can do at most.
  double peak(Precision precision, Sum sum) {
    std::call_once(asked_, [this] { ask_rates(); });
    const double bytes_a_clock = major_ == 9 ? 8192 : major_ == 8 && minor_ == 0 ? 4096 : 2048;
    const int element_bytes = filter_precision(precision).element_bytes;
    return clock_rate_ * runtime_.multiprocessors *
           (on_tensor_cores(precision, sum) ? bytes_a_clock / element_bytes : 512.0 / element_bytes);
  }
  /// Bytes a second of the device's memory at most.
  double memory_rate() {
    std::call_once(asked_, [this] { ask_rates(); });
    return memory_rate_;
  }

 private:
  /// Once: the driver takes half a millisecond to tell a clock.
  void ask_rates() {
    const auto attribute = [&](cudaDeviceAttr which) {
      int value = 0;
      check(cudaDeviceGetAttribute(&value, which, ordinal()), "asking what a device is");
      return value;
    };
    major_ = attribute(cudaDevAttrComputeCapabilityMajor);
    minor_ = attribute(cudaDevAttrComputeCapabilityMinor);
    clock_rate_ = attribute(cudaDevAttrClockRate) * 1e3;
    memory_rate_ = attribute(cudaDevAttrMemoryClockRate) * 2e3 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  }

  SearchRuntime runtime_;
  DeviceFilters<SearchRuntime> filters_;
  std::once_flag asked_;
  int major_ = 0, minor_ = 0;
  double clock_rate_ = 0, memory_rate_ = 0;
};

namespace {

/// How close a precision came to what the device can do, as a note of the report.
class Roofline {
 public:
  Roofline(SearchDevice& device, const SearchSpec& spec, Precision precision, Stats& stats)
      : device_(device), spec_(spec), precision_(precision), stats_(stats) {}
  using Clock = std::chrono::steady_clock;

  void start(std::int64_t pairs, std::int64_t rows) {
    pairs_ += static_cast<double>(pairs);
    rows_ += static_cast<double>(rows);
    start_ = Clock::now();
  }
  /// May be called again: then it counts from the last time.
  void stop() {
    const Clock::time_point now = Clock::now();
    seconds_ += std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }
  void note() {
    if (!has_filter(precision_) || seconds_ <= 0) return;
    const Sum sum = filter_sum_of(spec_.metric);
    const double peak = device_.peak(precision_, sum), dims = static_cast<double>(spec_.corpus.cols),
                 rate = 2 * pairs_ * dims / seconds_,
                 bytes = rows_ * static_cast<double>(filter_width(precision_, spec_.corpus.cols)) / seconds_;
    char text[256];
    std::snprintf(text, sizeof text,
                  "%s: %.4g T operations a second in filter, select and rerank, %.2g %% of the %.4g of %s; rows read "
                  "once, %.2g %% of the memory's %.3g TB/s",
                  precision_name(precision_).c_str(), rate / 1e12, 100 * rate / peak, peak / 1e12,
                  on_tensor_cores(precision_, sum) ? "the tensor cores"
                  : in_codes(precision_)           ? "differences of bytes"
                                                   : "single precision",
                  100 * bytes / device_.memory_rate(), device_.memory_rate() / 1e12);
    if (at_ < stats_.notes.size()) {
      stats_.notes[at_] = text;
    } else {
      at_ = stats_.notes.size();
      stats_.notes.emplace_back(text);
    }
  }

 private:
  SearchDevice& device_;
  const SearchSpec& spec_;
  Precision precision_;
  Stats& stats_;
  Clock::time_point start_;
  double pairs_ = 0, rows_ = 0, seconds_ = 0;
  std::size_t at_ = SIZE_MAX;
};

/// The stages with the device made current.
class OnItsDevice final : public Session {
 public:
  OnItsDevice(SearchDevice& device, const SearchSpec& spec, const Plan& plan, Precision precision,
              std::shared_ptr<const CudaPreparedCorpus<SearchRuntime>> kept, ThreadPool& thread_pool, Stats& stats)
      : ordinal_(device.ordinal()), pool_(device.runtime().context().pool), call_(pool_, cudaStreamPerThread),
        in_use_(pool_.use().now),
        runtime_(device.runtime().context(), has_filter(precision) ? device.filters().filters() : FilterSet{},
                 carved_by(plan, kept != nullptr), spec.stream),
        session_(session_of(runtime_, spec, plan, precision, std::move(kept), device.filters().shared_bytes(),
                            thread_pool, stats)),
        roofline_(device, spec, precision, stats), rows_(spec.corpus.rows), stats_(stats) {}
  ~OnItsDevice() override {
    const OnDevice here(ordinal_);
    runtime_.drain();  // before the prepared corpus and the caller's rows are let go
    session_.reset();
  }
  void prepare_queries(const Points& queries, const QueryRows& rows) override {
    const OnDevice here(ordinal_);
    queries_ = static_cast<std::int64_t>(rows.size());
    session_->prepare_queries(queries, rows);
  }
  void expect_corpus(std::int64_t first, std::int64_t count) override {
    const OnDevice here(ordinal_);
    session_->expect_corpus(first, count);
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override {
    const OnDevice here(ordinal_);
    rows_ = count;
    session_->prepare_corpus(first, count);
  }
  void filter() override {
    const OnDevice here(ordinal_);
    roofline_.start(queries_ * rows_, rows_);
    session_->filter();
  }
  void select() override {
    const OnDevice here(ordinal_);
    session_->select();
  }
  void rerank() override {
    const OnDevice here(ordinal_);
    session_->rerank();
    roofline_.stop();
  }
  void finish(const NeighborsView& out, const BoundsView& bounds) override {
    const OnDevice here(ordinal_);
    session_->finish(out, bounds);
    roofline_.stop();
    note();
  }
  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) override {
    const OnDevice here(ordinal_);
    session_->counts(counts, overflowed);
  }
  void write_matches_to(const RangeView& out) override {
    const OnDevice here(ordinal_);
    session_->write_matches_to(out);
  }
  void finish_range(const RangeView& out, const BoundsView& bounds) override {
    const OnDevice here(ordinal_);
    session_->finish_range(out, bounds);
    note();
  }

 private:
  /// All that a search of little against a kept corpus takes is one array.
  static std::int64_t carved_by(const Plan& plan, bool kept) {
    constexpr std::int64_t most = std::int64_t{256} << 20;
    return kept && plan.peak_bytes <= most ? std::max(plan.peak_bytes, Runtime::small_arrays + 1)
                                           : Runtime::small_arrays;
  }
  void note() {
    roofline_.note();
    const Pool::Use use = pool_.use();
    stats_.used_bytes = std::max(stats_.used_bytes, std::max(use.most, use.now) - in_use_);
  }

  int ordinal_;
  Pool& pool_;
  Pool::Call call_;
  std::int64_t in_use_;  // memory that others had before the session was made
  SearchRuntime runtime_;
  std::unique_ptr<Session> session_;
  Roofline roofline_;
  std::int64_t queries_ = 0, rows_;  // rows: of the chunk
  Stats& stats_;
};

}  // namespace

std::shared_ptr<SearchDevice> make_search_device(int ordinal, int multiprocessors, std::int64_t shared_bytes,
                                                 int capability, Pool& pool) {
  return std::make_shared<SearchDevice>(DeviceContext{ordinal, multiprocessors, pool}, shared_bytes, capability);
}

std::vector<std::string> compiled_instruction_sets() {
  return instruction_sets_of(compiled_filters(VICINAL_CUDA_ARCHITECTURES));
}
std::vector<std::string> search_instruction_sets(int capability) {
  return instruction_sets_of(built_filters(VICINAL_CUDA_ARCHITECTURES, capability));
}

std::string search_refusal(const std::string& name, int capability, Precision precision, Sum sum, std::int64_t cols,
                           const std::string& instruction_set, std::int64_t shared_bytes) {
  return filter_refusal(name, built_filters(VICINAL_CUDA_ARCHITECTURES, capability), precision, sum, cols,
                        instruction_set, shared_bytes);
}

std::int64_t search_bytes(const Plan& plan, const ProblemShape& problem, int multiprocessors) {
  if (problem.range) return range_bytes(plan, problem, multiprocessors);
  if (has_filter(precision_of(plan.cascade.front()))) return session_bytes(plan, problem, 0, multiprocessors);
  const std::int64_t rows = std::min(plan.corpus_chunk, problem.corpus.rows),
                     batch = std::max<std::int64_t>(plan.query_batch, 1);
  SelectArgs task;
  task.values =
      Values(nullptr, key_type(plan.distance_type), batch, problem.k + exhaustive_segment(batch, problem.k, rows));
  task.k = problem.k;
  return session_bytes(plan, problem, problem.k > 0 && rows > 0 ? select_workspace(task, multiprocessors) : 0,
                       multiprocessors);
}

std::int64_t search_prepared_bytes(const ProblemShape& problem, const Plan& plan) {
  return matrix_bytes(problem.corpus.rows, problem.corpus, problem.metric,
                      prepared_precision(precision_of(plan.cascade.front())), false);
}

std::shared_ptr<const PreparedCorpus> keep_corpus(SearchDevice& device, const SearchSpec& spec, const Plan& plan,
                                                  ThreadPool& thread_pool) {
  const DeviceContext& context = device.runtime().context();
  const Pool::Call call(context.pool, cudaStreamPerThread);
  Drain drain(cudaStreamPerThread);
  if (spec.stream != nullptr) order_streams(static_cast<cudaStream_t>(spec.stream), cudaStreamPerThread);
  return given_back(context, CudaSession<SearchRuntime>::keep(device.runtime(), spec, plan, thread_pool));
}

void sample_rows(SearchDevice& device, SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec) {
  const DeviceContext& context = device.runtime().context();
  const Pool::Call call(context.pool, cudaStreamPerThread);
  Drain drain(cudaStreamPerThread);
  if (spec.stream != nullptr) order_streams(static_cast<cudaStream_t>(spec.stream), cudaStreamPerThread);
  look_before(device.runtime(), plan, problem, spec);
}

std::unique_ptr<Session> open_search(SearchDevice& device, const SearchSpec& spec, const Plan& plan,
                                     Precision precision, std::shared_ptr<const PreparedCorpus> kept,
                                     ThreadPool& thread_pool, Stats& stats) {
  auto own = std::static_pointer_cast<const CudaPreparedCorpus<SearchRuntime>>(std::move(kept));
  if (!opens(device.filters(), spec, plan, precision, own.get(), stats)) return nullptr;
  return std::make_unique<OnItsDevice>(device, spec, plan, precision, std::move(own), thread_pool, stats);
}

}  // namespace vicinal::cuda
