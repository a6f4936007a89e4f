// The runtime for search.hpp: memory of the pool, copies and launches on a stream of the calling thread's own.
#include "cuda/permutation/search.hpp"

#include "cuda/check.hpp"
#include "cuda/load.hpp"
#include "cuda/memory.hpp"
#include "cuda/permutation/permutation.hpp"
#include "cuda/select/launch.cuh"

namespace vicinal::cuda {
namespace {

class Runtime {
 public:
  explicit Runtime(const Place& place) : multiprocessors(place.multiprocessors), place_(place) {}

  void* take(std::int64_t bytes) {
    void* memory = place_.pool.take(bytes, stream_);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, cat("cuda:", place_.ordinal, " refused ", bytes_text(bytes), "; ", bytes_text(place_.pool.free_bytes()),
                                         " are free there; ask for fewer candidates, or search with device=cpu"));
    return memory;
  }
  void give(void* memory) {
    const OnDevice here(place_.ordinal);
    place_.pool.give(memory, stream_);
  }
  void in(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void out(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), "copying ranks, rows or results");
  }
  void zero(void* at, std::int64_t bytes) { check(cudaMemsetAsync(at, 0, static_cast<std::size_t>(bytes), stream_), "clearing counts"); }
  void wait() { check(cudaStreamSynchronize(stream_), "waiting for the search of ranks"); }
  const CudaLaunch& launch() const { return launch_; }
  void rows_in(std::byte* to, const Points& rows) {
    copy_in(to, {static_cast<const std::byte*>(rows.data), static_cast<std::int64_t>(dtype_size(rows.dtype)), rows.row_stride, rows.col_stride, rows.byte_swapped},
            0, rows.rows, rows.cols, stream_);
  }
  std::int64_t free_bytes() const { return place_.pool.free_bytes(); }
  int multiprocessors;

 private:
  Place place_;
  cudaStream_t stream_ = cudaStreamPerThread;
  CudaLaunch launch_{stream_};
};

/// With the runtime that its memory goes back to.
struct KeptHere final : Kept {
  KeptHere(const Place& place, const RankRows& ranks, const std::vector<std::uint32_t>& permutants, const MeasuredRows* rows)
      : runtime(place), kept(runtime, ranks, permutants, rows) {}
  std::int64_t bytes() const override { return kept.bytes(); }
  Runtime runtime;
  KeptRanks<Runtime> kept;
};

}  // namespace

std::shared_ptr<const Kept> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants, const MeasuredRows* rows, const Place& place) {
  return std::make_shared<KeptHere>(place, ranks, permutants, rows);
}

bool measures(const Kept& kept, std::int64_t k) { return static_cast<const KeptHere&>(kept).kept.measures(k); }

bool search_ranks(const RankQuestion& question, const Kept& kept, const CandidatesAnswer& candidates, const NearestAnswer& nearest, Team& team,
                  const Place& place) {
  Runtime runtime(place);
  return RankSearch<Runtime>(runtime, question, static_cast<const KeptHere&>(kept).kept, team).run(candidates, nearest);
}

}  // namespace vicinal::cuda
