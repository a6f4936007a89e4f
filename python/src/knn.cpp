// Searches from Python. Arguments have been checked for their Python types in vicinal/_inputs.py; their
// values are the library's to judge, so that C++ and Python refuse with the same words.
#include "knn.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "call.hpp"
#include "collect.hpp"
#include "graph_range.hpp"
#include "results.hpp"
#include "vicinal/option_fields.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace vicinal::python {
namespace {

/// Results of so many entries go into arrays that NumPy makes, in a tenth of the time that an array of foreign memory
/// takes; those of larger ones are touched first by the threads that fill them.
constexpr std::int64_t most_small_entries = 1 << 14;

/// A search whose results NumPy's own arrays take; nothing where they are many, or what is asked is not plain: the
/// library refuses or pads then.
template <class Search>
std::optional<nb::tuple> small_knn(const Shape& corpus, const Points& queries, const Options& options,
                                   const Search& search) {
  const KnnOptions& knn = options.knn;
  const bool plain = !knn.pad && knn.k >= 1 && knn.k <= std::min(corpus.rows, most_small_entries) &&
                     corpus.cols == queries.cols && queries.rows >= 1 && queries.rows <= most_small_entries / knn.k;
  if (!plain) return {};
  const DistanceType type = resolve_distance_type(knn.distance_type, knn.metric, corpus.dtype, queries.dtype);
  const ResultArray distances(type, queries.rows, knn.k), ids(DistanceType::automatic, queries.rows, knn.k);
  const NeighborsView out{.ids = static_cast<std::int64_t*>(ids.data()),
                          .distances = distances.data(),
                          .type = type,
                          .rows = queries.rows,
                          .k = knn.k};
  Report report = without_gil(options.progress, [&](const Progress& progress) { return search(out, progress); });
  return neighbors_to_python(distances.array(), ids.array(), std::move(report));
}

/// Type of the distances of a search whose results its caller makes memory for. Throws what the search would, where
/// that memory may be anything.
std::string distance_type(const Shape& corpus, const Points& queries, const Options& options) {
  const KnnOptions& knn = options.knn;
  const bool plain =
      knn.k >= 1 && knn.k <= corpus.rows && corpus.cols == queries.cols && queries.rows <= 1 << 20 && knn.k <= 1 << 10;
  const DistanceType type =
      plain ? resolve_distance_type(knn.distance_type, knn.metric, corpus.dtype, queries.dtype)
            : vicinal::plan(corpus, {queries.rows, queries.cols, queries.dtype, true}, options.search()).distance_type;
  return std::string(distance_type_name(type));
}

nb::tuple knn_from_python(const Rows& corpus, const Rows& queries, const Options& options) {
  check_reach(options, {&corpus, &queries});
  const Points &rows = corpus.anywhere(), &asked = queries.anywhere();
  auto small = small_knn({rows.rows, rows.cols, rows.dtype}, asked, options,
                         [&](const NeighborsView& out, const Progress& progress) {
                           return vicinal::knn_into(out, rows, asked, options.search(progress));
                         });
  if (small) return *std::move(small);
  return neighbors_to_python(without_gil(options.progress, [&](const Progress& progress) {
    return vicinal::knn(corpus.anywhere(), queries.anywhere(), options.search(progress));
  }));
}

/// Addresses of distances, ids and counts (0: none), dense, as vicinal/_namespaces.py allocated them.
NeighborsView out_of(const nb::tuple& out, DType corpus, const Points& queries, const KnnOptions& options) {
  const auto address = [&](std::size_t i) { return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(out[i])); };
  return {.ids = static_cast<std::int64_t*>(address(1)),
          .distances = address(0),
          .type = resolve_distance_type(options.distance_type, options.metric, corpus, queries.dtype),
          .rows = queries.rows,
          .k = options.k,
          .counts = static_cast<std::int64_t*>(address(2))};
}

DistanceType distance_type_of(const Table& distances) {
  if (distances.dtype() == nb::dtype<double>()) return DistanceType::f64;
  if (distances.dtype() == nb::dtype<std::uint32_t>()) return DistanceType::u32;
  return DistanceType::f32;
}

