// Matching against plain loops over whole numbers, whose ratio test is a comparison of integers: ratios here are fractions of 2^10. Every instruction
// set, the searches of two directions as the twin, threads, layouts, ways of being mutual, ties, lone rows, and memory for few images at a time.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance/settings.hpp"
#include "conformance/support.hpp"

namespace conformance {
namespace {

using vicinal::ImagePair;
using vicinal::Matches;
using vicinal::MatchOptions;
using vicinal::Mutual;
using vicinal::Points;

/// Rows around few centres, many of them equal.
Table image(std::uint64_t seed, DType type, std::int64_t n, std::int64_t d, int spread) {
  Rng rng(seed), centres(99);
  const int low = type == DType::i8 ? -128 : 0;
  std::vector<double> around, values;
  for (std::int64_t i = 0; i < 16 * d; ++i) around.push_back(static_cast<double>(centres.between(low, low + 255)));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto centre = static_cast<std::size_t>(rng.between(0, 15) * d);
    const bool same = rng.chance(0.3);
    for (std::int64_t c = 0; c < d; ++c)
      values.push_back(std::clamp<double>(
          around[centre + static_cast<std::size_t>(c)] + (same ? 0 : static_cast<double>(rng.between(-spread, spread))),
          low, low + 255));
  }
  return {type, n, d, values};
}

struct Tests {
  std::int64_t numerator = 819;  // of the ratio, over 1024; 0: none
  bool strict = true, lone = true;
  Mutual mutual = Mutual::tested;
  bool roots = true;  // euclidean, else sqeuclidean

