// Strings on the current device, for the backend.
#pragma once
#include "backend/strings.hpp"
#include "core/parallel.hpp"
#include "cuda/select/run.hpp"

namespace vicinal::cuda {

/// As Backend::share_strings and search_strings. The search throws OutOfMemory, DeviceError.
StringShare share_strings(const StringQuestion& question);
std::int64_t search_strings(const StringQuestion& question, const StringAnswer& answer, Team& team, const Place& place);

}  // namespace vicinal::cuda
