// Searches of a permutation index with the runtime.
#include "cuda/permutation/search.hpp"

#include "cuda/device/runtime.hpp"
#include "cuda/permutation/permutation.hpp"

namespace vicinal::cuda {
namespace {

constexpr RuntimeTexts texts{"copying ranks, rows or results", "waiting for the search of ranks",
                             "ask for fewer candidates, or search with device=cpu"};

/// With the runtime that its memory goes back to.
struct KeptHere final : PreparedCorpus {
  KeptHere(const DeviceContext& context, const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
           const MeasuredRows* rows)
      : runtime(context, texts), kept(runtime, ranks, permutants, rows) {}
  std::int64_t bytes() const override { return kept.bytes(); }
  Runtime runtime;
  PreparedRanks<Runtime> kept;
};

}  // namespace

std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                                                 const MeasuredRows* rows, const DeviceContext& context) {
  const Pool::Call call(context.pool, cudaStreamPerThread);
  Drain drain(cudaStreamPerThread);
  return given_back<KeptHere>(context, std::make_shared<const KeptHere>(context, ranks, permutants, rows));
}

bool measures(const PreparedCorpus& kept, std::int64_t k) {
  return static_cast<const KeptHere&>(kept).kept.measures(k);
}

bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                  const NearestAnswer& nearest, ThreadPool& thread_pool, const DeviceContext& context) {
  const Pool::Call call(context.pool, cudaStreamPerThread);
  Runtime runtime(context, texts);
  return RankSearch<Runtime>(runtime, spec, static_cast<const KeptHere&>(kept).kept, thread_pool)
      .run(candidates, nearest);
}

}  // namespace vicinal::cuda
