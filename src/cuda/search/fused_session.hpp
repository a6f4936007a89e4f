// The session of a few queries against a kept corpus: one launch and one wait. What its kernel cannot answer, bad rows
// among it, goes through the usual session from the beginning.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/search/fused/search.cuh"
#include "cuda/search/fused/workspace.hpp"
#include "cuda/search/output/results.hpp"
#include "cuda/search/session.hpp"

namespace vicinal::cuda {

/// Whether a search against a kept corpus is one of few queries,
/// short lists and narrow rows, of whose rows all may answer.
template <SearchDeviceRuntime Device>
bool runs_fused(const Device& device, const SearchSpec& spec, const Plan& plan, Precision precision,
                const CudaPreparedCorpus<Device>* kept, std::int64_t shared_bytes) {
  return kept != nullptr && kept->packed && precision == Precision::int8 && has_products(filter_sum_of(spec.metric)) &&
         !spec.radius && has_fused_shape(plan.query_batch, spec.k, spec.corpus.rows, spec.corpus.cols) &&
         spec.type == DistanceType::f32 && !wide_words(spec.type, spec.corpus.rows, device.packed_rows) &&
         spec.filter.all() && !spec.filter.only_self() && kept->transform.usable &&
         fused_bounds(kept->buffers.matrix.tiles(), device.multiprocessors) >= spec.k &&
         fused_memory(128).all <= shared_bytes;
}

template <SearchDeviceRuntime Device>
class FusedSession final : public Session {
 public:
  FusedSession(Device& device, const SearchSpec& spec, const Plan& plan, Precision precision,
               std::shared_ptr<const CudaPreparedCorpus<Device>> kept, ThreadPool& thread_pool, Stats& stats)
      : device_(device), spec_(spec), plan_(plan), precision_(precision), kept_(std::move(kept)),
        thread_pool_(thread_pool), stats_(stats) {}

  void prepare_queries(const Points& queries, const QueryRows& rows) override {
    queries_ = queries;
    numbers_ = rows;
  }
  void prepare_corpus(std::int64_t first, std::int64_t count) override { usual().prepare_corpus(first, count); }
  void filter() override {}
  void select() override {}
  void rerank() override {}
  void finish(const NeighborsView& out, const BoundsView& bounds) override {
    if (numbers_.empty() || answered(out, bounds)) return;
    usual().prepare_queries(queries_, numbers_);
    usual().filter();
    usual().select();
    usual().rerank();
    usual().finish(out, bounds);
  }
  // Ranges are never of few queries.
  void counts(std::span<std::int64_t> counts, std::vector<bool>& overflowed) override {
    usual().counts(counts, overflowed);
  }
  void write_matches_to(const RangeView& out) override { usual().write_matches_to(out); }
  void finish_range(const RangeView& out, const BoundsView& bounds) override { usual().finish_range(out, bounds); }

  /// It tells whether the usual session answered a call.
  bool left_to_usual() const noexcept { return usual_.has_value(); }

 private:
  FusedWorkspaces<Device>& workspaces() const {
    const std::lock_guard lock(kept_->mutex);
    if (!kept_->workspaces) kept_->workspaces = std::make_shared<FusedWorkspaces<Device>>(kept_->device);
    return *static_cast<FusedWorkspaces<Device>*>(kept_->workspaces.get());
  }
  Session& usual() {
    if (!usual_) usual_.emplace(device_, spec_, plan_, precision_, kept_, thread_pool_, stats_);
    return *usual_;
  }

  /// The queries dense on the device; null where the usual session has words for them.
  const void* queries_on_device(const FusedWorkspace<Device>& space) {
    const auto count = static_cast<std::int64_t>(numbers_.size()),
               size = static_cast<std::int64_t>(dtype_size(queries_.dtype)), row = queries_.cols * size;
    const Points asked = queries_.slice(numbers_.front(), count);
    const bool dense = asked.col_stride == size && (asked.row_stride == row || count < 2) && !asked.byte_swapped;
    if (device_.holds(asked.data)) return dense ? asked.data : nullptr;
    if (dense) {
      std::memcpy(space.host_queries(), asked.data, static_cast<std::size_t>(count * row));
      device_.in(space.device_queries(), space.host_queries(), count * row);
    } else {
      device_.rows_in(space.device_queries(), asked);
    }
    return space.device_queries();
  }

