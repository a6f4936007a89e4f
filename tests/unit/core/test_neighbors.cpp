// The memory of results, on both sides of where it lies in huge pages, and results that fit no memory.
#include "vicinal/neighbors.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "core/buffer.hpp"
#include "vicinal/error.hpp"

namespace vicinal {
namespace {

TEST(Neighbors, ArraysOfAllSizesAreWrittenAndKept) {
  const auto most = static_cast<std::int64_t>(huge_from / sizeof(std::int64_t));
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, most - 1, most, most + 1}) {
    std::shared_ptr<const void> ids;
    {
      Neighbors found(rows, 1, DistanceType::f64, true);
      const NeighborsView view = found.view();
      ASSERT_NE(view.ids, nullptr);
      for (std::int64_t i = 0; i < rows; ++i) view.ids[i] = i, view.counts[i] = 1;
      std::memset(view.distances, 7, static_cast<std::size_t>(rows) * 8);
      ids = found.shared_ids();
    }
    for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(static_cast<const std::int64_t*>(ids.get())[i], i);
  }
}

TEST(Neighbors, ResultsThatFitNoMemoryAreRefused) {
  const auto code = [](const auto& make) {
    try {
      make();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  // The bytes of the second would be 8 MiB modulo 2^64.
  EXPECT_EQ(code([] { Neighbors(std::int64_t{1} << 55, 1, DistanceType::f64, false); }), ErrorCode::out_of_memory);
  EXPECT_EQ(code([] { CsrNeighbors(1, (std::int64_t{1} << 61) + (1 << 20), DistanceType::f64); }),
            ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace vicinal
