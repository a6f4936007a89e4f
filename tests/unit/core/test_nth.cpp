// select_nth and partition_by (core/nth.hpp) do what the standard library's do, whatever order the elements are in.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/nth.hpp"

namespace vicinal {
namespace {

struct Item {
  std::uint64_t value, row;
};
constexpr auto earlier = [](const Item& a, const Item& b) { return before_pair(a.value, a.row, b.value, b.row); };
constexpr auto smaller = [](const Item& a, const Item& b) { return a.value < b.value; };

using Values = std::uint64_t (*)(std::int64_t i, std::int64_t count, std::mt19937_64& random);
const std::pair<const char*, Values> kinds[] = {
    {"random", [](std::int64_t, std::int64_t, std::mt19937_64& random) { return random(); }},
    {"a few values", [](std::int64_t, std::int64_t, std::mt19937_64& random) { return random() % 3; }},
    {"all equal", [](std::int64_t, std::int64_t, std::mt19937_64&) { return std::uint64_t{7}; }},
    {"ascending", [](std::int64_t i, std::int64_t, std::mt19937_64&) { return static_cast<std::uint64_t>(i); }},
    {"descending",
     [](std::int64_t i, std::int64_t count, std::mt19937_64&) { return static_cast<std::uint64_t>(count - i); }},
    {"the ends first", [](std::int64_t i, std::int64_t count,
                          std::mt19937_64&) { return static_cast<std::uint64_t>(i % 2 == 0 ? i : 2 * count - i); }},
};

std::vector<Item> items_of(Values values, std::int64_t count, std::mt19937_64& random) {
  std::vector<Item> items;
  for (std::int64_t i = 0; i < count; ++i) items.push_back({values(i, count, random), static_cast<std::uint64_t>(i)});
  return items;
}
std::vector<std::uint64_t> sorted_rows(const Item* begin, const Item* end) {
  std::vector<std::uint64_t> rows;
  for (; begin != end; ++begin) rows.push_back(begin->row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(SelectNth, FindsWhatSortingFinds) {
  std::mt19937_64 random(1);
  for (const auto& [name, values] : kinds)
    for (const std::int64_t count : {1, 2, 4, 5, 6, 63, 127, 128, 129, 192, 600, 601, 5'000, 60'000}) {
      const std::vector<Item> items = items_of(values, count, random);
      std::vector<Item> want = items;
      std::sort(want.begin(), want.end(), earlier);
      for (const std::int64_t nth : {std::int64_t{0}, count / 17, count / 2, count - 1}) {
        std::vector<Item> got = items;
        select_nth(got.data(), got.data() + nth, got.data() + count, earlier);
        ASSERT_EQ(got[static_cast<std::size_t>(nth)].row, want[static_cast<std::size_t>(nth)].row)
            << name << ", " << nth << " of " << count;
        ASSERT_EQ(sorted_rows(got.data(), got.data() + nth), sorted_rows(want.data(), want.data() + nth)) << name;
        ASSERT_EQ(sorted_rows(got.data(), got.data() + count), sorted_rows(want.data(), want.data() + count)) << name;
      }
    }
}

TEST(SelectNth, LeavesNothingSmallerBehindOfElementsThatTie) {
  std::mt19937_64 random(2);
  for (const auto& [name, values] : kinds)
    for (const std::int64_t count : {5, 100, 700, 3'000}) {
      std::vector<Item> items = items_of(values, count, random);
      Item *const begin = items.data(), *const nth = begin + count / 3, *const end = begin + count;
      select_nth(begin, nth, end, smaller);
      EXPECT_LE(std::max_element(begin, nth + 1, smaller)->value, nth->value) << name;
      EXPECT_GE(std::min_element(nth, end, smaller)->value, nth->value) << name;
      EXPECT_EQ(sorted_rows(begin, end).back(), static_cast<std::uint64_t>(count - 1));
    }
}

TEST(PartitionBy, PutsWhatComesBeforeThePivotFirst) {
  std::mt19937_64 random(3);
  for (const auto& [name, values] : kinds)
    for (std::int64_t count = 0; count < 400; count += 1 + count / 8) {
      std::vector<Item> items = items_of(values, count, random);
      const Item pivot{values(count / 2, count, random), 0};
      Item *const begin = items.data(), *const end = begin + count;
      const Item* const middle = partition_by(begin, end, pivot, smaller);
      EXPECT_TRUE(std::all_of<const Item*>(begin, middle, [&](const Item& item) { return smaller(item, pivot); }))
          << name;
      EXPECT_TRUE(std::none_of<const Item*>(middle, end, [&](const Item& item) { return smaller(item, pivot); }))
          << name;
      const std::vector<std::uint64_t> rows = sorted_rows(begin, end);
      for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], i) << name;
    }
}

TEST(BeforePair, OrdersByTheFirstThenByTheSecond) {
  const std::uint64_t most = ~std::uint64_t{0};
  EXPECT_TRUE(before_pair(1, most, 2, 0));
  EXPECT_FALSE(before_pair(2, 0, 1, most));
  EXPECT_TRUE(before_pair(most, 1, most, 2));
  EXPECT_FALSE(before_pair(5, 5, 5, 5));
}

}  // namespace
}  // namespace vicinal
