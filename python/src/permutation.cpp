// The permutation index from Python; arguments were checked for their Python types in vicinal/_permutation.py.
#include "permutation.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "call.hpp"
#include "collect.hpp"
#include "results.hpp"
#include "strings.hpp"
#include "vicinal/permutation_index.hpp"

namespace vicinal::python {
namespace {

PermutationOptions index_options(const Options& options, std::optional<std::int64_t> permutants,
                                 const std::string& choice, const std::vector<std::int64_t>& given, std::uint64_t seed,
                                 const std::string& rank_distance, const std::string& form, std::int64_t prefix,
                                 std::int64_t window, bool bounds, bool copy) {
  return {.metric = options.knn.metric,
          .permutants = permutants.value_or(default_permutants),
          .choice = parse_permutant_choice(choice),
          .given = given,
          .seed = seed,
          .rank_distance = parse_rank_distance(rank_distance),
          .form = parse_rank_form(form),
          .prefix = prefix,
          .window = window,
          .bounds = bounds,
          .copy = copy,
          .strings = options.knn.strings,
          .memory = options.knn.memory,
          .run = options.knn.run};
}

PermutationSearch index_search(const Options& options, std::optional<double> recall, std::optional<double> fraction,
                               bool exact, const std::string& tune_on, std::int64_t max_results,
                               const Progress& progress) {
  return {.k = options.knn.k,
          .recall = recall,
          .fraction = fraction,
          .exact = exact,
          .tune_on = parse_tune_on(tune_on),
          .distance_type = options.knn.distance_type,
          .max_results = max_results,
          .memory = options.knn.memory,
          .run = options.knn.run,
          .progress = progress};
}

nb::tuple recall_to_python(const RecallEstimate& recall) {
  return nb::make_tuple(recall.value, recall.low, recall.high, recall.sample, recall.of_queries);
}

nb::tuple plan_to_python(const PermutationPlan& plan) {
  return nb::make_tuple(plan.threads, plan.query_batch, plan.together, plan.peak_bytes, plan.minimum_bytes,
                        plan.budget_bytes, plan.prepared_bytes, plan.text());
}

/// A DistanceRaised carries what a callable raised through the library, to which it is a cancellation. Nothing else
/// keeps it: it holds the frames of the call.
class DistanceRaised : public Error {
 public:
  explicit DistanceRaised(nb::python_error&& error)
      : Error(ErrorCode::cancelled, "the distance raised an exception"),
        error_(std::make_shared<nb::python_error>(std::move(error))) {}
  [[noreturn]] void rethrow() const { throw nb::python_error(*error_); }

 private:
  std::shared_ptr<nb::python_error> error_;
};

/// Runs work as without_gil does, where it may call such a callable.
template <class Work>
auto with_distances(nb::handle progress, const Work& work) {
  try {
    return without_gil(progress, work);
  } catch (const DistanceRaised& raised) {
    raised.rethrow();
  }
}

/// A callable (query, objects) -> distances of Python, called with the GIL.
class CallableDistance {
 public:
  explicit CallableDistance(nb::object function) : function_(std::make_shared<Held>(std::move(function))) {}
  OwnDistance distance() const {
    return [held = function_](std::int64_t query, const std::uint32_t* objects, std::int64_t count, double* distances) {
      const GilAcquire gil;
      try {
        check_interpreter();
        nb::list numbers;
        for (std::int64_t i = 0; i < count; ++i) numbers.append(objects[i]);
        nb::object found = call_python(held->function, nb::make_tuple(query, numbers));
        for (std::int64_t i = 0; i < count; ++i) distances[i] = nb::cast<double>(found[i]);
      } catch (nb::python_error& error) {
        throw DistanceRaised(std::move(error));
      }
    };
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_->function.ptr());
    return 0;
  }
  void clear() { function_->function = nb::none(); }

 private:
  struct Held {
    explicit Held(nb::object f) : function(std::move(f)) {}
    ~Held() {
      const GilAcquire gil;
      function.reset();
    }
    nb::object function;
  };
  std::shared_ptr<Held> function_;
};

/// Keeps the rows alive that the library's index may have borrowed.
class HeldIndex {
 public:
  HeldIndex(const Rows& rows, const Options& options, PermutationOptions wanted)
      : rows_(rows), index_(without_gil(options.progress, [&](const Progress& progress) {
          wanted.progress = progress;
          return PermutationIndex(rows.points(), wanted);
        })) {}
  HeldIndex(const Texts& texts, const Options& options, PermutationOptions wanted)
      : index_(without_gil(options.progress, [&](const Progress& progress) {
          wanted.progress = progress;
          return PermutationIndex(texts.view(), wanted);
        })) {}
  HeldIndex(std::int64_t count, const CallableDistance& between, const Options& options, PermutationOptions wanted)
      : between_(between), index_(with_distances(options.progress, [&](const Progress& progress) {
          wanted.progress = progress;
          return PermutationIndex(count, between.distance(), wanted);
        })) {}
  HeldIndex(const std::string& path, const Options& options, bool verify, bool copy)
      : index_(without_gil(options.progress, [&](const Progress& progress) {
          return PermutationIndex::open(path,
                                        {.verify = verify, .copy = copy, .run = options.knn.run, .progress = progress});
        })) {}
  /// What saved() gave, which is borrowed.
  HeldIndex(const SavedArray& saved, const Options& options)
      : saved_(saved), index_(without_gil(options.progress, [&](const Progress& progress) {
          return PermutationIndex::open(bytes_of(saved), {.run = options.knn.run, .progress = progress});
        })) {}

