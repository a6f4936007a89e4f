// The calls of the module whose results are graphs or of differing lengths: knn_graph, range_search, their plans.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_graph_range(nanobind::module_& m);

}  // namespace vicinal::python