  MatchOptions options() const {
    MatchOptions asked{.distance = {roots ? Metric::euclidean : Metric::sqeuclidean},
                       .strict = strict,
                       .mutual = mutual,
                       .accept_lone = lone};
    asked.ratio.reset();
    if (numerator > 0) asked.ratio = static_cast<double>(numerator) / 1024;
    return asked;
  }
};

struct Best {
  std::int64_t id = -1, best = 0, second = 0;
};
std::vector<Best> best_of(const oracle::Rows& from, const oracle::Rows& to) {
  std::vector<Best> all;
  for (std::int64_t i = 0; i < from.n; ++i) {
    Best best;
    for (std::int64_t j = 0; j < to.n; ++j) {
      std::int64_t square = 0;
      for (std::int64_t c = 0; c < from.d; ++c) {
        const auto t = static_cast<std::int64_t>(from.row(i)[c] - to.row(j)[c]);
        square += t * t;
      }
      if (j == 0 || square < best.best) {
        best.second = best.best;
        best.best = square;
        best.id = j;
      } else if (j == 1 || square < best.second) {
        best.second = square;
      }
    }
    all.push_back(best);
  }
  return all;
}
bool passes(const Tests& test, const Best& best, std::int64_t others) {
  if (test.numerator == 0) return true;
  if (others < 2) return test.lone;
  const std::int64_t power = test.roots ? 2 : 1;
  __extension__ using Wide = __int128;
  Wide left = best.best, right = best.second;
  for (std::int64_t i = 0; i < power; ++i) {
    left *= 1024;
    right *= test.numerator;
  }
  return left < right || (left == right && !test.strict);
}
std::vector<Matches::Rows> expected(const Table& a, const Table& b, const Tests& test) {
  std::vector<Matches::Rows> found;
  if (a.n == 0 || b.n == 0) return found;
  const std::vector<Best> forth = best_of(a.rows(), b.rows()), back = best_of(b.rows(), a.rows());
  for (std::int64_t i = 0; i < a.n; ++i) {
    const Best& best = forth[static_cast<std::size_t>(i)];
    const Best& other = back[static_cast<std::size_t>(best.id)];
    if (!passes(test, best, b.n)) continue;
    if (test.mutual != Mutual::one_way && other.id != i) continue;
    if (test.mutual == Mutual::tested && !passes(test, other, a.n)) continue;
    found.push_back({i, best.id});
  }
  return found;
}

void expect_equal(const Matches& got, const Matches& want) {
  EXPECT_EQ(got.offsets, want.offsets);
  EXPECT_TRUE(got.rows == want.rows);
  EXPECT_TRUE(got.ratios == want.ratios);
  ASSERT_EQ(got.distances.type(), want.distances.type());
  ASSERT_EQ(got.distances.size(), want.distances.size());
  for (std::size_t i = 0; i < want.distances.size(); ++i) ASSERT_EQ(got.distances[i], want.distances[i]);
}

const std::vector<Tests> all_tests = {{},
                                      {.numerator = 0},
                                      {.numerator = 1000, .mutual = Mutual::nearest},
                                      {.numerator = 768, .mutual = Mutual::one_way},
                                      {.numerator = 1024, .strict = false},
                                      {.numerator = 700, .lone = false, .mutual = Mutual::one_way, .roots = false},
                                      {.numerator = 1500, .mutual = Mutual::one_way, .roots = false}};

class Match : public testing::TestWithParam<DType> {};

TEST_P(Match, EverySettingHasTheMatchesOfPlainLoops) {
  std::int64_t matches = 0;
  for (const auto& [d, spread] : {std::pair<std::int64_t, int>{128, 40}, {5, 3}, {1, 4}, {67, 2}}) {
    std::vector<Table> images;
    for (const std::int64_t n : {150, 33, 0, 1, 2, 290})
      images.push_back(image(images.size(), GetParam(), n, d, spread));
    std::vector<Points> points;
    for (const Table& one : images) points.push_back(one.points());
    const std::vector<ImagePair> pairs = vicinal::image_pairs("exhaustive", static_cast<std::int64_t>(points.size()));
    for (const Tests& test : all_tests) {
      const Matches found = vicinal::match_pairs(points, pairs, test.options());
      // Roots of floats are rounded, so that a border between two of them may lie elsewhere.
      const bool whole = GetParam() != DType::f32 || !test.roots || test.numerator % 1024 == 0;
      for (std::size_t p = 0; whole && p < pairs.size(); ++p) {
        const auto [a, b] = pairs[p];
        const std::vector<Matches::Rows> got(found.rows.begin() + found.offsets[p],
                                             found.rows.begin() + found.offsets[p + 1]);
        EXPECT_EQ(got, expected(images[static_cast<std::size_t>(a)], images[static_cast<std::size_t>(b)], test))
            << "pair " << p << " of " << d << " columns";
      }
      matches += found.offsets.back();
      MatchOptions searched = test.options();
      searched.run.filter = "canonical";
      expect_equal(vicinal::match_pairs(points, pairs, searched), found);
      for (const std::string& set : instruction_sets())
        for (const int threads : {1, 3}) {
          MatchOptions forced = test.options();
          forced.run.instruction_set = set;
          forced.run.threads = threads;
          expect_equal(vicinal::match_pairs(points, pairs, forced), found);
        }
    }
  }
  EXPECT_GT(matches, 500);
}

TEST_P(Match, LayoutsAndMemoryChangeNothing) {
  const Table a = image(1, GetParam(), 120, 40, 9), b = image(2, GetParam(), 140, 40, 9);
  const Matches want = vicinal::match(a.points(), b.points());
  for (const Layout layout : all_layouts)
    expect_equal(vicinal::match(Arranged(a, layout).points, Arranged(b, layout).points), want);
  std::vector<Points> many;
  for (int i = 0; i < 6; ++i) many.push_back(i % 2 == 0 ? a.points() : b.points());
  const std::vector<ImagePair> pairs = vicinal::image_pairs("exhaustive", 6);
  MatchOptions options;
  const Matches all = vicinal::match_pairs(many, pairs, options);
  options.memory.host = 60000;  // of three images
  expect_equal(vicinal::match_pairs(many, pairs, options), all);
  if (all.stats.device != "cpu") return;  // the budget is the host's
  options.memory.host = 1000;
  EXPECT_THROW(vicinal::match_pairs(many, pairs, options), vicinal::Error);
}

// f32: whole numbers from 0 to 255, as OpenCV has descriptors of SIFT, whose distances are rounded roots.
INSTANTIATE_TEST_SUITE_P(OfWholeNumbers, Match, testing::Values(DType::u8, DType::i8, DType::f32),
                         [](const auto& info) { return vicinal::dtype_name(info.param); });

TEST(MatchBits, PackedBits) {
  Rng rng(5);
  std::vector<Table> images;
  for (const std::int64_t n : {90, 70}) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < n * 6; ++i) values.push_back(static_cast<double>(rng.between(0, 255)));
    images.emplace_back(DType::u8, n, 6, values);
  }
  MatchOptions options{.distance = vicinal::parse_match_distance("hamming"), .ratio = 0.9};
  const Matches found = vicinal::match(images[0].points(), images[1].points(), options);
  EXPECT_EQ(found.distances.type(), vicinal::DistanceType::u32);
  EXPECT_GT(found.rows.size(), 0u);
  options.run.filter = "canonical";
  expect_equal(vicinal::match(images[0].points(), images[1].points(), options), found);
}

