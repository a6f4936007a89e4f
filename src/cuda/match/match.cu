// Matching with the runtime.
#include "cuda/match/match.hpp"

#include "cuda/device/runtime.hpp"
#include "cuda/match/search.hpp"

namespace vicinal::cuda {
namespace {

constexpr RuntimeTexts texts{"copying images or matches", "waiting for the matching",
                             "match fewer pairs at a time, or with device=cpu"};
constexpr std::int64_t most_batch_bytes = std::int64_t{2} << 30;

/// The runtime with copies beside later launches.
class MatchRuntime : public Runtime {
 public:
  using Runtime::Runtime;
  ~MatchRuntime() {
    if (beside_ != nullptr) cudaStreamDestroy(beside_);
    for (const cudaEvent_t event : marks_)
      if (event != nullptr) cudaEventDestroy(event);
  }
  /// out_beside() brings what launches up to mark() of the same slot, 0 or 1, have made, while the device runs those
  /// since. Returns when it is there.
  void mark(int slot) {
    if (beside_ == nullptr) check(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), texts.copying);
    cudaEvent_t& event = marks_[slot];
    if (event == nullptr) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), texts.copying);
    check(cudaEventRecord(event, stream_), texts.copying);
  }
  void out_beside(int slot, void* to, const void* from, std::int64_t bytes) {
    check(cudaStreamWaitEvent(beside_, marks_[slot], 0), texts.copying);
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, beside_), texts.copying);
    check(cudaStreamSynchronize(beside_), texts.waiting);
  }
  /// Copies pieces of the size up to which the host does not wait for what the device has still to do.
  void in_at_once(std::byte* to, const std::byte* from, std::int64_t bytes) {
    constexpr std::int64_t piece = std::int64_t{64} << 10;
    for (std::int64_t at = 0; at < bytes; at += piece) in(to + at, from + at, std::min(piece, bytes - at));
  }

 private:
  cudaStream_t beside_ = nullptr;
  cudaEvent_t marks_[2] = {};
};

}  // namespace

bool match_pairs(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool,
                 const DeviceContext& context, std::int64_t shared_bytes) {
  const Pool::Call call(context.pool, cudaStreamPerThread);
  MatchRuntime runtime(context, texts, false, spec.search.stream);
  bool read = true;
  for (const Points& image : spec.images) read = read && !runtime.holds(image.data);
  const std::optional<ByteMatching> matching = byte_matching(spec, read);
  if (!matching || match_width(*matching) > most_match_width || match_memory(match_width(*matching)).all > shared_bytes)
    return false;
  const std::int64_t free = runtime.free_bytes(), batch = std::min(free / 8, most_batch_bytes);
  MatchSearch<MatchRuntime>(runtime, spec, *matching, thread_pool, context.multiprocessors, (free - 2 * batch) / 10 * 8,
                            batch)
      .run(answer);
  return true;
}

}  // namespace vicinal::cuda
