// Memory of stages: what is mapped, what is reserved and given back.
#include "core/buffer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/kept_bytes.hpp"
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

/// How many pieces the process's address space has.
std::int64_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

TEST(Buffer, LargeOnesBeginAtAHugePageAndLeaveNothing) {
  const auto large = static_cast<std::int64_t>(huge_from), small = static_cast<std::int64_t>(page());
  const std::int64_t before = mappings();
  for (int round = 0; round < 100; ++round)
    for (const std::int64_t bytes :
         {large - 1, large, large + 1, large + small - 1, large + small, 3 * large - 1, 3 * large}) {
      Buffer<unsigned char> first(bytes), second(bytes);
      for (std::int64_t i = 0; i < bytes; i += small) first[i] = 1;
      for (std::int64_t i = 0; i < bytes; i += small) second[i] = 2;
      first[bytes - 1] = second[bytes - 1] = 3;
      EXPECT_EQ(first[0], 1);
      const auto at = reinterpret_cast<std::uintptr_t>(first.data());
      EXPECT_TRUE(bytes < large || at % huge_page == 0) << bytes;
    }
  EXPECT_LE(mappings(), before + 64);  // one that stayed of each buffer would be 1,400
}

TEST(ReservedBytes, LargeOnesKeepWhatTheyAreTrimmedTo) {
  const std::size_t all = 5 * huge_from + 1;
  for (const std::size_t kept : {std::size_t{1}, huge_from - 1, huge_from, 3 * huge_from + page() + 1, all}) {
    ReservedBytes bytes(all);
    auto* const at = static_cast<std::byte*>(bytes.at());
    ASSERT_NE(at, nullptr);
    std::memset(at, 7, all);
    bytes.trim(kept);
    EXPECT_EQ(at[kept - 1], std::byte{7});
    const std::size_t pages = (kept + page() - 1) / page();
    if (kept < all) {
      EXPECT_FALSE(mapped(at + pages * page())) << kept;
    }
  }
}

#if !defined(VICINAL_SANITIZED)
TEST(Buffer, AThreadHasTheSmallOnesAgain) {
  forget_kept_bytes();
  const void* first = nullptr;
  {
    const Buffer<double> one(100);
    first = one.data();
    const Buffer<double> other(100);
    EXPECT_NE(other.data(), first);
  }
  const Buffer<float> again(200), another(200), larger(201);
  EXPECT_TRUE(again.data() == first || another.data() == first);
  EXPECT_NE(again.data(), another.data());
  std::vector<Buffer<char>> many;
  for (int i = 0; i < 100; ++i) many.emplace_back(64 * (i + 1));  // more than are kept, and larger ones
  for (std::size_t i = 0; i < many.size(); ++i) std::memset(many[i].data(), static_cast<int>(i), 64 * (i + 1));
  for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i][many[i].size() - 1], static_cast<char>(i));
}

TEST(Buffer, MayEndInAnotherThreadThanItBegan) {
  Buffer<char> moved(1000);
  std::thread([given = std::move(moved)]() mutable { const Buffer<char> ends = std::move(given); }).join();
  Buffer<char> returned;
  std::thread([&] { returned = Buffer<char>(1000); }).join();
  std::memset(returned.data(), 1, 1000);
}
#endif

}  // namespace
}  // namespace vicinal
