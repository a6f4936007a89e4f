// The calls of the module: knn, Corpus, plan, merge, verify.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_search(nanobind::module_& m);

}  // namespace vicinal::python
