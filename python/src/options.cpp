// The options of a call, and which rows may answer it. The library judges their values.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "call.hpp"
#include "collect.hpp"

namespace vicinal::python {
namespace {

std::span<const std::int64_t> span_of(const Integers& array) { return {array.data(), array.shape(0)}; }

void construct_eligible(EligibleRows* self, std::int64_t first, std::int64_t last, std::optional<Integers> ids,
                        std::optional<Words> bitmap, std::int64_t mask_rows, std::optional<Integers> corpus_labels,
                        std::optional<Integers> query_labels, const std::optional<std::string>& label_rule) {
  EligibleRows rows{.ids = std::move(ids),
                    .corpus_labels = std::move(corpus_labels),
                    .query_labels = std::move(query_labels),
                    .bitmap = std::move(bitmap)};
  Eligible& conditions = rows.conditions;
  conditions.first = first;
  conditions.last = last;
  if (rows.ids) conditions.ids = span_of(*rows.ids);
  if (rows.bitmap) {
    conditions.bitmap = std::span(rows.bitmap->data(), rows.bitmap->shape(0));
    conditions.bitmap_rows = mask_rows;
  }
  if (rows.corpus_labels) conditions.corpus_labels = span_of(*rows.corpus_labels);
  if (rows.query_labels) conditions.query_labels = span_of(*rows.query_labels);
  if (label_rule) conditions.labels = parse_label_rule(*label_rule);
  new (self) EligibleRows(std::move(rows));
}

void construct_options(Options* self, std::int64_t asked_k, const std::string& metric_name, const std::string& device,
                       std::int64_t threads, std::int64_t bytes, const std::string& type_name, bool pads,
                       const std::string& degenerate_rule, std::int64_t asked_first_id, const EligibleRows& rows,
                       std::int64_t ngram, std::int64_t max_length, nb::object callback, const std::string& sort,
                       std::uintptr_t stream_address) {
  KnnOptions knn;
  // Every member has a name here, so that one more does not compile until it is thought of. Python has no words for
  // proof; progress and stop are those of each call (Options::search).
  auto& [k, metric, distance_type, pad, first_id, degenerate, eligible, strings, proof, memory, run, progress, stop,
         stream] = knn;
  k = asked_k;
  metric = parse_metric(metric_name, sort == "vectors"   ? &MetricInfo::vectors
                                     : sort == "strings" ? &MetricInfo::strings
                                                         : nullptr);
  distance_type = parse_distance_type(type_name);
  pad = pads;
  first_id = asked_first_id;
  degenerate = parse_degenerate(degenerate_rule);
  eligible = rows.conditions;
  strings = {.max_length = max_length, .ngram = ngram};
  memory.host = bytes;
  run.device = device;
  stream = reinterpret_cast<void*>(stream_address);
  using Limits = std::numeric_limits<int>;
  run.threads = static_cast<int>(std::clamp<std::int64_t>(threads, Limits::min(), Limits::max()));
  new (self) Options{std::move(knn), std::move(callback), rows};
}

}  // namespace

KnnOptions Options::search(Progress poll) const {
  KnnOptions options = knn;
  options.progress = std::move(poll);
  return options;
}

void bind_options(nb::module_& m) {
  nb::class_<EligibleRows>(m, "Eligible", "Which rows may answer; holds the arrays.")
      .def("__init__", &construct_eligible, nb::kw_only(), nb::arg("first"), nb::arg("last"), nb::arg("ids").none(),
           nb::arg("bitmap").none(), nb::arg("mask_rows"), nb::arg("corpus_labels").none(),
           nb::arg("query_labels").none(), nb::arg("label_rule").none());
  nb::class_<Options>(m, "Options", nb::type_slots(collected<Options>), "Checked options of one call.")
      .def("__init__", &construct_options, nb::kw_only(), nb::arg("k"), nb::arg("metric"), nb::arg("device"),
           nb::arg("threads"), nb::arg("memory"), nb::arg("distance_type"), nb::arg("pad"), nb::arg("degenerate"),
           nb::arg("first_id"), nb::arg("eligible"), nb::arg("ngram"), nb::arg("max_length"),
           nb::arg("progress").none(), nb::arg("sort"), nb::arg("stream") = 0)
      .def_prop_ro("k", [](const Options& self) { return self.knn.k; })
      .def_prop_ro("pad", [](const Options& self) { return self.knn.pad; })
      .def_prop_ro("first_id", [](const Options& self) { return self.knn.first_id; });
}

}  // namespace vicinal::python
