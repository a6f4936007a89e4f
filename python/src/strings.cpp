// See strings.hpp. The structures of the Arrow C data interface are written out as its specification gives them: they
// are an ABI.
#include "strings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph_range.hpp"
#include "results.hpp"
#include "vicinal/error.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"

namespace vicinal::python {
namespace {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags, n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

/// Moves the array out of its capsule, as consumers do, and releases it in the end.
std::shared_ptr<const ArrowArray> taken(const nb::capsule& capsule) {
  auto* from = static_cast<ArrowArray*>(capsule.data("arrow_array"));
  auto* array = new ArrowArray(*from);
  from->release = nullptr;
  return {array, [](ArrowArray* at) {
            if (at->release != nullptr) {
              const GilAcquire gil;
              at->release(at);
            }
            delete at;
          }};
}

void refuse_nulls(const ArrowArray& array, const std::string& name) {
  const auto* valid = static_cast<const std::uint8_t*>(array.buffers[0]);
  if (valid == nullptr || array.null_count == 0) return;
  for (std::int64_t i = 0; i < array.length; ++i) {
    const std::int64_t bit = array.offset + i;
    if (((valid[bit / 8] >> (bit % 8)) & 1) == 0)
      throw Error(ErrorCode::invalid_value, name + " string " + std::to_string(i) + " is null; drop or fill it");
  }
}

/// Throws InvalidArgument unless the structure is that of an array of strings; where its buffers end, it does not say.
void check_array(const ArrowArray& array, const std::string& name) {
  const char* wrong = array.release == nullptr                           ? "was released"
                      : array.n_buffers != 3 || array.buffers == nullptr ? "has not the three buffers of strings"
                      : array.length < 0 || array.offset < 0             ? "has a negative length or offset"
                      : array.length > 0 && array.buffers[1] == nullptr  ? "has no offsets"
                                                                         : nullptr;
  if (wrong != nullptr) throw Error(ErrorCode::invalid_argument, name + ": the Arrow array " + wrong);
}

Encoding encoding_of(const std::string& name) {
  if (name == "utf8") return Encoding::utf8;
  if (name == "utf32") return Encoding::utf32;
  if (name == "bytes") return Encoding::bytes;
  throw Error(ErrorCode::internal, "no encoding " + name);
}

}  // namespace

Texts::Texts(Data data, Integers offsets, const std::string& encoding)
    : data_(std::move(data)), offsets_(std::move(offsets)) {
  view_ = {data_.data(), offsets_.data(), static_cast<std::int64_t>(offsets_.shape(0)) - 1, encoding_of(encoding),
           static_cast<std::int64_t>(data_.shape(0))};
  if (view_.rows < 0 || data_.itemsize() != (view_.encoding == Encoding::utf32 ? 4 : 1))
    throw Error(ErrorCode::internal, "symbols and offsets do not fit the encoding " + encoding);
}

Texts Texts::from_arrow(const nb::capsule& schema, const nb::capsule& capsule, const std::string& name) {
  const char* const said = static_cast<const ArrowSchema*>(schema.data("arrow_schema"))->format;
  const std::string format = said != nullptr ? said : "";
  const bool wide = format == "U" || format == "Z";
  if (!wide && format != "u" && format != "z")
    throw Error(ErrorCode::invalid_argument,
                name + ": an Arrow array of format \"" + format +
                    "\"; strings are string, large_string, binary or large_binary: cast it");
  const auto array = taken(capsule);
  check_array(*array, name);
  refuse_nulls(*array, name);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(array->length) + 1, 0);
  if (array->length > 0) {
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(array->offset) + i;
      offsets[i] = wide ? static_cast<const std::int64_t*>(array->buffers[1])[at]
                        : static_cast<const std::int32_t*>(array->buffers[1])[at];
    }
  }
  Texts texts;
  const Encoding encoding = format == "u" || format == "U" ? Encoding::utf8 : Encoding::bytes;
  texts.list_ = StringList(array->buffers[2], std::move(offsets), encoding, array);
  texts.view_ = texts.list_.view();
  return texts;
}

namespace {

nb::tuple knn_strings(const Texts& corpus, const Texts& queries, const Options& options) {
  return neighbors_to_python(without_gil(options.progress, [&](const Progress& progress) {
    return vicinal::knn(corpus.view(), queries.view(), options.search(progress));
  }));
}

nb::tuple knn_graph_strings(const Texts& rows, const Options& options, bool include_self,
                            const std::optional<std::string>& symmetrize) {
  return graph_to_python(options, symmetrize, [&](const Progress& progress) {
    return vicinal::knn_graph(rows.view(), graph_options(options, include_self, progress));
  });
}

nb::tuple range_search_strings(const Texts& corpus, const Texts& queries, double radius, const Options& options,
                               std::int64_t max_results) {
  return csr_to_python(without_gil(options.progress, [&](const Progress& progress) {
    const RangeOptions wanted{.search = options.search(progress), .max_results = max_results};
    return vicinal::range_search(corpus.view(), queries.view(), radius, wanted);
  }));
}

nb::dict plan_strings(const Texts& corpus, const Texts& queries, const Options& options) {
  return plan_to_python(vicinal::plan(corpus.view(), queries.view(), options.search()));
}
nb::dict plan_graph_strings(const Texts& rows, const Options& options, bool include_self) {
  return plan_to_python(vicinal::plan_graph(rows.view(), {.search = options.search(), .include_self = include_self}));
}
nb::dict plan_range_strings(const Texts& corpus, const Texts& queries, const Options& options) {
  return plan_to_python(vicinal::plan_range(corpus.view(), queries.view(), {.search = options.search()}));
}

}  // namespace

void bind_strings(nb::module_& m) {
  nb::class_<Texts>(m, "Strings", "Strings seen in place; holds their owner.")
      .def(nb::init<Texts::Data, Integers, const std::string&>(), nb::arg("data"), nb::arg("offsets"),
           nb::arg("encoding"))
      .def_static("from_arrow", &Texts::from_arrow, nb::arg("schema"), nb::arg("array"), nb::arg("name"))
      .def_prop_ro("shape", [](const Texts& self) { return nb::make_tuple(self.view().rows); });
  m.def("knn_strings", &knn_strings, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def("knn_graph_strings", &knn_graph_strings, nb::arg("rows"), nb::arg("options"), nb::arg("include_self"),
        nb::arg("symmetrize").none());
  m.def("range_search_strings", &range_search_strings, nb::arg("corpus"), nb::arg("queries"), nb::arg("radius"),
        nb::arg("options"), nb::arg("max_results"));
  m.def("plan_strings", &plan_strings, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def("plan_graph_strings", &plan_graph_strings, nb::arg("rows"), nb::arg("options"), nb::arg("include_self"));
  m.def("plan_range_strings", &plan_range_strings, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
}

}  // namespace vicinal::python
