// MERGE of lists that this process found itself.
#pragma once
#include <cstdint>
#include <span>

#include "core/function_ref.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/neighbors.hpp"

namespace vicinal {

/// It runs body(first, last) for runs of rows that have `entries` each, by up to so many threads of the host: lists of
/// a million rows, or of a thousand entries, take one thread longer than several devices take to find them.
void for_lists(std::int64_t rows, std::int64_t entries, int threads,
               FunctionRef<void(std::int64_t first, std::int64_t last)> body);
/// It writes the first out.k of all parts, as merge does with pad, for parts whose lists are in the total order,
/// missing entries last, and have no id in common: in O(k) a row for each part, where merge sorts and looks for
/// repeated ids. `out` is none of the parts. Rows and type of all are alike.
void merge_found(std::span<const NeighborsView> parts, Metric metric, const NeighborsView& out, int threads);

}  // namespace vicinal
