// The calls of the module: knn, Corpus, plan, merge, verify.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "vicinal/neighbors.hpp"

namespace vicinal::python {

using Table = nanobind::ndarray<nanobind::ro, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Part = std::pair<Table, Table>;  // distances, ids (int64)
/// A view of a result, for calls that only read it.
NeighborsView view_of(const Part& part);

void bind_search(nanobind::module_& m);

}  // namespace vicinal::python
