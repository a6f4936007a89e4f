// vicinal._native: the thin layer between python/vicinal and libvicinal. Nothing here is public; signatures
// and docstrings that users see live in python/vicinal/*.py.
#include <nanobind/nanobind.h>

#include "arrays.hpp"
#include "call.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "graph_range.hpp"
#include "knn.hpp"
#include "match.hpp"
#include "permutation.hpp"
#include "results.hpp"
#include "select.hpp"
#include "strings.hpp"
#include "truth.hpp"
#include "vicinal/device.hpp"

NB_MODULE(_native, m) {
  namespace nb = nanobind;
  namespace python = vicinal::python;
  python::register_errors();
  python::bind_gil(m);
  python::bind_report(m);
  python::bind_rows(m);
  python::bind_options(m);
  python::bind_search(m);
  python::bind_graph_range(m);
  python::bind_match(m);
  python::bind_select(m);
  python::bind_strings(m);
  python::bind_permutation(m);
  python::bind_truth(m);
  m.def("info", [] { return python::info_to_python(vicinal::info()); });
  m.def("devices", [] {
    nb::list all;
    for (const vicinal::Device& device : vicinal::devices()) all.append(python::device_to_python(device));
    return all;
  });
  m.def("release_memory", [] {
    const python::GilRelease released;
    return vicinal::release_memory();
  });
}
