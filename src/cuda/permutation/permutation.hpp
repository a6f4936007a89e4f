// The permutation index on the current device, for the backend.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "cuda/select/run.hpp"

namespace vicinal::cuda {

/// As Backend::keep_ranks, measures and search_ranks. They throw OutOfMemory, DeviceError.
std::shared_ptr<const Kept> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                                       const MeasuredRows* rows, const Place& place);
bool measures(const Kept& kept, std::int64_t k);
bool search_ranks(const RankQuestion& question, const Kept& kept, const CandidatesAnswer& candidates,
                  const NearestAnswer& nearest, Team& team, const Place& place);

}  // namespace vicinal::cuda
