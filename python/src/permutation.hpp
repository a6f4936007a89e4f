// The permutation index from Python.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_permutation(nanobind::module_& m);

}  // namespace vicinal::python
