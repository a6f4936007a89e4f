// Which session a device opens for a search, and whether any: by the
// filters that it has, and by what was kept. Tests open theirs by it too.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/search/filter/self_test.cuh"
#include "cuda/search/fused_session.hpp"
#include "cuda/search/rerank/labels.cuh"
#include "cuda/search/seconds.hpp"
#include "cuda/search/session.hpp"

namespace vicinal::cuda {

/// The filters of one device: those that it has code of, and which of them passed their test. runtime outlives it.
template <SearchDeviceRuntime Runtime>
class DeviceFilters {
 public:
  /// name: of the device, for notes. shared_bytes: that a block may have.
  DeviceFilters(Runtime& runtime, std::string name, std::int64_t shared_bytes)
      : runtime_(runtime), name_(std::move(name)), shared_bytes_(shared_bytes) {}

  const std::string& name() const noexcept { return name_; }
  std::int64_t shared_bytes() const noexcept { return shared_bytes_; }
  /// Whether a precision's arithmetic is what the proof believes; tried once.
  bool holds_up(Precision precision) { return tested().holds_up(precision); }
  /// Kernels that have code here and passed their test.
  const FilterSet& filters() { return tested().filters; }
  bool has_room(Precision precision, const SearchSpec& spec, const Plan& plan) {
    return filter_refusal("", filters(), precision, filter_sum_of(spec.metric), spec.corpus.cols, plan.instruction_set,
                          shared_bytes_)
        .empty();
  }
  /// The kernel of the plan's instruction set, or what is taken for it where it failed its test.
  const FilterKernel& planned(Precision precision, Sum sum, const Plan& plan) const {
    return *filter_kernel(runtime_.filters(), precision, sum, plan.instruction_set);
  }
  const FilterKernel& taken(Precision precision, Sum sum, const Plan& plan) {
    return *filter_kernel(filters(), precision, sum, plan.instruction_set);
  }
  /// Whether a precision that the plan did not begin with has memory for its rows, and takes less time to prepare than
  /// the last one to rank what is left.
  bool escalates(const SearchSpec& spec, const Plan& plan, Precision precision) const {
    const std::int64_t rows = std::min(plan.corpus_chunk, spec.corpus.rows), dims = spec.corpus.cols;
    const Shape shape{rows, dims, spec.corpus.dtype};
    if (matrix_bytes(rows, shape, spec.metric, precision, false) +
            matrix_bytes(plan.query_batch, shape, spec.metric, precision, true) >
        runtime_.free_bytes() / 2)
      return false;
    const Shape here{spec.corpus.rows, dims, spec.corpus.dtype, true};
    return ranked_sooner_on(
        precision, plan,
        {.corpus = here, .queries = {plan.query_batch, dims, here.dtype, true}, .metric = spec.metric, .k = spec.k});
  }

 private:
  const SelfTest& tested() {
    std::call_once(once_, [this] { tested_ = self_test(runtime_); });
    return tested_;
  }

  Runtime& runtime_;
  std::string name_;
  std::int64_t shared_bytes_;
  std::once_flag once_;
  SelfTest tested_;
};

/// Whether the device searches by the precision at all. Notes say where that is for a failed test.
template <SearchDeviceRuntime Runtime>
bool opens(DeviceFilters<Runtime>& device, const SearchSpec& spec, const Plan& plan, Precision precision,
           const CudaPreparedCorpus<Runtime>* kept, Stats& stats) {
  if (!has_filter(precision)) return true;
  const bool labelled = spec.filter.view().row_labels != nullptr && !spec.radius;
  if ((labelled && !labels_leave_few(spec)) || spec.k > most_filtered_k) return false;
  // Rows with more equals than the longest list that was thought
  // of, of which others may answer: the rows themselves are needed.
  const bool some_left_out =
      kept != nullptr && kept->transform.duplicates &&
      (spec.radius || spec.k > prepared_duplicates || (!spec.filter.all() && !spec.filter.only_self()));
  if (filter_precision(precision).prepared && kept != nullptr && (!kept->packed || some_left_out)) return false;
  if (!device.has_room(precision, spec, plan)) return false;
  // stats say so from the first session on; another one may follow, where memory was refused.
  const Sum sum = filter_sum_of(spec.metric);
  const FilterKernel &planned = device.planned(precision, sum, plan), &taken = device.taken(precision, sum, plan);
  if (&planned != &taken && stats.instruction_set != taken.instruction_set) {
    stats.notes.push_back(cat(device.name(), " failed its self-test of ", planned.instruction_set, ": filter ",
                              precision_name(precision), " multiplies by ", taken.instruction_set, " there"));
    stats.instruction_set = taken.instruction_set;
  }
  if (!device.holds_up(precision)) {
    stats.notes.push_back(
        cat(device.name(), " failed its self-test: filter ", precision_name(precision), " is not used there"));
    return false;
  }
  return !in_floats(precision) || precision_name(precision) == plan.cascade.front() ||
         device.escalates(spec, plan, precision);
}

/// The session of few queries, or the usual one. device: with the filters that passed.
template <SearchDeviceRuntime Device>
std::unique_ptr<Session> session_of(Device& device, const SearchSpec& spec, const Plan& plan, Precision precision,
                                    std::shared_ptr<const CudaPreparedCorpus<Device>> kept, std::int64_t shared_bytes,
                                    ThreadPool& thread_pool, Stats& stats) {
  if (runs_fused(device, spec, plan, precision, kept.get(), shared_bytes))
    return std::make_unique<FusedSession<Device>>(device, spec, plan, precision, std::move(kept), thread_pool, stats);
  return std::make_unique<CudaSession<Device>>(device, spec, plan, precision, std::move(kept), thread_pool, stats);
}

}  // namespace vicinal::cuda
