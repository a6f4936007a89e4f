// Results of the library as Python sees them: arrays that own the library's memory through a capsule (no
// copy), and plain dicts that python/vicinal/_results.py turns into dataclasses.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "vicinal/corpus.hpp"
#include "vicinal/device.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace vicinal::python {

namespace nb = nanobind;

/// (distances, ids, certificate, stats, counts or None)
nb::tuple neighbors_to_python(const Neighbors& result);
/// (certificate, stats)
nb::tuple report_to_python(const Report& report);
/// A read-only array of bytes.
nb::object saved_to_python(const SavedBytes& saved);
/// (offsets, distances, ids, certificate, stats)
nb::tuple csr_to_python(const CsrNeighbors& result);
nb::dict stats_to_python(const Stats& stats);
nb::dict plan_to_python(const Plan& plan);
nb::dict device_to_python(const Device& device);
nb::dict info_to_python(const Info& info);
nb::dict verdict_to_python(const Verdict& verdict);

}  // namespace vicinal::python
