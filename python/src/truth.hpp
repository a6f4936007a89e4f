// Ground truth: of a base in several arrays, and brought up to date.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_truth(nanobind::module_& m);

}  // namespace vicinal::python
