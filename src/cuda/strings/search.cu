// The runtime for search.hpp: memory of the pool, copies and launches on a stream of this thread's own.
#include "cuda/strings/search.hpp"

#include "cuda/check.hpp"
#include "cuda/memory.hpp"
#include "cuda/select/launch.cuh"
#include "cuda/strings/strings.hpp"

namespace vicinal::cuda {
namespace {

class Runtime {
 public:
  explicit Runtime(const Place& place) : place_(place) {}

  void* take(std::int64_t bytes) {
    void* memory = place_.pool.take(bytes, stream_);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, cat("cuda:", place_.ordinal, " refused ", bytes_text(bytes), "; ", bytes_text(place_.pool.free_bytes()),
                                         " are free there; search fewer strings at a time, or with device=cpu"));
    return memory;
  }
  void give(void* memory) { place_.pool.give(memory, stream_); }
  void in(void* to, const void* from, std::int64_t bytes) {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_), "copying strings to the device");
  }
  void out(void* to, const void* from, std::int64_t bytes) {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_), "copying results to the host");
  }
  void zero(void* at, std::int64_t bytes) {
    check(cudaMemsetAsync(at, 0, static_cast<std::size_t>(bytes), stream_), "clearing counts");
  }
  void wait() { check(cudaStreamSynchronize(stream_), "waiting for the search of strings"); }
  CudaLaunch& launch() { return launch_; }

 private:
  const Place& place_;
  cudaStream_t stream_ = cudaStreamPerThread;
  CudaLaunch launch_{stream_};
};

}  // namespace

StringShare share_strings(const StringQuestion& question) { return share_of_strings(question); }

std::int64_t search_strings(const StringQuestion& question, const StringAnswer& answer, Team& team, const Place& place) {
  Runtime runtime(place);
  return StringsSearch<Runtime>(runtime, question, team).run(answer);
}

}  // namespace vicinal::cuda
