// Strings on the current device, for the backend.
#pragma once
#include "backend/strings.hpp"
#include "core/parallel.hpp"
#include "cuda/select/run.hpp"

namespace vicinal::cuda {

/// These are StringBackend::share_strings and search_strings. The search throws OutOfMemory, DeviceError.
StringShare share_strings(const StringSearchSpec& spec);
std::int64_t search_strings(const StringSearchSpec& spec, const StringAnswer& answer, ThreadPool& thread_pool,
                            const DeviceContext& context);

}  // namespace vicinal::cuda
