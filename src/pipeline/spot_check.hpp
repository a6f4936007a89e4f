// SPOT CHECK: an answer against the contract by other means than those that made it. Costs some 32 distances a query,
// so it is for debug builds, which always make it, and for tests, which ask for it by VICINAL_SPOT_CHECK=1.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "backend/backend.hpp"

namespace vicinal {

/// Whether searches of this thread check their answers now.
bool spot_checks();

/// None of these is in memory of the device that searched, where the check cannot look.
inline bool on_host(const Backend& backend, std::initializer_list<const void*> arrays) {
  return std::none_of(arrays.begin(), arrays.end(), [&](const void* array) { return backend.device().holds(array); });
}

/// Throws Internal for a list that does not hold the rows that it must: as many as are needed, distinct, of the corpus,
/// eligible, in the total order, with padding after them; or for one of 32 random rows that is nearer than the last of
/// the list and missing, or listed at another distance. Their distances are ranked by the plainest code, all in
/// canonical order. `out`, corpus and queries are in the host's memory.
void spot_check(const NeighborsView& out, const SearchSpec& spec, const Points& queries);

/// The same for a range search: every row of a list is within the radius, and none of the 32 that is within it is
/// missing.
void spot_check(const CsrNeighbors& out, const SearchSpec& spec, const Points& queries);

}  // namespace vicinal
