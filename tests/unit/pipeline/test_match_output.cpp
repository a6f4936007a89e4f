// Matches that are taken in any order, and where the system has no address space for all that there can be.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <numeric>

#include "pipeline/match_output.hpp"
#include "vicinal/error.hpp"

namespace vicinal {
namespace {

/// Pair p has p % 4 matches, that say which they are.
Matches taken_in(const std::vector<std::int64_t>& order, const MatchSpec& spec, DistanceType type) {
  MatchOutput output(spec, type);
  const MatchAnswer answer = [&](std::span<const std::int64_t> pairs, std::span<const std::int64_t> counts) {
    return output.take(pairs, counts);
  };
  for (const std::int64_t pair : order) {
    std::vector<FoundMatch> found;
    for (std::int64_t i = 0; i < pair % 4; ++i)
      found.push_back({pair, i, static_cast<double>(pair) + 0.25, static_cast<double>(i) / 4});
    give_matches(answer, pair, found);
  }
  return output.finish(2);
}

/// 40 pairs of two images of so many rows.
struct Asked {
  explicit Asked(std::int64_t rows) : images(2, Points(nullptr, DType::u8, rows, 4)), pairs(40, ImagePair{0, 1}) {}
  MatchSpec spec() const { return {.images = images, .pairs = pairs, .rule = {}}; }
  std::vector<Points> images;
  std::vector<ImagePair> pairs;
};

bool has_all(const Matches& all, DistanceType type) {
  const double quarter = type == DistanceType::u32 ? 0 : 0.25;
  std::size_t at = 0;
  bool same = all.pairs() == 40 && all.distances.type() == type;
  for (std::int64_t pair = 0; pair < 40; ++pair) {
    same = same && all.offsets[static_cast<std::size_t>(pair)] == static_cast<std::int64_t>(at);
    for (std::int64_t i = 0; i < pair % 4; ++i, ++at)
      same = same && all.rows[at] == Matches::Rows{pair, i} && all.ratios[at] == static_cast<double>(i) / 4 &&
             all.distances[at] == static_cast<double>(pair) + quarter;
  }
  return same && all.rows.size() == at && all.distances.size() == at && all.ratios.size() == at;
}

TEST(MatchOutput, MatchesLieByPairWhateverOrderTheyCameIn) {
  std::vector<std::int64_t> ascending(40), some;
  std::iota(ascending.begin(), ascending.end(), 0);
  std::vector<std::int64_t> descending(ascending.rbegin(), ascending.rend());
  const Asked asked(3);
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64, DistanceType::u32}) {
    EXPECT_TRUE(has_all(taken_in(ascending, asked.spec(), type), type));
    EXPECT_TRUE(has_all(taken_in(descending, asked.spec(), type), type));
  }
  const Matches none = taken_in({}, asked.spec(), DistanceType::f32);
  EXPECT_EQ(none.offsets, std::vector<std::int64_t>(41));
  EXPECT_TRUE(none.rows.empty());
}

TEST(MatchOutput, DistancesBeyondTheTypeAreRefused) {
  const Asked asked(3);
  MatchOutput output(asked.spec(), DistanceType::f32);
  const std::int64_t pair = 7, count = 1;
  const MatchPlaces places = output.take({&pair, 1}, {&count, 1});
  try {
    places.put(0, {1, 2, 1e300, 0});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::range_error);
  }
}

/// What the process has mapped, bytes.
rlim_t mapped() {
  unsigned long long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * 4096;
}

TEST(MatchOutput, FewerFitWhereAddressesAreFew) {
  const auto run = [] {
    const Asked asked(std::int64_t{1} << 32);  // 40 times 2^32 matches would take 4 TiB
    std::vector<std::int64_t> order(40);
    std::iota(order.begin(), order.end(), 0);
    const rlimit limit{mapped() + (rlim_t{256} << 20), RLIM_INFINITY};
    if (mapped() == 0 || ::setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
    std::exit(has_all(taken_in(order, asked.spec(), DistanceType::f32), DistanceType::f32) ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace vicinal
