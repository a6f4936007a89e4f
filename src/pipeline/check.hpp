// Arguments that no backend should ever see: checked once, before anything is planned.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// Throws InvalidArgument or Unsupported as the table of bad inputs says.
void check_shapes(const Shape& corpus, const Shape& queries, Metric metric);
void check_options(const Shape& corpus, const Shape& queries, const KnnOptions& options);
/// The corpus alone, before it is prepared.
void check_corpus(const Shape& corpus, Metric metric);
void check_view(const Points& points, const char* side);
/// All of the above for a search.
void check_search(const Points& corpus, const Points& queries, const KnnOptions& options);

inline Shape shape_of(const Points& points) { return {points.rows, points.cols, points.dtype}; }

}  // namespace vicinal
