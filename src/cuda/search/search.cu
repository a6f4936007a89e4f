// The runtime for session.hpp: memory of the pool, copies and launches on a stream of the calling thread's own.
#include "cuda/search/search.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>

#include "cuda/check.hpp"
#include "cuda/load.hpp"
#include "cuda/search/filter_hopper.cuh"
#include "cuda/search/self_test.cuh"
#include "cuda/search/session.hpp"
#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

class SearchDevice {
 public:
  SearchDevice(int ordinal, int sms, bool hopper, Pool& pool) : multiprocessors(sms), ordinal_(ordinal), hopper_(hopper), pool_(pool) {}

  int ordinal() const noexcept { return ordinal_; }
  bool has_hopper() const noexcept { return hopper_; }
  /// Whether a rung's arithmetic is what the proof believes; tried once.
  bool holds_up(Rung rung) {
    std::call_once(once_, [this] { tested_ = self_test(*this); });
    return rung == Rung::int8 ? tested_.bytes : rung == Rung::fp16 ? tested_.halves : rung != Rung::f32 || tested_.floats;
  }
  template <bool seeding>
  void hopper_filter(const Filter& f, std::int64_t grid) const {
    const std::int64_t width = f.job.rows.width;
    const auto kernel = width == 64 ? filter_hopper<64, false, seeding> : width == 128 ? filter_hopper<128, false, seeding> : filter_hopper<128, true, seeding>;
    launch()(grid, hopper_threads, hopper_memory(width == 64 ? 64 : 128, width > 128).all, kernel, f);
  }
  void* take(std::int64_t bytes) {
    void* memory = pool_.take(bytes, stream_);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, cat("cuda:", ordinal_, " refused ", bytes_text(bytes), "; ", bytes_text(pool_.free_bytes()),
                                         " are free there; set a smaller memory budget"));
    return memory;
  }
  void give(void* memory) {
    const OnDevice here(ordinal_);
    pool_.give(memory, stream_);
  }
  void in(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void out(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), "copying rows or results");
  }
  void zero(void* at, std::int64_t bytes) { check(cudaMemsetAsync(at, 0, static_cast<std::size_t>(bytes), stream_), "clearing counts"); }
  void wait() { check(cudaStreamSynchronize(stream_), "waiting for the search"); }
  CudaLaunch launch() const { return CudaLaunch{stream_}; }
  Pool::Use use() { return pool_.use(); }
  bool holds(const void* memory) const { return memory != nullptr && device_of(memory, ordinal_) >= 0; }
  void rows_in(std::byte* to, const Points& rows) {
    copy_in(to, {static_cast<const std::byte*>(rows.data), static_cast<std::int64_t>(dtype_size(rows.dtype)), rows.row_stride, rows.col_stride, rows.byte_swapped},
            0, rows.rows, rows.cols, stream_);
  }
  std::int64_t select_bytes(const SelectTask& task) const { return select_workspace(task, multiprocessors); }
  void select(SelectTask task, void* workspace) const {
    task.stream = stream_;
    run_select(task, workspace, multiprocessors);
  }
  /// Operations a second that the device's units for a rung can do at most; bytes a second of its memory (rung canonical).
  double peak(Rung rung) {
    std::call_once(asked_, [this] { ask_rates(); });
    const double bytes_a_clock = major_ == 9 ? 8192 : major_ == 8 && minor_ == 0 ? 4096 : 2048;
    if (rung == Rung::canonical) return memory_rate_;
    return clock_rate_ * multiprocessors * (rung == Rung::int8 ? bytes_a_clock : rung == Rung::fp16 ? bytes_a_clock / 2 : 128);
  }
  /// Whether a rung that the plan did not begin with has memory for its rows, and takes less time to prepare than the last one to rank what is left.
  bool climbs(const Question& question, const Plan& plan, Rung rung) const {
    const std::int64_t rows = std::min(plan.corpus_chunk, question.corpus.rows), dims = question.corpus.cols;
    const Shape shape{rows, dims, question.corpus.dtype};
    if (side_bytes(rows, shape, question.metric, rung, false) + side_bytes(plan.query_batch, shape, question.metric, rung, true) > pool_.free_bytes() / 2) return false;
    const double elements = static_cast<double>(question.corpus.rows) * static_cast<double>(dims), left = static_cast<double>(plan.query_batch);
    return left * (3.6e-11 * static_cast<double>(question.corpus.rows) + 7e-13 * elements) > 1e-3 + 4e-11 * elements;
  }
  int multiprocessors;

 private:
  /// Once: the driver takes half a millisecond to tell a clock.
  void ask_rates() {
    const auto attribute = [&](cudaDeviceAttr which) {
      int value = 0;
      check(cudaDeviceGetAttribute(&value, which, ordinal_), "asking what a device is");
      return value;
    };
    major_ = attribute(cudaDevAttrComputeCapabilityMajor);
    minor_ = attribute(cudaDevAttrComputeCapabilityMinor);
    clock_rate_ = attribute(cudaDevAttrClockRate) * 1e3;
    memory_rate_ = attribute(cudaDevAttrMemoryClockRate) * 2e3 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  }

  int ordinal_;
  bool hopper_;
  Pool& pool_;
  cudaStream_t stream_ = cudaStreamPerThread;
  std::once_flag once_, asked_;
  int major_ = 0, minor_ = 0;
  double clock_rate_ = 0, memory_rate_ = 0;
  SelfTest tested_;
};

