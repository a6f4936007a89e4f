// Matching with a guide from C++, against what can be seen by eye; python/tests/test_match_guide.py has the oracle.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "vicinal/error.hpp"
#include "vicinal/match.hpp"

namespace vicinal {
namespace {

using Pairs = std::vector<Matches::Rows>;

// Rows 0 and 1 of b are both like row 0 of a, row 0 a little more so; row 2 is like row 1 of a.
constexpr std::array<float, 4> a_rows = {0, 0, 9, 9};
constexpr std::array<float, 6> b_rows = {0, 1, 1, 1, 9, 8};
const Points a(MatrixView<float>{a_rows.data(), 2, 2}), b(MatrixView<float>{b_rows.data(), 3, 2});
constexpr std::array<double, 4> a_places = {10, 10, 50, 50};
constexpr std::array<double, 6> b_places = {80, 10, 12, 10, 50, 51};
const std::array<Points, 2> keypoints = {MatrixView<double>{a_places.data(), 2, 2},
                                         MatrixView<double>{b_places.data(), 3, 2}};
constexpr std::array<std::array<double, 9>, 1> same = {{{1, 0, 0, 0, 1, 0, 0, 0, 1}}};

MatchGuide guide_of(MatchGuide::Model model, double max_error, double apart = 0) {
  return {.model = model, .matrices = same, .keypoints = keypoints, .max_error = max_error, .apart = apart};
}

Pairs matched(const MatchGuide& guide) {
  const auto rows = match(a, b, {.guide = &guide}).rows;
  return {rows.begin(), rows.end()};
}

TEST(MatchGuide, HomographyLeavesWhatIsNear) {
  EXPECT_EQ(matched(guide_of(MatchGuide::Model::homography, 2)), (Pairs{{0, 1}, {1, 2}}));  // 2 pixels off, inclusive
  EXPECT_EQ(matched(guide_of(MatchGuide::Model::homography, 1.99)), (Pairs{{1, 2}}));
  EXPECT_EQ(matched(guide_of(MatchGuide::Model::homography, 1000)), (Pairs{{0, 0}, {1, 2}}));
}

TEST(MatchGuide, SecondBestsBesideTheBestAreNoRivals) {
  constexpr std::array<double, 6> beside = {80, 10, 81, 10, 50, 51};
  const std::array<Points, 2> near = {keypoints[0], MatrixView<double>{beside.data(), 3, 2}};
  MatchGuide guide = guide_of(MatchGuide::Model::anywhere, 1, 10);
  const auto ratio = [&] { return match(a, b, {.mutual = Mutual::one_way, .guide = &guide}).ratios[0]; };
  EXPECT_DOUBLE_EQ(ratio(), 1 / std::sqrt(2));  // row 1 of b is 68 pixels away
  guide.keypoints = near;
  EXPECT_DOUBLE_EQ(ratio(), 1 / std::sqrt(145));  // row 2
}

TEST(MatchGuide, ADistanceApartWhoseSquareUnderflowsIsOneAllTheSame) {
  constexpr std::array<double, 6> together = {80, 10, 80, 10, 50, 51};
  const std::array<Points, 2> places = {keypoints[0], MatrixView<double>{together.data(), 3, 2}};
  for (const auto& [apart, second] : {std::pair{1e-200, 145}, std::pair{0.0, 2}}) {
    MatchGuide guide = guide_of(MatchGuide::Model::anywhere, 1, apart);
    guide.keypoints = places;
    EXPECT_DOUBLE_EQ(match(a, b, {.mutual = Mutual::one_way, .guide = &guide}).ratios[0], 1 / std::sqrt(second));
  }
}

TEST(MatchGuide, LoneOnesAreAcceptedOrNot) {
  const MatchGuide guide = guide_of(MatchGuide::Model::homography, 2);
  const auto ratios = match(a, b, {.accept_lone = true, .guide = &guide}).ratios;
  EXPECT_EQ(std::vector<double>(ratios.begin(), ratios.end()), (std::vector<double>{0, 0}));
  EXPECT_TRUE(match(a, b, {.accept_lone = false, .guide = &guide}).rows.empty());
}

// Searches speak of a corpus and of queries, and advise on their options.
TEST(Match, ErrorsOfRowsAreInWordsOfImages) {
  const MatchGuide everything = guide_of(MatchGuide::Model::anywhere, 1);
  const auto said = [&](const std::array<double, 4>& rows, bool first, Metric metric, const MatchGuide* guide) {
    constexpr std::array<double, 4> fine = {1, 2, 3, 4};
    const Points image(MatrixView<double>{rows.data(), 2, 2}), other(MatrixView<double>{fine.data(), 2, 2});
    try {
      match(first ? image : other, first ? other : image, {.distance = {.metric = metric}, .guide = guide});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  for (const MatchGuide* guide : {static_cast<const MatchGuide*>(nullptr), &everything}) {
    EXPECT_EQ(said({1, 1, 0, 0}, false, Metric::cosine, guide),
              "row 1 of image 1 is zero: cosine undefined (1 row); remove them");
    EXPECT_EQ(said({1, 1, 0, 0}, true, Metric::cosine, guide),
              "row 1 of image 0 is zero: cosine undefined (1 row); remove them");
    EXPECT_EQ(said({1, NAN, 1, 0}, true, Metric::euclidean, guide),
              "row 0 of image 0, column 1 is NaN (1 bad row in all); remove or impute such rows first");
    EXPECT_EQ(said({1e200, 1, 1, 0}, false, Metric::cosine, guide),
              "row 0 of image 1 has a squared norm outside [2^-500, 2^500] (1 such row in all): cosine would overflow "
              "or underflow; "
              "scale the rows first");
  }
  EXPECT_EQ(said({1e200, 1, 1e200, 0}, false, Metric::sqeuclidean, nullptr),
            "squared distance exceeds f64; use euclidean or scale the rows (image 1 and image 0)");
}

TEST(MatchPresets, HaveNamesAndTests) {
  EXPECT_EQ(match_presets(), (std::vector<std::string>{"colmap", "colmap-cpu", "hloc", "opencv", "kornia", "vlfeat"}));
  const MatchOptions colmap = match_preset("colmap");
  EXPECT_TRUE(colmap.distance.angle && colmap.strict && colmap.accept_lone && colmap.mutual == Mutual::tested);
  EXPECT_EQ(colmap.ratio, 0.8);
  EXPECT_EQ(colmap.max_distance, 0.7);
  EXPECT_THROW(match_preset("bundler"), Error);
}

}  // namespace
}  // namespace vicinal
