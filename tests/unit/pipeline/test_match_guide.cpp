// Matching with a guide from C++, against what can be seen by eye; python/tests/test_match_guide.py has the oracle.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "vicinal/error.hpp"
#include "vicinal/match.hpp"

namespace vicinal {
namespace {

using Place = MatchGuide::Place;
using Pairs = std::vector<Matches::Rows>;

// Rows 0 and 1 of b are both like row 0 of a, row 0 a little more so; row 2 is like row 1 of a.
constexpr std::array<float, 4> a_rows = {0, 0, 9, 9};
constexpr std::array<float, 6> b_rows = {0, 1, 1, 1, 9, 8};
const Points a(MatrixView<float>{a_rows.data(), 2, 2}), b(MatrixView<float>{b_rows.data(), 3, 2});
constexpr std::array<Place, 2> a_places = {{{10, 10}, {50, 50}}};
constexpr std::array<Place, 3> b_places = {{{80, 10}, {12, 10}, {50, 51}}};
constexpr std::array<double, 9> same = {1, 0, 0, 0, 1, 0, 0, 0, 1};

MatchGuide guide_of(MatchGuide::By by, double max_error, double apart = 0) {
  return {.a = a_places, .b = b_places, .by = by, .matrix = same, .max_error = max_error, .apart = apart};
}

Pairs matched(const MatchGuide& guide, Mutual mutual = Mutual::tested) {
  return match(a, b, {.mutual = mutual, .guides = {&guide, 1}}).rows;
}

TEST(MatchGuide, HomographyLeavesWhatIsNear) {
  EXPECT_EQ(matched(guide_of(MatchGuide::By::homography, 2)), (Pairs{{0, 1}, {1, 2}}));  // 2 pixels off, inclusive
  EXPECT_EQ(matched(guide_of(MatchGuide::By::homography, 1.99)), (Pairs{{1, 2}}));
  EXPECT_EQ(matched(guide_of(MatchGuide::By::homography, 1000)), (Pairs{{0, 0}, {1, 2}}));
}

TEST(MatchGuide, SecondBestsBesideTheBestAreNoRivals) {
  const std::vector<Place> beside = {{80, 10}, {81, 10}, {50, 51}};
  MatchGuide guide = guide_of(MatchGuide::By::places, 1, 10);
  const auto ratio = [&] { return match(a, b, {.mutual = Mutual::one_way, .guides = {&guide, 1}}).ratios.at(0); };
  EXPECT_DOUBLE_EQ(ratio(), 1 / std::sqrt(2));  // row 1 of b is 68 pixels away
  guide.b = beside;
  EXPECT_DOUBLE_EQ(ratio(), 1 / std::sqrt(145));  // row 2
}

TEST(MatchGuide, LoneOnesAreAcceptedOrNot) {
  const MatchGuide guide = guide_of(MatchGuide::By::homography, 2);
  EXPECT_EQ(match(a, b, {.accept_lone = true, .guides = {&guide, 1}}).ratios, (std::vector<double>{0, 0}));
  EXPECT_EQ(match(a, b, {.accept_lone = false, .guides = {&guide, 1}}).pairs(), 1);
  EXPECT_TRUE(match(a, b, {.accept_lone = false, .guides = {&guide, 1}}).rows.empty());
}

TEST(MatchGuide, WhatIsWrongIsNamed) {
  MatchGuide guide = guide_of(MatchGuide::By::homography, 2);
  guide.matrix[4] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(matched(guide), Error);
  guide = guide_of(MatchGuide::By::homography, 0);
  EXPECT_THROW(matched(guide), Error);
  guide = guide_of(MatchGuide::By::homography, 2);
  guide.b = guide.b.first(2);
  EXPECT_THROW(matched(guide), Error);
  const std::array<MatchGuide, 2> two = {guide_of(MatchGuide::By::places, 1), guide_of(MatchGuide::By::places, 1)};
  EXPECT_THROW(match(a, b, {.guides = two}), Error);
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
