// Results of the library as Python sees them: arrays that own the library's memory through a capsule (no
// copy), and plain dicts that python/vicinal/_results.py turns into dataclasses.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>

#include "vicinal/corpus.hpp"
#include "vicinal/device.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace vicinal::python {

namespace nb = nanobind;

/// What a call reports of itself, for Python; few callers look at it, so it becomes Python objects when it is asked
/// for.
class PythonReport {
 public:
  explicit PythonReport(Report report) : report_(std::move(report)) {}
  nb::dict certificate() const;
  nb::dict stats() const;

 private:
  Report report_;
};
void bind_report(nb::module_& m);

/// (distances, ids, a PythonReport, counts or None)
nb::tuple neighbors_to_python(const Neighbors& result);
/// The same of a search that wrote into arrays of NumPy.
nb::tuple neighbors_to_python(const nb::object& distances, const nb::object& ids, Report report);
/// An array of NumPy that is to be filled: distances of a type, or ids (DistanceType::automatic), rows x k.
class ResultArray {
 public:
  ResultArray(DistanceType type, std::int64_t rows, std::int64_t k);
  ~ResultArray();
  ResultArray(const ResultArray&) = delete;
  ResultArray& operator=(const ResultArray&) = delete;
  void* data() const noexcept { return view_.buf; }
  const nb::object& array() const noexcept { return array_; }

 private:
  nb::object array_;
  Py_buffer view_ = {};
};
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
