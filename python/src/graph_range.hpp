// The calls of the module whose results are graphs or of differing lengths: knn_graph, range_search, their plans.
#pragma once
#include <nanobind/nanobind.h>

#include <string>

#include "vicinal/search.hpp"

namespace vicinal::python {

/// "union" or "mutual".
Symmetrize parse_symmetrize(const std::string& name);

void bind_graph_range(nanobind::module_& m);

}  // namespace vicinal::python