/// Rows fill several tiles and blocks: the second best of a row is now in the group of its best, now in another, and equal bests are in one or in two.
TEST(MatchCalls, BestAndSecondLieInAnyGroups) {
  std::size_t matches = 0;
  for (const auto& [d, spread] : {std::pair<std::int64_t, int>{16, 30}, {3, 9}, {100, 60}}) {
    const Table a = image(1, DType::u8, 700, d, spread), b = image(2, DType::u8, 900, d, spread);
    for (const Mutual mutual : {Mutual::tested, Mutual::one_way})
      for (const std::optional<double> ratio : {std::optional(0.97), std::optional<double>()}) {
        MatchOptions options{.ratio = ratio, .mutual = mutual};
        options.run.filter = "canonical";
        const Matches want = vicinal::match(a.points(), b.points(), options);
        matches += want.rows.size();
        options.run.filter = "auto";
        for (const std::string& set : instruction_sets()) {
          options.run.instruction_set = set;
          expect_equal(vicinal::match(a.points(), b.points(), options), want);
        }
      }
  }
  EXPECT_GT(matches, 1000u);
}

TEST(MatchCalls, ManyRowsOfOnePairAreSharedAmongThreads) {
  const Table a = image(1, DType::u8, 3000, 16, 30), b = image(2, DType::u8, 2500, 16, 30);
  MatchOptions options{.ratio = 0.95};
  options.run.threads = 1;
  const Matches want = vicinal::match(a.points(), b.points(), options);
  EXPECT_GT(want.rows.size(), 0u);
  for (const int threads : {2, 7}) {
    options.run.threads = threads;
    expect_equal(vicinal::match(a.points(), b.points(), options), want);
  }
}

TEST(MatchCalls, StopsWhenItIsTold) {
  const Table a = image(1, DType::u8, 3000, 64, 30);
  for (const char* filter : {"auto", "canonical"}) {
    MatchOptions options;
    options.run.filter = filter;
    options.progress = [](std::uint64_t, std::uint64_t) { return false; };
    try {
      vicinal::match(a.points(), a.points(), options);
      ADD_FAILURE() << "was not cancelled";
    } catch (const vicinal::Error& error) {
      EXPECT_EQ(error.code(), vicinal::ErrorCode::cancelled);
    }
  }
}

TEST(MatchCalls, OtherImagesOfACallChangeNothing) {
  const Table bytes[] = {image(1, DType::u8, 40, 16, 9), image(2, DType::u8, 50, 16, 9)},
              floats = image(3, DType::f32, 10, 16, 9), doubles = image(4, DType::f64, 10, 16, 9),
              none(DType::f64, 0, 16, {});
  const Points images[] = {bytes[0].points(), bytes[1].points(), floats.points(), doubles.points(), none.points()};
  for (const char* distance : {"angle", "euclidean", "l1"}) {
    const MatchOptions options{.distance = vicinal::parse_match_distance(distance)};
    const Matches alone = vicinal::match(images[0], images[1], options);
    const ImagePair named[] = {{0, 1}}, emptied[] = {{0, 1}, {4, 0}};
    expect_equal(vicinal::match_pairs(images, named, options), alone);
    EXPECT_TRUE(vicinal::match_pairs(images, emptied, options).rows == alone.rows);
    EXPECT_EQ(vicinal::match_pairs(images, emptied, options).distances.type(), alone.distances.type());
    // Pairs that are compared by other values are refused together.
    const ImagePair mixed[] = {{0, 1}, {0, 2}}, wider[] = {{2, 2}, {2, 3}};
    if (std::string(distance) != "l1") EXPECT_THROW(vicinal::match_pairs(images, mixed, options), vicinal::Error);
    else EXPECT_NO_THROW(vicinal::match_pairs(images, mixed, options));
    EXPECT_THROW(vicinal::match_pairs(images, wider, options), vicinal::Error);
    EXPECT_NO_THROW(vicinal::match(images[2], images[3], options));
  }
}

TEST(MatchCalls, SaysWhatIsWrong) {
  const Table a = image(1, DType::u8, 3, 4, 9), b = image(1, DType::u8, 3, 5, 9);
  const auto code = [](auto call) {
    try {
      call();
    } catch (const vicinal::Error& error) {
      return error.code();
    }
    return vicinal::ErrorCode::internal;
  };
  const auto refused = vicinal::ErrorCode::invalid_argument;
  EXPECT_EQ(code([&] { vicinal::match(a.points(), b.points()); }), refused);
  for (const double ratio : {0.0, -1.0, 1e7, double{NAN}})
    EXPECT_EQ(code([&] { vicinal::match(a.points(), a.points(), {.ratio = ratio}); }), refused);
  EXPECT_EQ(code([&] { vicinal::match(a.points(), a.points(), {.max_distance = -1.0}); }), refused);
  const Points images[] = {a.points()};
  const ImagePair pair[] = {{0, 1}};
  EXPECT_EQ(code([&] { vicinal::match_pairs(images, pair); }), refused);
  EXPECT_EQ(code([&] { vicinal::parse_match_distance("inner_product"); }), refused);
  EXPECT_EQ(code([&] { vicinal::image_pairs("sequential:", 3); }), refused);
}

}  // namespace
}  // namespace conformance
