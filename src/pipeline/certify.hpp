// CERTIFY: is it proved that nothing that was left out belongs in the answer?
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"

namespace vicinal {

/// For query i of the batch (row rows[i] of out): settled[i] says that every row whose key is at most that was ranked
/// canonically. The answer is proved when the k-th returned key is not above it. Marks the rows that are not in `redo` and
/// returns how many. eligible: min(k, corpus rows).
std::int64_t certify(const NeighborsView& out, std::int64_t eligible, Metric metric, std::span<const std::int64_t> rows,
             std::span<const double> settled, std::vector<bool>& redo);

}  // namespace vicinal
