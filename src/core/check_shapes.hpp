// Shapes and metrics that no search takes: what can be said of one side or two before anything is planned.
#pragma once
#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

// Each throws InvalidArgument or Unsupported as the table of bad inputs says.
void check_view(const Points& points, const char* side);
void check_shapes(const Shape& corpus, const Shape& queries, Metric metric);
/// It checks the corpus alone, before it is prepared.
void check_corpus(const Shape& corpus, Metric metric);
/// It checks a metric of strings, and rules that go with it.
void check_string_metric(Metric metric, const StringRules& rules);

inline Shape shape_of(const Points& points) { return {points.rows, points.cols, points.dtype}; }

}  // namespace vicinal