  /// False where a query is not proved, or not one of these kernels'.
  bool answered(const NeighborsView& out, const BoundsView& bounds) {
    const auto count = static_cast<std::int64_t>(numbers_.size());
    if (!numbers_.adjacent() || count > fused_queries || out.k != spec_.k || out.counts != nullptr) return false;
    thread_pool_.poll(0);
    auto space = workspaces().take();
    const void* const queries = queries_on_device(*space);
    if (queries == nullptr) {
      workspaces().give(std::move(space));
      return false;
    }
    const bool on_device = device_.holds(out.ids);
    FusedArgs fused = args(*space, queries);
    if (on_device) {
      fused.ids = out.ids + numbers_.front() * out.k;
      fused.distances = static_cast<float*>(out.distances) + numbers_.front() * out.k;
    }
    launch(fused);
    device_.wait();
    const bool proved = report(space->facts(), bounds, on_device);
    if (proved && !on_device) {
      std::memcpy(out.ids + numbers_.front() * out.k, space->ids(), static_cast<std::size_t>(count * out.k * 8));
      std::memcpy(static_cast<float*>(out.distances) + numbers_.front() * out.k, space->distances(),
                  static_cast<std::size_t>(count * out.k * 4));
    }
    workspaces().give(std::move(space));
    if (!proved) return false;
    if (bounds.found != nullptr) count_found(out, numbers_, on_device, bounds.found, thread_pool_);
    thread_pool_.poll(static_cast<std::uint64_t>(count * spec_.corpus.rows));
    return true;
  }

  FusedArgs args(const FusedWorkspace<Device>& space, const void* queries) const {
    const PreparedMatrix& rows = kept_->buffers.matrix;
    FusedArgs fused{.rows = rows,
                    .queries = queries,
                    .query_type = queries_.dtype,
                    .count = static_cast<int>(numbers_.size()),
                    .model = model_of(spec_.metric, spec_.type, spec_.corpus.cols, kept_->transform.scale, precision_),
                    .transform = kept_->transform,
                    .visits = visits_of(rows.tiles()),
                    .state = space.state()};
    fused.per_count = 1 / static_cast<double>(fused.visits.count);
    fused.k = static_cast<int>(spec_.k);
    fused.blocks =
        static_cast<int>(std::min<std::int64_t>({rows.tiles(), std::int64_t{device_.multiprocessors}, fused_blocks}));
    fused.first_id = spec_.first_id;
    fused.ids = space.ids();
    fused.distances = space.distances();
    fused.facts = space.facts();
    return fused;
  }

  void launch(const FusedArgs& fused) {
    const bool narrow = fused.rows.width == 64, one = fused.count <= 8;
    const auto kernel = narrow ? (one ? fused_search<64, 1> : fused_search<64, 2>)
                               : (one ? fused_search<128, 1> : fused_search<128, 2>);
    device_.launch()(fused.blocks, fused_block_threads, fused_memory(narrow ? 64 : 128).all, kernel, fused);
  }

  /// What certify asks of each query, and the counts; false where a flag
  /// is set. on_device: the answer is, where certify does not see it.
  bool report(const FusedFacts* facts, const BoundsView& bounds, bool on_device) {
    const std::size_t count = numbers_.size();
    if (std::any_of(facts, facts + count, [](const FusedFacts& one) { return one.flags != 0; })) return false;
    for (std::size_t i = 0; i < count; ++i) {
      bounds.verified_radius[i] = on_device ? infinite : facts[i].verified_radius;
      bounds.largest[i] = facts[i].largest;
    }
    stats_.candidates += static_cast<std::int64_t>(facts[0].candidates);
    stats_.reranked += static_cast<std::int64_t>(facts[0].candidates);
    return true;
  }

  Device& device_;
  const SearchSpec& spec_;
  const Plan& plan_;
  Precision precision_;
  std::shared_ptr<const CudaPreparedCorpus<Device>> kept_;
  ThreadPool& thread_pool_;
  Stats& stats_;
  Points queries_;
  QueryRows numbers_;
  std::optional<CudaSession<Device>> usual_;
};

}  // namespace vicinal::cuda
