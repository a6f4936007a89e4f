// Lists that are sorted by a sample, against std::sort: words of every distribution that the sample or the parts of a bucket could misrepresent.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "cuda/select/merge.cuh"
#include "kernels/emulated.hpp"

namespace {

using vicinal::cuda::FormName;
using vicinal::cuda::Packed;
using Words = std::vector<std::uint64_t>;

/// Two rows of `count` words, made by make(row, place); positions make them differ.
void check(std::int64_t count, const std::function<std::uint64_t(std::int64_t, std::int64_t)>& make, const char* what) {
  SCOPED_TRACE(what);
  constexpr std::int64_t rows = 2;
  ASSERT_TRUE(vicinal::cuda::sorted_by_sample(FormName::packed, count));
  Words list;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < count; ++i) list.push_back(make(row, i));
  Words want = list;
  for (std::int64_t row = 0; row < rows; ++row) std::sort(want.begin() + row * count, want.begin() + (row + 1) * count);
  std::vector<std::byte> workspace(
      static_cast<std::size_t>(rows * vicinal::cuda::sort_workspace(FormName::packed, count).row), std::byte{0x5a});
  vicinal::cuda::SelectBatch batch;
  batch.rows.rows = rows;
  batch.k = count;
  batch.list = list.data();
  batch.workspace = workspace.data();
  batch.multiprocessors = 2;
  emulated::Launch launch;
  vicinal::cuda::run_sort(launch, batch);
  EXPECT_EQ(list, want);
}

std::uint64_t word(std::uint64_t key, std::int64_t position) {
  return key << 32 | static_cast<std::uint64_t>(position);
}

TEST(Sort, LongLists) {
  std::mt19937 rng(5);
  const auto key = [&] { return static_cast<std::uint64_t>(rng() >> 1); };
  for (const std::int64_t count : {4097, 8192, 8193, 20000}) {
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(key(), i); }, "random");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(0x40000000u + key() % 5000, i); }, "narrow");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(7, i); }, "equal keys");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(key() % 3, i); }, "three keys");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(static_cast<std::uint64_t>(i), i); }, "ascending");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(static_cast<std::uint64_t>(count - i), i); },
        "descending");
    check(
        count, [&](std::int64_t, std::int64_t i) { return word(i == count / 2 ? 0 : 0x7f000000u + key() % 64, i); },
        "one far from all");
  }
}

TEST(Sort, WhatIsMissingComesLast) {
  std::mt19937 rng(6);
  for (const std::int64_t there : {0, 1, 900, 5000})
    check(
        5000,
        [&](std::int64_t, std::int64_t i) { return i * 7919 % 5000 < there ? word(rng() >> 1, i) : Packed::last(); },
        "some are missing");
}

/// The longest lists that are sorted by a sample have the most buckets, with the fewest samples each; longer ones are merged.
TEST(Sort, TheLongestLists) {
  constexpr std::int64_t most = 230'400;
  EXPECT_EQ(vicinal::cuda::sample_sort_buckets(most), vicinal::cuda::most_sample_sort_buckets);
  EXPECT_FALSE(vicinal::cuda::sorted_by_sample(FormName::packed, most + 1));
  std::mt19937 rng(7);
  check(
      most, [&](std::int64_t, std::int64_t i) { return word(rng() % 40000, i); }, "keys several times");
}

/// All of the sample is less than all else: one bucket has nearly the whole row, more than shared memory holds.
TEST(Sort, ASampleThatMisleads) {
  const std::int64_t count = 9000;
  const int buckets = vicinal::cuda::sample_sort_buckets(count);
  const std::int64_t samples = std::int64_t{buckets} * vicinal::cuda::sample_sort_oversampling(buckets);
  check(
      count,
      [&](std::int64_t row, std::int64_t i) {
        const std::int64_t sample = ((i + 1) * samples - 1) / count;  // whose part this place is in
        const bool sampled = vicinal::cuda::sample_place(row, sample, samples, count) == i;
        return word(sampled ? 5 : 1000 + static_cast<std::uint64_t>(i * 7919 % 5003), i);
      },
      "misled");
}

}  // namespace
