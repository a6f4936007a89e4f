// Plans the memory of building and searching an index before they start: as many threads, and as many queries at a
// time, as the budget allows.
#pragma once
#include "permutation/search.hpp"

namespace vicinal {

/// For objects that have `object_bytes` of their own. Throws MemoryBudget.
PermutationPlan plan_build(std::int64_t objects, std::int64_t object_bytes, const PermutationOptions& options,
                           const Resolved& run);

/// `rows` queries of a search that was judged. radius: of a range search, else null. device: ranks are compared there,
/// not here.
PermutationPlan plan_search(const PermutationIndex::State& state, const PermutationSearch& search, std::int64_t rows,
                            std::int64_t k, const double* radius, const Resolved& run, bool device);

}  // namespace vicinal
