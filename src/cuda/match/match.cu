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
  }
  /// end_out() brings what launches up to begin_out() have made, while the device runs those since. Returns when it is there.
  void begin_out() {
    if (beside_ == nullptr) check(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), texts.copying);
    order_streams(stream_, beside_);
  }
  void end_out(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, beside_), texts.copying);
    check(cudaStreamSynchronize(beside_), texts.waiting);
  }

 private:
  cudaStream_t beside_ = nullptr;
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
  const std::int64_t free = runtime.free_bytes(), batch = std::min(free / 4, most_batch_bytes);
  MatchSearch<MatchRuntime>(runtime, spec, *matching, thread_pool, context.multiprocessors, (free - batch) / 10 * 8,
                            batch)
      .run(answer);
  return true;
}

}  // namespace vicinal::cuda
