// Searches of an index with its ranks on a device: the host tells the queries' orders, the device the candidates, and what it cannot
// measure is measured here.
#pragma once
#include <string>

#include "backend/backend.hpp"
#include "permutation/search.hpp"

namespace vicinal {

/// What a backend keeps of an index. The first search through it takes it there.
KeptOn kept_on(const PermutationIndex::State& state, const Backend& backend);

/// Why the search is the host's and not the backend's; empty where it is not.
std::string host_reason(const Backend& backend, const PermutationIndex::State& state, bool exact);

/// Answers are called from any thread of the thread_pool.
IndexCounts search_on(const Backend& backend, const PermutationIndex::State& state, const Queries& queries,
                      const IndexSearchSpec& spec, ThreadPool& thread_pool, const IndexSearch::Answer& answer);

}  // namespace vicinal
