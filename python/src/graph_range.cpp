// Graphs and ranges from Python; arguments were checked for their Python types in vicinal/_inputs.py.
#include "graph_range.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "arrays.hpp"
#include "call.hpp"
#include "results.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"

namespace vicinal::python {

namespace {

Symmetrize parse_symmetrize(const std::string& name) {
  if (name == "union") return Symmetrize::either;
  if (name == "mutual") return Symmetrize::mutual;
  throw Error(ErrorCode::invalid_argument, "unknown symmetrize \"" + name + "\"; ways: union, mutual, None");
}

}  // namespace

GraphOptions graph_options(const Options& options, bool include_self, Progress progress) {
  return {.search = options.search(std::move(progress)), .include_self = include_self};
}

nb::tuple graph_to_python(const Options& options, const std::optional<std::string>& symmetrize,
                          const std::function<Neighbors(const Progress&)>& search) {
  std::optional<Symmetrize> how;
  if (symmetrize) how = parse_symmetrize(*symmetrize);
  const Neighbors graph = without_gil(options.progress, search);
  if (!how) return neighbors_to_python(graph);
  return csr_to_python(
      without_gil(nb::none(), [&](const Progress& progress) { return vicinal::symmetrize(graph, *how, progress); }));
}

namespace {

nb::tuple knn_graph_from_python(const Rows& rows, const Options& options, bool include_self,
                                const std::optional<std::string>& symmetrize) {
  check_reach(options, {&rows});
  return graph_to_python(options, symmetrize, [&](const Progress& progress) {
    return vicinal::knn_graph(rows.anywhere(), graph_options(options, include_self, progress));
  });
}

nb::tuple range_search_from_python(const Rows& corpus, const Rows& queries, double radius, const Options& options,
                                   std::int64_t max_results) {
  check_reach(options, {&corpus, &queries});
  return csr_to_python(without_gil(options.progress, [&](const Progress& progress) {
    const RangeOptions wanted{.search = options.search(progress), .max_results = max_results};
    return vicinal::range_search(corpus.anywhere(), queries.anywhere(), radius, wanted);
  }));
}

nb::dict plan_graph_from_python(const Shape& rows, const Options& options, bool include_self) {
  return plan_to_python(vicinal::plan_graph(rows, graph_options(options, include_self)));
}

nb::dict plan_range_from_python(const Shape& corpus, const Shape& queries, const Options& options) {
  return plan_to_python(vicinal::plan_range(corpus, queries, {.search = options.search()}));
}

nb::dict plan_graph_rows_from_python(const Rows& rows, const Options& options, bool include_self) {
  GraphOptions wanted = graph_options(options, include_self);
  wanted.search.stream = reinterpret_cast<void*>(rows.stream());
  return plan_to_python(vicinal::plan_graph(rows.anywhere(), wanted));
}

nb::dict plan_range_rows_from_python(const Rows& corpus, const Shape& queries, const Options& options, double radius) {
  RangeOptions wanted{.search = options.search()};
  wanted.search.stream = reinterpret_cast<void*>(corpus.stream());
  return plan_to_python(vicinal::plan_range(corpus.anywhere(), queries, radius, wanted));
}

}  // namespace

void bind_graph_range(nb::module_& m) {
  m.def("knn_graph", &knn_graph_from_python, nb::arg("rows"), nb::arg("options"), nb::arg("include_self"),
        nb::arg("symmetrize").none());
  m.def("range_search", &range_search_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("radius"),
        nb::arg("options"), nb::arg("max_results"));
  m.def("plan_graph", &plan_graph_from_python, nb::arg("rows"), nb::arg("options"), nb::arg("include_self"));
  m.def("plan_range", &plan_range_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def("plan_graph_rows", &plan_graph_rows_from_python, nb::arg("rows"), nb::arg("options"), nb::arg("include_self"));
  m.def("plan_range_rows", &plan_range_rows_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"),
        nb::arg("radius"));
}

}  // namespace vicinal::python
