// The calls of the module whose results are graphs or of differing lengths: knn_graph, range_search, their plans.
#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>

#include "call.hpp"
#include "vicinal/search.hpp"

namespace vicinal::python {

namespace nb = nanobind;

GraphOptions graph_options(const Options& options, bool include_self, Progress progress = nullptr);

/// The graph that `search` finds without the GIL, as it is or symmetrised: "union" or "mutual".
nb::tuple graph_to_python(const Options& options, const std::optional<std::string>& symmetrize,
                          const std::function<Neighbors(const Progress&)>& search);

void bind_graph_range(nb::module_& m);

}  // namespace vicinal::python
