// Matching of features from Python.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_match(nanobind::module_& m);

}  // namespace vicinal::python
