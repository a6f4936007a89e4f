// Memory of stages: what is mapped, what is reserved and given back.
#include "core/buffer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "vicinal/error.hpp"

namespace vicinal {
namespace {

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
/// Whether the page is part of the process's address space.
bool mapped(const std::byte* at) {
  unsigned char there = 0;
  return ::mincore(const_cast<std::byte*>(at), page(), &there) == 0;
}

TEST(ReservedBytes, KeepsTheFirstBytesAndGivesBackThePagesBehind) {
  for (const std::size_t all : {5 * page(), 5 * page() - 1, 4 * page() + 1})
    for (const std::size_t kept :
         {std::size_t{0}, std::size_t{1}, page() - 1, page(), page() + 1, all - 1, all, all + 1}) {
      ReservedBytes bytes(all);
      auto* const at = static_cast<std::byte*>(bytes.at());
      ASSERT_NE(at, nullptr);
      std::memset(at, 7, all);
      bytes.trim(kept);
      for (std::size_t p = 0; p < 5; ++p)
        EXPECT_EQ(mapped(at + p * page()), p * page() < kept) << all << ' ' << kept << ' ' << p;
      for (std::size_t i = 0; i < kept && i < all; ++i) ASSERT_EQ(at[i], std::byte{7});
      const ReservedBytes moved(std::move(bytes));
      EXPECT_EQ(moved.at(), kept == 0 ? nullptr : at);
    }
}

TEST(ReservedBytes, NothingAndWhatTheSystemRefusesAreNull) {
  EXPECT_EQ(ReservedBytes(0).at(), nullptr);
  EXPECT_EQ(ReservedBytes(std::numeric_limits<std::size_t>::max()).at(), nullptr);
  EXPECT_EQ(ReservedBytes(std::numeric_limits<std::size_t>::max() / 2 - 1).at(), nullptr);
  try {
    acquire_bytes(std::numeric_limits<std::size_t>::max() / 2 - 1);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

TEST(Buffer, BytesOnBothSidesOfWhereTheyAreMapped) {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, (std::int64_t{256} << 10) - 1,
                                   std::int64_t{256} << 10, std::int64_t{4} << 20}) {
    Buffer<unsigned char> buffer(count);
    EXPECT_EQ(buffer.bytes(), count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    for (std::int64_t i = 0; i < count; i += 4095) buffer[i] = 3;
  }
}

}  // namespace
}  // namespace vicinal
