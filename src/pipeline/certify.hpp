// CERTIFY: is it proved that nothing that was left out belongs in the answer?
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/parallel.hpp"

namespace vicinal {

/// Rows that query `row` must be answered with: k of them, or all that are eligible where those are fewer.
inline std::int64_t needed_rows(const SearchSpec& spec, std::int64_t row) noexcept {
  return spec.filter.all() ? spec.k : std::min(spec.k, spec.filter.count(row));
}

/// For query i of the batch (row rows[i] of out): bounds.verified_radius[i] says that every row whose key is at most
/// that was ranked canonically. The answer is proved when it holds every row that it needs and the last of them has a
/// key that is not above it. Returns the rows whose answers are not, in any order.
std::vector<std::int64_t> certify(const NeighborsView& out, const SearchSpec& spec, const QueryRows& rows,
                                  const BoundsView& bounds, ThreadPool& thread_pool);

}  // namespace vicinal
