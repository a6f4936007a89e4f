// The permutation index on the current device, for the backend.
#pragma once
#include <memory>

#include "backend/ranks.hpp"
#include "cuda/select/run.hpp"

namespace vicinal::cuda {

/// These are RankBackend::keep_ranks, measures and search_ranks. They throw OutOfMemory, DeviceError.
std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                                                 const MeasuredRows* rows, const DeviceContext& context);
bool measures(const PreparedCorpus& kept, std::int64_t k);
bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                  const NearestAnswer& nearest, ThreadPool& thread_pool, const DeviceContext& context);

}  // namespace vicinal::cuda
