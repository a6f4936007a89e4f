// Selection from Python. Results go to memory that vicinal/_select.py took from the library that the values came from,
// so that they are arrays of that library, on the values' device.
#include "select.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>

#include "arrays.hpp"
#include "call.hpp"

namespace vicinal::python {
namespace {

Payload payload_of(const Values& values, const ValueRows* given) {
  if (given == nullptr) return {};
  const Values& items = given->values();
  const auto place = [](int device) { return device < 0 ? std::string("the host") : "cuda:" + std::to_string(device); };
  if (items.cuda_device != values.cuda_device) {
    throw Error(ErrorCode::invalid_argument, "payload is in memory of " + place(items.cuda_device) + ", values of " +
                                                 place(values.cuda_device) + "; copy one of them to the other's");
  }
  return {items.data, static_cast<std::int64_t>(value_size(items.type)), items.row_stride, items.col_stride};
}

/// `out`: addresses of values, ids and payload (0: none), dense, where the values are.
nb::dict select_from_python(const ValueRows& rows, const ValueRows* payload, const nb::tuple& out, std::int64_t k,
                            bool largest, bool sorted, const std::string& algorithm, const std::string& device,
                            std::int64_t threads, std::uintptr_t stream) {
  const auto address = [&](std::size_t i) { return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(out[i])); };
  const Values& values = rows.values();
  const SelectionView view{address(0), static_cast<std::int64_t*>(address(1)), address(2), values.rows, k};
  SelectOptions options{.k = k, .largest = largest, .sorted = sorted, .algorithm = algorithm};
  options.run.device = device;
  using Limits = std::numeric_limits<int>;
  options.run.threads = static_cast<int>(std::clamp<std::int64_t>(threads, Limits::min(), Limits::max()));
  options.stream = reinterpret_cast<void*>(stream);
  const Payload items = payload_of(values, payload);
  const SelectStats stats = without_gil(nb::none(), [&](const Progress& progress) {
    options.progress = progress;
    return vicinal::select_k_into(view, values, options, items);
  });
  nb::dict d;
  d["algorithm"] = stats.algorithm;
  d["device"] = stats.device;
  d["threads"] = stats.threads;
  d["seconds"] = stats.seconds;
  d["why"] = stats.why;
  return d;
}

}  // namespace

void bind_select(nb::module_& m) {
  m.def("select_k", &select_from_python, nb::arg("values"), nb::arg("payload").none(), nb::arg("out"), nb::arg("k"),
        nb::arg("largest"), nb::arg("sorted"), nb::arg("algorithm"), nb::arg("device"), nb::arg("threads"),
        nb::arg("stream"));
  m.def("select_algorithms", [] {
    nb::list all;
    for (const SelectAlgorithm& one : vicinal::select_algorithms()) {
      const auto text = [](std::string_view words) { return nb::str(words.data(), words.size()); };
      all.append(nb::make_tuple(text(one.name), text(one.devices), text(one.source), text(one.about)));
    }
    return all;
  });
}

}  // namespace vicinal::python
