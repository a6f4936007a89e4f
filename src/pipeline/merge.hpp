// MERGE of lists that this process found itself.
#pragma once
#include <span>

#include "vicinal/metric.hpp"
#include "vicinal/neighbors.hpp"

namespace vicinal {

/// It writes the first out.k of all parts, as merge does with pad, for parts whose lists are in the total order, missing entries last, and have no id in common:
/// in O(k) a row for each part, where merge sorts and looks for repeated ids. `out` is none of the parts. Rows and type of all are alike.
void merge_found(std::span<const NeighborsView> parts, Metric metric, const NeighborsView& out);

}  // namespace vicinal
