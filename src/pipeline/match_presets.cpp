// How other tools match, read from their sources (docs/matching.md has the table, and what is left of differences).
// Each entry names every test, so that what a tool does is read in one place.
#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "vicinal/match.hpp"

namespace vicinal {
namespace {

struct Preset {
  const char* name;
  MatchDistance distance;
  double ratio;
  bool strict;
  std::optional<double> max_distance;
  Mutual mutual;
  bool accept_lone;
};

constexpr double two_thirds = 2.0 / 3;  // rounded down
const Preset presets[] = {
    // COLMAP's feature/sift.cc and SiftGPU: the matchers by brute force, on the CPU and on the GPU, of rows of length
    // 512. The angle of whole numbers is never 0.7, so that "<" and "<=" of it are one.
    {"colmap", {.angle = true}, 0.8, true, 0.7, Mutual::tested, true},
    // COLMAP's feature/sift.cc and feature/index.cc: its default on the CPU, with an exact search in place of inverted
    // lists.
    {"colmap-cpu", {.metric = Metric::euclidean}, 0.8, true, 512 * 0.7, Mutual::tested, true},
    // hloc's matchers/nearest_neighbor.py as its settings "NN-ratio" have it: squared chords, which are twice the
    // cosine distance, by 0.8^2.
    {"hloc", {.metric = Metric::cosine}, 0.8 * 0.8, false, {}, Mutual::tested, true},
    // The test of OpenCV's tutorials after knnMatch(k=2): m.distance < 0.75 * n.distance. A lone candidate has no n.
    {"opencv", {.metric = Metric::euclidean}, 0.75, true, {}, Mutual::one_way, false},
    // kornia's feature/matching.py, match_smnn: best / second <= 0.95, which 0 / 0 is not; hence "<" of the number
    // after 0.95.
    {"kornia", {.metric = Metric::euclidean}, std::nextafter(0.95, 1), true, {}, Mutual::tested, false},
    // VLFeat's toolbox/sift/vl_ubcmatch.c: 1.5 * best <= second of squared distances; the number after 2/3 lets
    // equality pass.
    {"vlfeat", {.metric = Metric::sqeuclidean}, std::nextafter(two_thirds, 1), false, {}, Mutual::one_way, true},
};

}  // namespace

std::vector<std::string> match_presets() {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  return names;
}

MatchOptions match_preset(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(presets), std::end(presets), [&](const Preset& preset) { return preset.name == name; });
  if (found == std::end(presets)) refuse_name("preset", name, match_presets());
  return {.distance = found->distance,
          .ratio = found->ratio,
          .strict = found->strict,
          .max_distance = found->max_distance,
          .mutual = found->mutual,
          .accept_lone = found->accept_lone};
}

}  // namespace vicinal
