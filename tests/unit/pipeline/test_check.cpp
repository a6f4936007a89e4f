// How many matches a range search may find, and what is said of more.
#include <gtest/gtest.h>

#include <string>

#include "pipeline/check.hpp"
#include "unit/idle_backend.hpp"
#include "vicinal/error.hpp"

namespace vicinal {
namespace {

struct BackendWithMemory : IdleBackend {
  std::int64_t free = 0;
  std::int64_t free_bytes() const override { return free; }
};

std::string refusal_of(std::int64_t entries, std::int64_t max_results, std::int64_t most) {
  try {
    refuse_entries(entries, max_results, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capacity_exceeded);
    return error.what();
  }
}

TEST(Matches, AsManyAsTheCallerSaysOrFreeMemoryHolds) {
  BackendWithMemory backend;
  backend.free = 12 * 1000;
  EXPECT_EQ(most_matches(7, backend, DistanceType::f32), 7);
  EXPECT_EQ(most_matches(1'000'000, backend, DistanceType::f32), 1'000'000);
  EXPECT_EQ(most_matches(0, backend, DistanceType::f32), 900);  // an id and a distance each, of nine tenths
  EXPECT_EQ(most_matches(0, backend, DistanceType::f64), 675);
  backend.free = 0;
  EXPECT_EQ(most_matches(0, backend, DistanceType::u32), 1);
}

TEST(Matches, MoreAreRefusedWithTheLimitThatItIsAndTheWayOut) {
  EXPECT_EQ(refusal_of(50, 49, 49),
            "the result has 50 matches, max_results is 49; lower the radius, or pass max_results=50");
  EXPECT_EQ(refusal_of(901, 0, 900),
            "the result has 901 matches, free memory holds 900; lower the radius, search fewer queries at a time, or "
            "pass max_results=901");
}

}  // namespace
}  // namespace vicinal
