// Matching on the current device, for the backend.
#pragma once
#include "backend/match.hpp"
#include "core/parallel.hpp"
#include "cuda/device/context.hpp"

namespace vicinal::cuda {

/// As MatchBackend::match. shared_bytes: that a block may have. Throws OutOfMemory, DeviceError, MemoryBudget.
bool match_pairs(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool,
                 const DeviceContext& context, std::int64_t shared_bytes);

}  // namespace vicinal::cuda
