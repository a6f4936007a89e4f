// Searches of an index with its ranks on a device: the host tells the queries' orders, the device the candidates, and
// what it cannot measure is measured here. Several devices keep the ranks each, and take a share of the queries.
#pragma once
#include <string>

#include "backend/backend.hpp"
#include "permutation/search.hpp"
#include "pipeline/multi_device.hpp"

namespace vicinal {

/// Why the search is the host's and not the backend's; empty where it is not.
std::string host_reason(const Backend& backend, const PermutationIndex::State& state, bool exact);

/// It searches for queries [part.first, part.first + part.count). Answers are called from any thread of the
/// thread_pool.
IndexCounts search_on(const Backend& backend, const PermutationIndex::State& state, const Queries& queries,
                      DevicePart part, const IndexSearchSpec& spec, ThreadPool& thread_pool,
                      const IndexSearch::Answer& answer);
/// The same for all queries, of which each of several devices takes a share. search: whose progress and stop hold for
/// all of them.
IndexCounts search_on_devices(const Resolved& run, const PermutationIndex::State& state, const Queries& queries,
                              const IndexSearchSpec& spec, const PermutationSearch& search, ThreadPool& thread_pool,
                              const IndexSearch::Answer& answer);

}  // namespace vicinal
