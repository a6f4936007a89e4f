// Matching in pieces: the bits of one call, whenever it was stopped and whatever was damaged; and no other call's pieces.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "pipeline/match.hpp"
#include "vicinal/error.hpp"
#include "vicinal/resume.hpp"

namespace vicinal::resume_match_test {
namespace {

namespace fs = std::filesystem;

/// 19 images, which have 171 pairs: three pieces at the least, of 64 pairs.
struct Images {
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<Points> images;
  std::vector<ImagePair> pairs = image_pairs("exhaustive", 19);
  fs::path folder = fs::temp_directory_path() / ("vicinal-matches-" + std::to_string(::getpid()));

  Images() {
    std::mt19937 random(3);
    std::vector<std::uint8_t> around(40 * 8);
    for (auto& x : around) x = static_cast<std::uint8_t>(random() % 256);
    for (std::int64_t i = 0; i < 19; ++i) {
      auto& own = bytes.emplace_back(around);
      for (auto& x : own) x = static_cast<std::uint8_t>(std::min<std::uint32_t>(x + random() % 9, 255));
      images.push_back(MatrixView<std::uint8_t>{own.data(), i == 4 ? 0 : 40 - i, 8});
    }
    fs::remove_all(folder);
  }
  ~Images() { fs::remove_all(folder); }
  Matches resumed(const MatchOptions& options) const {
    return match_in_pieces(images, pairs, options, folder.string(), {1, 64, 64, [] { return 0.0; }});
  }
};

void expect_same(const Matches& got, const Matches& want) {
  EXPECT_EQ(got.offsets, want.offsets);
  EXPECT_TRUE(got.rows == want.rows);
  EXPECT_TRUE(got.ratios == want.ratios);
  ASSERT_EQ(got.distances.type(), want.distances.type());
  ASSERT_EQ(got.distances.size(), want.distances.size());
  EXPECT_EQ(std::memcmp(got.distances.data(), want.distances.data(),
                        want.distances.size() * distance_size(want.distances.type())),
            0);
}

TEST(ResumeMatch, GoesOnWhereItWasStopped) {
  const Images data;
  for (const bool packed : {false, true}) {
    MatchOptions options{.ratio = 0.95};
    if (packed) options.distance = parse_match_distance("hamming");
    const Matches whole = match_pairs(data.images, data.pairs, options);
    ASSERT_GT(whole.rows.size(), 1000u);
    std::int64_t saved = 0;
    for (const std::int64_t pairs : {64, 128}) {
      options.progress = [&](std::uint64_t, std::uint64_t) {
        return saved_pieces(data.folder.string()).pairs <= saved;
      };
      EXPECT_THROW(data.resumed(options), Error);
      saved = saved_pieces(data.folder.string()).pairs;
      EXPECT_EQ(saved, pairs);
    }
    std::uint64_t told = 0, total = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_LE(told, done);
      told = done;
      total = all;
      return true;
    };
    expect_same(data.resumed(options), whole);
    EXPECT_EQ(told, total);
    EXPECT_EQ(saved_pieces(data.folder.string()).pairs, 171);
    for (const auto& entry : fs::directory_iterator(data.folder)) {
      fs::resize_file(entry.path(), 200);
      told = 0;
      expect_same(data.resumed(options), whole);
    }
    told = 0;
    expect_same(match_pairs_resumable(data.images, data.pairs, options, data.folder.string() + "/own"), whole);
    discard_pieces(data.folder.string() + "/own");
    discard_pieces(data.folder.string());
    EXPECT_FALSE(fs::exists(data.folder));
  }
}

TEST(ResumeMatch, OtherImagesPairsOrTestsAreRefused) {
  Images data;
  const MatchOptions options{.ratio = 0.95};
  data.resumed(options);
  const auto refused = [&](const MatchOptions& with) {
    try {
      data.resumed(with);
    } catch (const Error& error) {
      return std::string(error.what()).find("another search, of other rows or other options (matching of 1") !=
             std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused({.ratio = 0.9}));
  EXPECT_TRUE(refused({.ratio = 0.95, .strict = false}));
  EXPECT_TRUE(refused({.ratio = 0.95, .mutual = Mutual::one_way}));
  EXPECT_TRUE(refused({.distance = {.metric = Metric::l1}, .ratio = 0.95}));
  data.bytes[17][3] ^= 1;
  EXPECT_TRUE(refused(options));
  data.bytes[17][3] ^= 1;
  std::swap(data.pairs[0], data.pairs[1]);
  EXPECT_TRUE(refused(options));
  std::swap(data.pairs[0], data.pairs[1]);
  expect_same(data.resumed(options), match_pairs(data.images, data.pairs, options));
  data.pairs[5] = {3, 19};
  EXPECT_THROW(data.resumed(options), Error);
}

}  // namespace
}  // namespace vicinal::resume_match_test
