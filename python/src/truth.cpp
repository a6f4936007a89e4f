// Ground truth from Python. Arguments have been checked for their Python types in vicinal/_truth.py.
#include "truth.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "arrays.hpp"
#include "call.hpp"
#include "knn.hpp"
#include "results.hpp"
#include "vicinal/truth.hpp"

namespace vicinal::python {
namespace {

/// What the host reads of arrays that the caller keeps.
struct HostRows {
  std::vector<Points> parts;
  std::int64_t count = 0;

  explicit HostRows(const nb::list& arrays) {
    for (const nb::handle array : arrays) {
      parts.push_back(nb::cast<const Rows&>(array).points());
      count += parts.back().rows;
    }
  }
};

TruthOptions options_of(const Options& options, const Progress& progress, const nb::bytes& directory,
                        std::int64_t verified_queries) {
  TruthOptions truth;
  truth.search = options.search(progress);
  truth.directory = {directory.c_str(), directory.size()};
  truth.verified_queries = verified_queries;
  return truth;
}

/// One result a tier; the certificate and the statistics are those of all.
nb::list truth_to_python(GroundTruth truth) {
  nb::list tiers;
  for (Tier& tier : truth.tiers) {
    tier.nearest.certificate = truth.certificate;
    tier.nearest.stats = truth.stats;
    tiers.append(neighbors_to_python(tier.nearest));
  }
  return tiers;
}

nb::list truth_from_python(const nb::list& base, const Rows& queries, const Options& options,
                           const std::vector<std::int64_t>& tiers, const nb::bytes& directory,
                           std::int64_t verified_queries) {
  const HostRows rows(base);
  const Points asked = queries.points();
  return truth_to_python(without_gil(options.progress, [&](const Progress& progress) {
    TruthOptions wanted = options_of(options, progress, directory, verified_queries);
    wanted.tiers = tiers;
    return vicinal::ground_truth(rows.parts, asked, wanted);
  }));
}

nb::list update_from_python(const Part& lists, const nb::list& base, const Rows& queries, const nb::list& inserted,
                            const Integers& deleted, const Options& options, const nb::bytes& directory,
                            std::int64_t verified_queries) {
  const HostRows old(base), fresh(inserted);
  const Points asked = queries.points();
  const TruthUpdate update{view_of(lists), old.parts, fresh.parts, {deleted.data(), deleted.shape(0)}};
  return truth_to_python(without_gil(options.progress, [&](const Progress& progress) {
    return vicinal::update_ground_truth(update, asked, options_of(options, progress, directory, verified_queries));
  }));
}

}  // namespace

void bind_truth(nb::module_& m) {
  m.def("ground_truth", &truth_from_python, nb::arg("base"), nb::arg("queries"), nb::arg("options"), nb::arg("tiers"),
        nb::arg("directory"), nb::arg("verified_queries"));
  m.def("update_ground_truth", &update_from_python, nb::arg("lists"), nb::arg("base"), nb::arg("queries"),
        nb::arg("inserted"), nb::arg("deleted"), nb::arg("options"), nb::arg("directory"), nb::arg("verified_queries"));
}

}  // namespace vicinal::python
