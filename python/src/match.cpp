// Matching from Python; arguments were checked for their Python types in vicinal/_match.py.
#include "match.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "call.hpp"
#include "results.hpp"
#include "vicinal/match.hpp"

namespace vicinal::python {
namespace {

using PairList = nb::ndarray<const std::int64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

bool parse_lone(const std::string& name) {
  if (name != "accept" && name != "reject")
    throw Error(ErrorCode::invalid_argument, "unknown lone \"" + name + "\"; ways: accept, reject");
  return name == "accept";
}

const char* mutual_name(Mutual mutual) {
  switch (mutual) {
    case Mutual::tested: return "tested";
    case Mutual::nearest: return "nearest";
    case Mutual::one_way: break;
  }
  return "one_way";
}

/// Name to (distance, ratio, max_distance, mutual, strict, lone), each as match_pairs takes it.
nb::dict presets_to_python() {
  nb::dict presets;
  for (const std::string& name : vicinal::match_presets()) {
    const MatchOptions tests = vicinal::match_preset(name);
    const std::string distance = tests.distance.angle ? "angle" : std::string(metric_info(tests.distance.metric).name);
    presets[name.c_str()] = nb::make_tuple(distance, tests.ratio, tests.max_distance, mutual_name(tests.mutual),
                                           tests.strict, tests.accept_lone ? "accept" : "reject");
  }
  return presets;
}

/// The array takes over a part of the result.
template <class Element, class Part>
nb::object array_of(Part&& part, std::initializer_list<std::size_t> shape) {
  auto* held = new std::remove_cvref_t<Part>(std::forward<Part>(part));
  const nb::capsule keeper(held, [](void* p) noexcept { delete static_cast<std::remove_cvref_t<Part>*>(p); });
  static Element nothing{};
  auto* data = held->empty() ? &nothing : reinterpret_cast<Element*>(held->data());
  return nb::cast(nb::ndarray<nb::numpy, Element>(data, shape, keeper));
}

/// The array keeps the memory of a part of a result, which has no other owner.
template <class Element>
nb::object array_at(const std::shared_ptr<const void>& keeper, const void* data,
                    std::initializer_list<std::size_t> shape) {
  const nb::capsule owner(new std::shared_ptr<const void>(keeper),
                          [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  static Element nothing{};
  auto* first = data == nullptr ? &nothing : static_cast<Element*>(const_cast<void*>(data));
  return nb::cast(nb::ndarray<nb::numpy, Element>(first, shape, owner));
}

nb::object distances_of(const MatchDistances& distances) {
  const std::initializer_list<std::size_t> shape = {distances.size()};
  switch (distances.type()) {
    case DistanceType::f64: return array_at<double>(distances.keeper(), distances.data(), shape);
    case DistanceType::u32: return array_at<std::uint32_t>(distances.keeper(), distances.data(), shape);
    case DistanceType::automatic:
    case DistanceType::f32: break;
  }
  return array_at<float>(distances.keeper(), distances.data(), shape);
}

/// What a MatchGuide looks at.
struct Guided {
  MatchGuide guide;
  std::vector<std::array<double, 9>> matrices;
  std::vector<Points> keypoints;
};

MatchGuide::Model parse_model(const std::string& name) {
  if (name == "homography") return MatchGuide::Model::homography;
  if (name == "fundamental") return MatchGuide::Model::fundamental;
  return MatchGuide::Model::anywhere;
}

/// given: (model, matrices (P, 9), list of rows of keypoints, max_error, apart).
void read_guide(const nb::tuple& given, Guided& guided) {
  const auto matrices = nb::cast<nb::ndarray<const double, nb::shape<-1, 9>, nb::c_contig, nb::device::cpu>>(given[1]);
  guided.matrices.resize(matrices.shape(0));
  for (std::size_t p = 0; p < guided.matrices.size(); ++p)
    for (std::size_t i = 0; i < 9; ++i) guided.matrices[p][i] = matrices(p, i);
  for (const nb::handle one : nb::cast<nb::list>(given[2]))
    guided.keypoints.push_back(nb::cast<const Rows&>(one).points());
  guided.guide = {.model = parse_model(nb::cast<std::string>(given[0])),
                  .matrices = guided.matrices,
                  .keypoints = guided.keypoints,
                  .max_error = nb::cast<double>(given[3]),
                  .apart = nb::cast<double>(given[4])};
}

nb::tuple match_pairs_from_python(const nb::list& given, const PairList& pairs, const Options& options,
                                  const std::string& distance, std::optional<double> ratio,
                                  std::optional<double> max_distance, const std::string& mutual, bool strict,
                                  const std::string& lone, const std::optional<nb::tuple>& guide,
                                  const nb::bytes& directory) {
  std::vector<Points> images;
  for (const nb::handle one : given) {
    const auto& rows = nb::cast<const Rows&>(one);
    check_reach(options, {&rows});
    images.push_back(rows.anywhere());
  }
  std::vector<ImagePair> listed(pairs.shape(0));
  for (std::size_t p = 0; p < listed.size(); ++p) listed[p] = {pairs(p, 0), pairs(p, 1)};
  MatchOptions wanted{.distance = parse_match_distance(distance),
                      .ratio = ratio,
                      .strict = strict,
                      .max_distance = max_distance,
                      .mutual = parse_mutual(mutual),
                      .accept_lone = parse_lone(lone),
                      .memory = options.knn.memory,
                      .run = options.knn.run,
                      .stream = options.knn.stream};
  Guided guided;
  if (guide) {
    read_guide(*guide, guided);
    wanted.guide = &guided.guide;
  }
  const std::string folder(directory.c_str(), directory.size());
  Matches matches = without_gil(options.progress, [&](const Progress& progress) {
    wanted.progress = progress;
    return folder.empty() ? vicinal::match_pairs(images, listed, wanted)
                          : vicinal::match_pairs_resumable(images, listed, wanted, folder);
  });
  const std::size_t count = matches.rows.size(), ends = matches.offsets.size();
  return nb::make_tuple(
      array_of<std::int64_t>(std::move(matches.offsets), {ends}),
      array_at<std::int64_t>(matches.rows.keeper(), matches.rows.data(), {count, 2}), distances_of(matches.distances),
      array_at<double>(matches.ratios.keeper(), matches.ratios.data(), {count}), stats_to_python(matches.stats));
}

nb::object image_pairs_from_python(const std::string& how, std::int64_t images) {
  std::vector<ImagePair> pairs = vicinal::image_pairs(how, images);
  const std::size_t count = pairs.size();
  return array_of<std::int64_t>(std::move(pairs), {count, 2});
}

}  // namespace

void bind_match(nb::module_& m) {
  m.def("match_pairs", &match_pairs_from_python, nb::arg("images"), nb::arg("pairs"), nb::arg("options"),
        nb::arg("distance"), nb::arg("ratio").none(), nb::arg("max_distance").none(), nb::arg("mutual"),
        nb::arg("strict"), nb::arg("lone"), nb::arg("guide").none(), nb::arg("directory"));
  m.def("match_presets", &presets_to_python);
  m.def(
      "check_match_preset", [](const std::string& name) { vicinal::match_preset(name); }, nb::arg("name"));
  m.def("image_pairs", &image_pairs_from_python, nb::arg("how"), nb::arg("images"));
}

}  // namespace vicinal::python
