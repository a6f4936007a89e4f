// The search loop, for knn, Corpus and everything built on them.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/search.hpp"

namespace vicinal {

/// Arguments were checked. kept: null, or the whole corpus in the backend's form.
Report search(const NeighborsView& out, const Question& question, const Points& queries, const Plan& plan,
              std::shared_ptr<const Kept> kept, const KnnOptions& options);

/// Checks `out` against what the search will write.
void check_out(const NeighborsView& out, const Points& queries, const KnnOptions& options, DistanceType type);

}  // namespace vicinal
