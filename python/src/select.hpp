// Selection from Python: select_k and the names of its algorithms.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

void bind_select(nanobind::module_& m);

}  // namespace vicinal::python