Claim claim_of(const Table& ids, const std::optional<Table>& distances) {
  Claim claim;
  claim.rows = static_cast<std::int64_t>(ids.shape(0));
  claim.k = static_cast<std::int64_t>(ids.shape(1));
  claim.ids = static_cast<const std::int64_t*>(ids.data());
  if (distances) {
    claim.distances = distances->data();
    claim.type = distance_type_of(*distances);
  }
  return claim;
}

PythonReport knn_into_from_python(const Rows& corpus, const Rows& queries, const Options& options,
                                  const nb::tuple& out) {
  check_reach(options, {&corpus, &queries});
  const NeighborsView view = out_of(out, corpus.anywhere().dtype, queries.anywhere(), options.knn);
  return PythonReport(without_gil(options.progress, [&](const Progress& progress) {
    return vicinal::knn_into(view, corpus.anywhere(), queries.anywhere(), options.search(progress));
  }));
}

/// Keeps the rows alive that the library's Corpus may have borrowed.
class PythonCorpus {
 public:
  PythonCorpus(const Rows& rows, const Options& options, bool copy)
      : corpus_(without_gil(options.progress, [&](const Progress& progress) {
          CorpusOptions wanted = with_shared_fields<CorpusOptions>(options.knn);
          wanted.copy = copy;
          wanted.progress = progress;
          if (copy) return Corpus(rows.points(), wanted);
          check_reach(options, {&rows});
          return Corpus(rows.anywhere(), wanted);
        })) {
    if (!corpus_.owns_rows()) rows_ = rows;
  }
  /// What save() wrote; device, threads and memory are those of the options, the rest is in the file.
  PythonCorpus(const std::string& path, const Options& options, bool verify, bool copy)
      : corpus_(without_gil(options.progress, [&](const Progress& progress) {
          OpenOptions wanted = with_shared_fields<OpenOptions>(options.knn);
          wanted.verify = verify;
          wanted.copy = copy;
          wanted.progress = progress;
          return Corpus::open(path, wanted);
        })) {}
  /// What saved() gave, which is borrowed.
  PythonCorpus(const SavedArray& saved, const Options& options)
      : saved_(saved), corpus_(without_gil(options.progress, [&](const Progress& progress) {
          OpenOptions wanted = with_shared_fields<OpenOptions>(options.knn);
          wanted.progress = progress;
          return Corpus::open(bytes_of(saved), wanted);
        })) {}

  void save(const std::string& path) const {
    if (rows_) (void)rows_->points();  // they are read by the host
    const GilRelease released;
    corpus_.save(path);
  }

  nb::object saved() const {
    if (rows_) (void)rows_->points();  // as above
    return saved_to_python(without_gil(nb::none(), [&](const Progress&) { return corpus_.saved(); }));
  }

  nb::tuple knn_graph(const Options& options, bool include_self, const std::optional<std::string>& symmetrize) const {
    return graph_to_python(options, symmetrize, [&](const Progress& progress) {
      return corpus_.knn_graph(graph_options(options, include_self, progress));
    });
  }
  nb::tuple range_search(const Rows& queries, double radius, const Options& options, std::int64_t max_results) const {
    check_reach(options, {&queries});
    return csr_to_python(without_gil(options.progress, [&](const Progress& progress) {
      const RangeOptions wanted{.search = options.search(progress), .max_results = max_results};
      return corpus_.range_search(queries.anywhere(), radius, wanted);
    }));
  }
  nb::dict verify(const Rows& queries, const Table& ids, const std::optional<Table>& distances, const Options& options,
                  double relative_tolerance) const {
    if (rows_) (void)rows_->points();
    return verdict_to_python(without_gil(options.progress, [&](const Progress& progress) {
      const VerifyOptions wanted{.search = options.search(progress), .relative_tolerance = relative_tolerance};
      return corpus_.verify(queries.points(), claim_of(ids, distances), wanted);
    }));
  }

