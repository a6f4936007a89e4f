// Each array has a capsule of its own, so that keeping only the distances does not keep the ids.
#include "results.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "vicinal/fields.hpp"

namespace vicinal::python {
namespace {

/// What arrays are made with, for the life of the process: to find it takes as long as a small search.
struct Numpy {
  nb::handle empty, f32, f64, u32, i64;
};
Numpy numpy;

template <class T>
nb::object array(std::shared_ptr<const void> owner, const void* data, std::initializer_list<std::size_t> shape) {
  auto* held = new std::shared_ptr<const void>(std::move(owner));
  nb::capsule keeper(held, [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  // NumPy wants an address even for no elements.
  static T nothing{};
  T* address = data != nullptr ? static_cast<T*>(const_cast<void*>(data)) : &nothing;
  return nb::cast(nb::ndarray<nb::numpy, T>(address, shape, keeper));
}

template <class Result>
nb::object distances_array(const Result& result, std::initializer_list<std::size_t> shape) {
  const void* data = result.distances();
  switch (result.type()) {
    case DistanceType::f64: return array<double>(result.shared_distances(), data, shape);
    case DistanceType::u32: return array<std::uint32_t>(result.shared_distances(), data, shape);
    case DistanceType::automatic:
    case DistanceType::f32: break;
  }
  return array<float>(result.shared_distances(), data, shape);
}

nb::object field_to_python(DistanceType type) { return nb::cast(std::string(distance_type_name(type))); }
nb::object field_to_python(const std::vector<std::string>& words) { return nb::tuple(nb::cast(words)); }
nb::object field_to_python(const std::vector<Device>& devices);
template <class Value>
nb::object field_to_python(const Value& value) {
  return nb::cast(value);
}

/// The members of a struct by name (vicinal/fields.hpp), as python/vicinal/_results.py takes them.
template <class Struct>
nb::dict to_python(const Struct& from) {
  nb::dict d;
  for_each_field(from, [&](const char* name, const auto& value) { d[name] = field_to_python(value); });
  return d;
}

nb::object field_to_python(const std::vector<Device>& devices) {
  nb::list list;
  for (const Device& device : devices) list.append(to_python(device));
  return list;
}

const char* fault_name(Fault fault) noexcept {
  switch (fault) {
    case Fault::wrong: return "wrong";
    case Fault::tie_order: return "tie_order";
    case Fault::distance: break;
  }
  return "distance";
}

}  // namespace

nb::tuple neighbors_to_python(const Neighbors& result) {
  const auto rows = static_cast<std::size_t>(result.rows()), k = static_cast<std::size_t>(result.k());
  nb::object counts = nb::none();
  if (result.counts() != nullptr) counts = array<std::int64_t>(result.shared_counts(), result.counts(), {rows});
  return nb::make_tuple(distances_array(result, {rows, k}),
                        array<std::int64_t>(result.shared_ids(), result.ids(), {rows, k}),
                        PythonReport({result.certificate, result.stats}), counts);
}

nb::tuple neighbors_to_python(const nb::object& distances, const nb::object& ids, Report report) {
  return nb::make_tuple(distances, ids, PythonReport(std::move(report)), nb::none());
}

nb::dict PythonReport::certificate() const { return to_python(report_.certificate); }
nb::dict PythonReport::stats() const { return to_python(report_.stats); }

void bind_report(nb::module_& m) {
  const nb::module_ module = nb::module_::import_("numpy");
  const auto dtype = [&](const char* name) { return nb::object(module.attr("dtype")(name)).release(); };
  numpy = {.empty = nb::object(module.attr("empty")).release(),
           .f32 = dtype("float32"),
           .f64 = dtype("float64"),
           .u32 = dtype("uint32"),
           .i64 = dtype("int64")};
  nb::class_<PythonReport>(m, "Report", "Certificate and stats of one call, by the names of their fields.")
      .def("certificate", &PythonReport::certificate)
      .def("stats", &PythonReport::stats);
}

ResultArray::ResultArray(DistanceType type, std::int64_t rows, std::int64_t k) {
  nb::handle element = numpy.i64;
  switch (type) {
    case DistanceType::f32: element = numpy.f32; break;
    case DistanceType::f64: element = numpy.f64; break;
    case DistanceType::u32: element = numpy.u32; break;
    case DistanceType::automatic: break;
  }
  array_ = numpy.empty(nb::make_tuple(rows, k), element);
  if (PyObject_GetBuffer(array_.ptr(), &view_, PyBUF_WRITABLE) != 0) throw nb::python_error();
}
ResultArray::~ResultArray() { PyBuffer_Release(&view_); }

nb::object saved_to_python(const SavedBytes& saved) {
  return array<const std::uint8_t>(saved.data, saved.data.get(), {saved.size});
}

nb::tuple csr_to_python(const CsrNeighbors& result) {
  const auto rows = static_cast<std::size_t>(result.rows()), entries = static_cast<std::size_t>(result.entries());
  return nb::make_tuple(array<std::int64_t>(result.shared_offsets(), result.offsets(), {rows + 1}),
                        distances_array(result, {entries}),
                        array<std::int64_t>(result.shared_ids(), result.ids(), {entries}),
                        to_python(result.certificate), to_python(result.stats));
}

nb::dict plan_to_python(const Plan& plan) {
  nb::dict d = to_python(plan);
  d["text"] = plan.text();
  return d;
}

nb::dict stats_to_python(const Stats& stats) { return to_python(stats); }

nb::dict device_to_python(const Device& device) { return to_python(device); }

nb::dict info_to_python(const Info& info) { return to_python(info); }

nb::dict verdict_to_python(const Verdict& verdict) {
  nb::dict d;
  d["rows"] = verdict.rows;
  d["correct"] = verdict.correct;
  d["wrong"] = verdict.wrong;
  d["tie_order"] = verdict.tie_order;
  d["distance"] = verdict.distance;
  d["near_ties"] = verdict.near_ties;
  d["recall"] = verdict.recall;
  d["largest_relative_difference"] = verdict.largest_relative_difference;
  nb::list faults;
  for (const Verdict::Row& row : verdict.faults)
    faults.append(nb::make_tuple(row.row, fault_name(row.fault), row.rank, row.given, row.expected));
  d["faults"] = faults;
  d["truth"] = neighbors_to_python(verdict.truth);
  return d;
}

}  // namespace vicinal::python