namespace {

/// How close a rung came to what the device can do, as a note of the report.
class Roofline {
 public:
  Roofline(SearchDevice& device, const Question& question, Rung rung, Stats& stats) : device_(device), question_(question), rung_(rung), stats_(stats) {}
  using Clock = std::chrono::steady_clock;

  void start(std::int64_t pairs, std::int64_t rows) {
    pairs_ += static_cast<double>(pairs);
    rows_ += static_cast<double>(rows);
    start_ = Clock::now();
  }
  void stop() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  void note() {
    if (rung_ == Rung::canonical || seconds_ <= 0) return;
    const double dims = static_cast<double>(question_.corpus.cols), rate = 2 * pairs_ * dims / seconds_, bytes = rows_ * static_cast<double>(filter_width(rung_, question_.corpus.cols)) / seconds_;
    char text[256];
    std::snprintf(text, sizeof text, "%s: %.4g T operations a second in filter, select and rerank, %.2g %% of the %.4g of %s; rows read once, %.2g %% of the memory's %.3g TB/s",
                  rung_name(rung_).c_str(), rate / 1e12, 100 * rate / device_.peak(rung_), device_.peak(rung_) / 1e12,
                  rung_ == Rung::f32 ? "single precision" : "the tensor cores", 100 * bytes / device_.peak(Rung::canonical), device_.peak(Rung::canonical) / 1e12);
    if (at_ < stats_.notes.size()) {
      stats_.notes[at_] = text;
    } else {
      at_ = stats_.notes.size();
      stats_.notes.emplace_back(text);
    }
  }

 private:
  SearchDevice& device_;
  const Question& question_;
  Rung rung_;
  Stats& stats_;
  Clock::time_point start_;
  double pairs_ = 0, rows_ = 0, seconds_ = 0;
  std::size_t at_ = SIZE_MAX;
};

/// The stages with the device made current.
class OnItsDevice final : public Session {
 public:
  /// in_use: memory that others had before the session was made.
  OnItsDevice(SearchDevice& device, std::unique_ptr<Session> session, Roofline roofline, std::int64_t rows, std::int64_t in_use, Stats& stats)
      : device_(device), ordinal_(device.ordinal()), session_(std::move(session)), roofline_(std::move(roofline)), rows_(rows), in_use_(in_use), stats_(stats) {}
  ~OnItsDevice() override {
    const OnDevice here(ordinal_);
    session_.reset();
  }
  void prepare_queries(const Points& queries, std::span<const std::int64_t> rows) override {
    const OnDevice here(ordinal_);
    queries_ = static_cast<std::int64_t>(rows.size());
    session_->prepare_queries(queries, rows);
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
    note();
  }
  void counts(std::span<std::int64_t> counts, std::vector<bool>& lost) override {
    const OnDevice here(ordinal_);
    session_->counts(counts, lost);
  }
  void place(const RangeView& out) override {
    const OnDevice here(ordinal_);
    session_->place(out);
  }
  void finish_range(const RangeView& out, const BoundsView& bounds) override {
    const OnDevice here(ordinal_);
    session_->finish_range(out, bounds);
    note();
  }