  template <class Queries>
  nb::tuple knn(const Queries& queries, const Options& options, std::optional<double> recall,
                std::optional<double> fraction, bool exact, const std::string& tune_on) const {
    const PermutationNeighbors found = without_gil(options.progress, [&](const Progress& progress) {
      return index_.knn(view(queries), index_search(options, recall, fraction, exact, tune_on, 0, progress));
    });
    return nb::make_tuple(neighbors_to_python(found.neighbors), found.fraction, recall_to_python(found.recall));
  }
  template <class Queries>
  nb::tuple range(const Queries& queries, double radius, const Options& options, std::optional<double> recall,
                  std::optional<double> fraction, bool exact, const std::string& tune_on,
                  std::int64_t max_results) const {
    const PermutationRange found = without_gil(options.progress, [&](const Progress& progress) {
      return index_.range(view(queries), radius,
                          index_search(options, recall, fraction, exact, tune_on, max_results, progress));
    });
    return nb::make_tuple(csr_to_python(found.neighbors), found.fraction, recall_to_python(found.recall));
  }
  nb::tuple knn_own(std::int64_t queries, nb::object function, const Options& options, std::optional<double> recall,
                    std::optional<double> fraction, bool exact, const std::string& tune_on) const {
    const CallableDistance distance(std::move(function));
    const PermutationNeighbors found = with_distances(options.progress, [&](const Progress& progress) {
      return index_.knn(queries, distance.distance(),
                        index_search(options, recall, fraction, exact, tune_on, 0, progress));
    });
    return nb::make_tuple(neighbors_to_python(found.neighbors), found.fraction, recall_to_python(found.recall));
  }
  nb::tuple range_own(std::int64_t queries, nb::object function, double radius, const Options& options,
                      std::optional<double> recall, std::optional<double> fraction, bool exact,
                      const std::string& tune_on, std::int64_t max_results) const {
    const CallableDistance distance(std::move(function));
    const PermutationRange found = with_distances(options.progress, [&](const Progress& progress) {
      return index_.range(queries, distance.distance(), radius,
                          index_search(options, recall, fraction, exact, tune_on, max_results, progress));
    });
    return nb::make_tuple(csr_to_python(found.neighbors), found.fraction, recall_to_python(found.recall));
  }
  nb::tuple tune(const Options& options, std::optional<double> recall, std::optional<double> fraction) const {
    const PermutationTuning tuned = with_distances(options.progress, [&](const Progress& progress) {
      return index_.tune(index_search(options, recall, fraction, false, "auto", 0, progress));
    });
    return nb::make_tuple(tuned.k, tuned.target, tuned.fraction, recall_to_python(tuned.recall), tuned.index_seconds,
                          tuned.exact_seconds);
  }
  nb::tuple plan(std::int64_t queries, const Options& options, std::optional<double> recall,
                 std::optional<double> fraction, bool exact) const {
    return plan_to_python(index_.plan(queries, index_search(options, recall, fraction, exact, "auto", 0, {})));
  }
  void save(const nb::bytes& path) const {
    const std::string name(path.c_str(), path.size());
    const GilRelease released;
    index_.save(name);
  }
  nb::object saved() const {
    return saved_to_python(without_gil(nb::none(), [&](const Progress&) { return index_.saved(); }));
  }
  nb::dict facts() const {
    const PermutationOptions& options = index_.options();
    nb::dict facts;
    facts["size"] = index_.size();
    facts["cols"] = index_.cols();
    facts["strings"] = index_.strings();
    facts["dtype"] = dtype_name(index_.dtype());
    facts["metric"] = index_.own() ? std::string("own") : std::string(metric_info(index_.metric()).name);
    facts["permutants"] = index_.permutants();
    facts["choice"] = permutant_choice_name(options.choice);
    facts["seed"] = options.seed;
    facts["rank_distance"] = rank_distance_name(options.rank_distance);
    facts["form"] = rank_form_name(options.form);
    facts["prefix"] = options.prefix;
    facts["rank_bytes"] = index_.rank_bytes();
    facts["nbytes"] = index_.bytes();
    facts["build_seconds"] = index_.build_seconds();
    return facts;
  }