  nb::tuple knn(const Rows& queries, const Options& options) const {
    check_reach(options, {&queries});
    const Points& asked = queries.anywhere();
    auto small = small_knn(shape(), asked, options, [&](const NeighborsView& out, const Progress& progress) {
      return corpus_.knn_into(out, asked, options.search(progress));
    });
    if (small) return *std::move(small);
    return neighbors_to_python(without_gil(
        options.progress, [&](const Progress& progress) { return corpus_.knn(asked, options.search(progress)); }));
  }
  /// The search begins after the queries' stream: options serve call after call.
  PythonReport knn_into(const Rows& queries, const Options& options, const nb::tuple& out) const {
    check_reach(options, {&queries});
    const NeighborsView view = out_of(out, corpus_.dtype(), queries.anywhere(), options.knn);
    return PythonReport(without_gil(options.progress, [&](const Progress& progress) {
      KnnOptions wanted = options.search(progress);
      wanted.stream = reinterpret_cast<void*>(queries.stream());
      return corpus_.knn_into(view, queries.anywhere(), wanted);
    }));
  }
  std::string distance_type(const Rows& queries, const Options& options) const {
    return python::distance_type(shape(), queries.anywhere(), options);
  }
  Shape shape() const noexcept { return {corpus_.rows(), corpus_.cols(), corpus_.dtype()}; }
  const Corpus& corpus() const noexcept { return corpus_; }

  int traverse(visitproc visit, void* arg) const { return rows_ ? rows_->traverse(visit, arg) : 0; }
  /// Nothing: the corpus goes on seeing its rows, which go with it.
  void clear() noexcept {}

 private:
  std::optional<Rows> rows_;
  std::optional<SavedArray> saved_;
  Corpus corpus_;
};

/// Paths come as the file system spells them, which need not be UTF-8.
std::string text_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

nb::dict plan_from_python(const Shape& corpus, const Shape& queries, const Options& options) {
  return plan_to_python(vicinal::plan(corpus, queries, options.search()));
}

nb::dict plan_rows_from_python(const Rows& corpus, const Shape& queries, const Options& options) {
  KnnOptions wanted = options.search();
  wanted.stream = reinterpret_cast<void*>(corpus.stream());
  return plan_to_python(vicinal::plan(corpus.anywhere(), queries, wanted));
}

nb::tuple merge_from_python(const std::vector<Part>& parts, std::int64_t k, const std::string& metric, bool pad) {
  MergeOptions options;
  options.k = k;
  options.metric = parse_metric(metric);
  options.pad = pad;
  std::vector<NeighborsView> views;
  for (const Part& part : parts) views.push_back(view_of(part));
  return neighbors_to_python(without_gil(nb::none(), [&](const Progress& progress) {
    options.progress = progress;
    return vicinal::merge(views, options);
  }));
}

nb::dict verify_from_python(const Rows& corpus, const Rows& queries, const Table& ids,
                            const std::optional<Table>& distances, const Options& options, double relative_tolerance) {
  const Claim claim = claim_of(ids, distances);
  return verdict_to_python(without_gil(options.progress, [&](const Progress& progress) {
    VerifyOptions wanted;
    wanted.search = options.search(progress);
    wanted.relative_tolerance = relative_tolerance;
    return vicinal::verify(corpus.points(), queries.points(), claim, wanted);
  }));
}

}  // namespace

NeighborsView view_of(const Part& part) {
  const auto& [distances, ids] = part;
  NeighborsView view;  // merge only reads through it
  view.ids = static_cast<std::int64_t*>(const_cast<void*>(ids.data()));
  view.distances = const_cast<void*>(distances.data());
  view.type = distance_type_of(distances);
  view.rows = static_cast<std::int64_t>(ids.shape(0));
  view.k = static_cast<std::int64_t>(ids.shape(1));
  return view;
}