 private:
  void note() {
    roofline_.note();
    const Pool::Use use = device_.use();
    stats_.used_bytes = std::max(stats_.used_bytes, std::max(use.most, use.now) - in_use_);
  }

  SearchDevice& device_;
  int ordinal_;
  std::unique_ptr<Session> session_;
  Roofline roofline_;
  std::int64_t queries_ = 0, rows_, in_use_;  // rows: of the chunk
  Stats& stats_;
};

}  // namespace

std::shared_ptr<SearchDevice> make_search_device(int ordinal, int multiprocessors, bool hopper, Pool& pool) {
  return std::make_shared<SearchDevice>(ordinal, multiprocessors, hopper, pool);
}

std::int64_t search_bytes(const Plan& plan, const Problem& problem, int multiprocessors) {
  if (problem.range) return range_bytes(plan, problem);
  if (plan.rungs.front() != rung_name(Rung::canonical)) return session_bytes(plan, problem, 0, multiprocessors);
  const std::int64_t rows = std::min(plan.corpus_chunk, problem.corpus.rows), batch = std::max<std::int64_t>(plan.query_batch, 1);
  SelectTask task;
  task.values = Values(nullptr, wide_keys(plan.distance_type) ? ValueType::f64 : ValueType::f32, batch, problem.k + scan_stretch(problem.k, rows));
  task.k = problem.k;
  return session_bytes(plan, problem, problem.k > 0 && rows > 0 ? select_workspace(task, multiprocessors) : 0, multiprocessors);
}

std::int64_t search_kept_bytes(const Problem& problem, const Plan& plan) {
  return side_bytes(problem.corpus.rows, problem.corpus, problem.metric, rung_of(plan.rungs.front()) == Rung::int8 ? Rung::int8 : Rung::canonical, false);
}

std::shared_ptr<const Kept> keep_corpus(SearchDevice& device, const Question& question, const Plan& plan, Team& team) {
  return CudaSession<SearchDevice>::keep(device, question, plan, team);
}

std::unique_ptr<Session> open_search(SearchDevice& device, const Question& question, const Plan& plan, Rung rung, std::shared_ptr<const Kept> kept,
                                     Team& team, Stats& stats) {
  auto own = std::static_pointer_cast<const CudaKept<SearchDevice>>(std::move(kept));
  const bool labelled = question.filter.view().row_labels != nullptr && !question.radius;
  if (rung != Rung::canonical && (labelled || question.k > most_filtered_k)) return nullptr;
  const bool some_left_out = own && own->frame.copies && !question.filter.all() && !question.filter.only_self();
  if (rung == Rung::int8 && own && (!own->packed || some_left_out)) return nullptr;
  if (rung != Rung::canonical && !device.holds_up(rung)) {
    stats.notes.push_back(cat("cuda:", device.ordinal(), " failed its self-test: filter ", rung_name(rung), " is not used there"));
    return nullptr;
  }
  if (in_floats(rung) && rung_name(rung) != plan.rungs.front() && !device.climbs(question, plan, rung)) return nullptr;
  const std::int64_t in_use = device.use().now;
  return std::make_unique<OnItsDevice>(device, std::make_unique<CudaSession<SearchDevice>>(device, question, plan, rung, std::move(own), team, stats),
                                       Roofline(device, question, rung, stats), question.corpus.rows, in_use, stats);
}

}  // namespace vicinal::cuda