  int traverse(visitproc visit, void* arg) const {
    const int stop = rows_ ? rows_->traverse(visit, arg) : 0;
    return stop == 0 && between_ ? between_->traverse(visit, arg) : stop;
  }
  /// The index goes on seeing its rows, which go with it.
  void clear() {
    if (between_) between_->clear();
  }

 private:
  static Points view(const Rows& rows) { return rows.points(); }
  static Strings view(const Texts& texts) { return texts.view(); }
  std::optional<Rows> rows_;
  std::optional<SavedArray> saved_;
  std::optional<CallableDistance> between_;  // the distance of an index of the user's own
  PermutationIndex index_;
};

template <class Objects>
void construct(HeldIndex* self, const Objects& objects, const Options& options, std::optional<std::int64_t> permutants,
               const std::string& choice, const std::vector<std::int64_t>& given, std::uint64_t seed,
               const std::string& rank_distance, const std::string& form, std::int64_t prefix, std::int64_t window,
               bool bounds, bool copy) {
  new (self) HeldIndex(
      objects, options,
      index_options(options, permutants, choice, given, seed, rank_distance, form, prefix, window, bounds, copy));
}

template <class Objects, class Class>
void bind_objects(Class& index) {
  index
      .def("__init__", &construct<Objects>, nb::arg("objects"), nb::arg("options"), nb::arg("permutants").none(),
           nb::arg("choice"), nb::arg("given"), nb::arg("seed"), nb::arg("rank_distance"), nb::arg("form"),
           nb::arg("prefix"), nb::arg("window"), nb::arg("bounds"), nb::arg("copy"))
      .def("knn", &HeldIndex::knn<Objects>, nb::arg("queries"), nb::arg("options"), nb::arg("recall").none(),
           nb::arg("fraction").none(), nb::arg("exact"), nb::arg("tune_on"))
      .def("range", &HeldIndex::range<Objects>, nb::arg("queries"), nb::arg("radius"), nb::arg("options"),
           nb::arg("recall").none(), nb::arg("fraction").none(), nb::arg("exact"), nb::arg("tune_on"),
           nb::arg("max_results"));
}

}  // namespace

void bind_permutation(nb::module_& m) {
  nb::class_<HeldIndex> index(m, "PermutationIndex", nb::type_slots(collected<HeldIndex>),
                              "An index that keeps borrowed rows alive.");
  bind_objects<Rows>(index);
  bind_objects<Texts>(index);
  index
      .def_static(
          "open",
          [](const nb::bytes& path, const Options& options, bool verify, bool copy) {
            return new HeldIndex(std::string(path.c_str(), path.size()), options, verify, copy);
          },
          nb::arg("path"), nb::arg("options"), nb::arg("verify"), nb::arg("copy"))
      .def_static(
          "own",
          [](std::int64_t count, nb::object between, const Options& options, std::optional<std::int64_t> permutants,
             const std::string& choice, const std::vector<std::int64_t>& given, std::uint64_t seed,
             const std::string& rank_distance, const std::string& form, std::int64_t prefix) {
            return new HeldIndex(
                count, CallableDistance(std::move(between)), options,
                index_options(options, permutants, choice, given, seed, rank_distance, form, prefix, 0, false, false));
          },
          nb::arg("count"), nb::arg("between"), nb::arg("options"), nb::arg("permutants").none(), nb::arg("choice"),
          nb::arg("given"), nb::arg("seed"), nb::arg("rank_distance"), nb::arg("form"), nb::arg("prefix"))
      .def("knn_own", &HeldIndex::knn_own, nb::arg("queries"), nb::arg("distance"), nb::arg("options"),
           nb::arg("recall").none(), nb::arg("fraction").none(), nb::arg("exact"), nb::arg("tune_on"))
      .def("range_own", &HeldIndex::range_own, nb::arg("queries"), nb::arg("distance"), nb::arg("radius"),
           nb::arg("options"), nb::arg("recall").none(), nb::arg("fraction").none(), nb::arg("exact"),
           nb::arg("tune_on"), nb::arg("max_results"))
      .def("tune", &HeldIndex::tune, nb::arg("options"), nb::arg("recall").none(), nb::arg("fraction").none())
      .def("plan", &HeldIndex::plan, nb::arg("queries"), nb::arg("options"), nb::arg("recall").none(),
           nb::arg("fraction").none(), nb::arg("exact"))
      .def("save", &HeldIndex::save, nb::arg("path"))
      .def_static(
          "opened", [](const SavedArray& saved, const Options& options) { return new HeldIndex(saved, options); },
          nb::arg("saved"), nb::arg("options"))
      .def("saved", &HeldIndex::saved)
      .def_prop_ro("facts", &HeldIndex::facts);
}

}  // namespace vicinal::python