void bind_search(nb::module_& m) {
  m.def("knn", &knn_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def(
      "knn_of_part",
      [](const Rows& part, const Rows& queries, const Options& options) {
        check_reach(options, {&part, &queries});
        return neighbors_to_python(without_gil(options.progress, [&](const Progress& progress) {
          return vicinal::knn_of_part(part.anywhere(), queries.anywhere(), options.search(progress));
        }));
      },
      nb::arg("part"), nb::arg("queries"), nb::arg("options"));
  m.def("knn_into", &knn_into_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"), nb::arg("out"));
  m.def(
      "distance_type",
      [](const Rows& corpus, const Rows& queries, const Options& options) {
        const Points& rows = corpus.anywhere();
        return distance_type({rows.rows, rows.cols, rows.dtype, corpus.cuda_device() >= 0}, queries.anywhere(),
                             options);
      },
      nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def("merge", &merge_from_python, nb::arg("parts"), nb::arg("k"), nb::arg("metric"), nb::arg("pad"));
  m.def("verify", &verify_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("ids"),
        nb::arg("distances").none(), nb::arg("options"), nb::arg("relative_tolerance"));
  m.def(
      "parse_bytes", [](const std::string& text) { return parse_bytes(text); }, nb::arg("text"));

  nb::class_<Shape>(m, "Shape", "Rows, columns and element type, for plan.")
      .def(
          "__init__",
          [](Shape* self, std::int64_t rows, std::int64_t cols, const std::string& dtype, bool on_device) {
            new (self) Shape{rows, cols, dtype_of_name(dtype), on_device};
          },
          nb::arg("rows"), nb::arg("cols"), nb::arg("dtype"), nb::arg("on_device") = false);
  m.def("plan", &plan_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));
  m.def("plan_rows", &plan_rows_from_python, nb::arg("corpus"), nb::arg("queries"), nb::arg("options"));

  nb::class_<PythonCorpus>(m, "Corpus", nb::type_slots(collected<PythonCorpus>),
                           "A prepared corpus that keeps borrowed rows alive.")
      .def(nb::init<const Rows&, const Options&, bool>(), nb::arg("rows"), nb::arg("options"), nb::arg("copy"))
      .def_static(
          "open",
          [](const nb::bytes& path, const Options& options, bool verify, bool copy) {
            return new PythonCorpus(text_of(path), options, verify, copy);
          },
          nb::arg("path"), nb::arg("options"), nb::arg("verify"), nb::arg("copy"))
      .def(
          "save", [](const PythonCorpus& self, const nb::bytes& path) { self.save(text_of(path)); }, nb::arg("path"))
      .def_static(
          "opened", [](const SavedArray& saved, const Options& options) { return new PythonCorpus(saved, options); },
          nb::arg("saved"), nb::arg("options"))
      .def("saved", &PythonCorpus::saved)
      .def("knn_graph", &PythonCorpus::knn_graph, nb::arg("options"), nb::arg("include_self"),
           nb::arg("symmetrize").none())
      .def("range_search", &PythonCorpus::range_search, nb::arg("queries"), nb::arg("radius"), nb::arg("options"),
           nb::arg("max_results"))
      .def("verify", &PythonCorpus::verify, nb::arg("queries"), nb::arg("ids"), nb::arg("distances").none(),
           nb::arg("options"), nb::arg("relative_tolerance"))
      .def("knn", &PythonCorpus::knn, nb::arg("queries"), nb::arg("options"))
      .def("knn_into", &PythonCorpus::knn_into, nb::arg("queries"), nb::arg("options"), nb::arg("out"))
      .def("distance_type", &PythonCorpus::distance_type, nb::arg("queries"), nb::arg("options"))
      .def_prop_ro("shape",
                   [](const PythonCorpus& self) { return nb::make_tuple(self.corpus().rows(), self.corpus().cols()); })
      .def_prop_ro("dtype", [](const PythonCorpus& self) { return std::string(dtype_name(self.corpus().dtype())); })
      .def_prop_ro("metric",
                   [](const PythonCorpus& self) { return std::string(metric_info(self.corpus().metric()).name); })
      .def_prop_ro("resident", [](const PythonCorpus& self) { return self.corpus().resident(); })
      .def_prop_ro("nbytes", [](const PythonCorpus& self) { return self.corpus().bytes(); })
      .def_prop_ro("prepare_seconds", [](const PythonCorpus& self) { return self.corpus().prepare_seconds(); });
}

}  // namespace vicinal::python
