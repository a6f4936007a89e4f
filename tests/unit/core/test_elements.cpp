// Integers of other widths as elements of vectors: every size of value, every layout, and what no f64 holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "vicinal/elements.hpp"
#include "vicinal/error.hpp"

namespace {

using namespace vicinal;

template <class T>
T swapped(T value) {
  std::byte bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  std::reverse(std::begin(bytes), std::end(bytes));
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double element(const Points& points, std::int64_t row, std::int64_t column) {
  const auto* at = static_cast<const std::byte*>(points.data) + row * points.row_stride + column * points.col_stride;
  if (points.dtype == DType::f32) return *reinterpret_cast<const float*>(at);
  EXPECT_EQ(points.dtype, DType::f64);
  return *reinterpret_cast<const double*>(at);
}

template <class T>
class Integers : public testing::Test {};
using Widths = testing::Types<std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(Integers, Widths);

/// Values that fit an f64, of every size of T.
template <class T>
std::vector<T> exact_values(std::int64_t count) {
  std::mt19937_64 random(7);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    const auto keep = std::min<std::uint64_t>(random() % (8 * sizeof(T)) + 1, 53);
    auto bits = (random() & (keep == 64 ? ~0ull : (1ull << keep) - 1)) << (random() % (8 * sizeof(T) - keep + 1));
    value = static_cast<T>(bits);
    if (static_cast<long double>(static_cast<double>(value)) != static_cast<long double>(value)) value = T{1};
  }
  values[0] = std::numeric_limits<T>::min();
  values[1] = static_cast<T>(T{1} << (8 * sizeof(T) - 2));
  return values;
}

TYPED_TEST(Integers, EveryLayoutGivesTheSameElements) {
  using T = TypeParam;
  const std::int64_t rows = 4099, cols = 131;  // several blocks, for several threads
  const std::vector<T> dense = exact_values<T>(rows * cols);
  const auto value_at = [&](std::int64_t row, std::int64_t column) {
    return dense[static_cast<std::size_t>(row * cols + column)];
  };
  for (const int layout : {0, 1, 2, 3}) {  // dense, columns first and swapped, rows backwards, unaligned
    std::vector<std::byte> memory(dense.size() * sizeof(T) + 1);
    Values values(memory.data(), value_type_of<T>(), rows, cols);
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    if (layout == 1) {
      values.row_stride = size;
      values.col_stride = size * rows;
      values.byte_swapped = true;
    }
    if (layout == 2) {
      values.data = memory.data() + (rows - 1) * cols * size;
      values.row_stride = -cols * size;
    }
    if (layout == 3) values.data = memory.data() + 1;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < cols; ++column) {
        const T value = values.byte_swapped ? swapped(value_at(row, column)) : value_at(row, column);
        auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(values.data)) + row * values.row_stride +
                   column * values.col_stride;
        std::memcpy(at, &value, sizeof value);
      }
    }
    const Elements elements = exact_elements(values, "corpus", {.threads = layout});
    const Points& points = elements.points();
    ASSERT_EQ(points.dtype, sizeof(T) == 2 ? DType::f32 : DType::f64);
    ASSERT_EQ(points.dtype, element_type(value_type_of<T>()));
    ASSERT_TRUE(points.plain_rows());
    ASSERT_EQ(elements.copied_bytes(), rows * cols * static_cast<std::int64_t>(dtype_size(points.dtype)));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < cols; ++column)
        ASSERT_EQ(static_cast<long double>(element(points, row, column)),
                  static_cast<long double>(value_at(row, column)));
  }
}

TEST(Elements, EveryIntegerOfSixteenBitsIsExact) {
  std::vector<std::int16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int16_t>(i);
  const Elements elements = exact_elements(MatrixView<std::int16_t>{all.data(), 256, 256}, "corpus");
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(element(elements.points(), static_cast<std::int64_t>(i / 256), static_cast<std::int64_t>(i % 256)),
              all[i]);
}

template <class T>
std::string refusal(T value, ValueType type) {
  std::vector<T> values(3 * 400000, T{5});
  values[2 * 400000 + 17] = values[400000 + 3] = value;  // two blocks
  try {
    (void)exact_elements(Values(values.data(), type, 3, 400000), "corpus", {.threads = 2});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_value);
    return error.what();
  }
  return "";
}

TEST(Elements, WhatNoDoubleHoldsIsRefusedWithItsPlace) {
  const std::int64_t limit = std::int64_t{1} << 53;
  for (const std::int64_t bad :
       {limit + 1, -limit - 1, 2 * limit + 2, INT64_MAX, INT64_MIN + 1, (std::int64_t{1} << 62) + 511}) {
    const std::string text = refusal(bad, ValueType::i64);
    EXPECT_NE(text.find("corpus row 1, column 3 is " + std::to_string(bad) + " "), std::string::npos) << text;
    EXPECT_NE(text.find("2 such elements"), std::string::npos) << text;
  }
  for (const std::int64_t good :
       {limit, -limit, 2 * limit + 4, INT64_MIN, std::int64_t{1} << 62, (std::int64_t{1} << 62) + 1024})
    EXPECT_EQ(refusal(good, ValueType::i64), "") << good;
  for (const std::uint64_t bad : {UINT64_MAX, (UINT64_C(1) << 63) + 1, (UINT64_C(1) << 53) + 1})
    EXPECT_NE(refusal(bad, ValueType::u64).find("row 1, column 3 is " + std::to_string(bad) + " "), std::string::npos);
  for (const std::uint64_t good : {UINT64_C(1) << 63, (UINT64_C(1) << 63) + 2048, UINT64_MAX - 2047})
    EXPECT_EQ(refusal(good, ValueType::u64), "") << good;
}

TEST(Elements, TheSixTypesAreSeenInPlace) {
  alignas(8) const std::byte memory[64]{};
  for (const ValueType type :
       {ValueType::f32, ValueType::f64, ValueType::f16, ValueType::bf16, ValueType::u8, ValueType::i8}) {
    Values values(memory + 32, type, 2, 2);
    values.row_stride = -16;
    values.byte_swapped = true;
    const Elements elements = exact_elements(values, "corpus");
    EXPECT_EQ(elements.points().data, values.data);
    EXPECT_EQ(elements.points().row_stride, -16);
    EXPECT_TRUE(elements.points().byte_swapped);
    EXPECT_EQ(elements.copied_bytes(), 0);
    EXPECT_EQ(std::string(dtype_name(elements.points().dtype)), value_type_name(type));
  }
}

TEST(Elements, ImpossibleSizesAndDevicesAreRefused) {
  const auto code_of = [](const Values& values) {
    try {
      (void)exact_elements(values, "corpus");
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  const std::int64_t one = 1;
  Values values(&one, ValueType::i64, std::int64_t{1} << 40, std::int64_t{1} << 30);
  values.row_stride = values.col_stride = 0;
  EXPECT_EQ(code_of(values), ErrorCode::out_of_memory);
  values = Values(&one, ValueType::i64, 1, 1);
  values.cuda_device = 0;
  EXPECT_EQ(code_of(values), ErrorCode::device_error);
  values = Values(&one, ValueType::i64, -1, 1);
  EXPECT_EQ(code_of(values), ErrorCode::invalid_argument);
  EXPECT_EQ(exact_elements(Values(nullptr, ValueType::i64, 0, 5), "corpus").points().rows, 0);
}

TEST(Elements, CallerMayCancel) {
  const std::vector<std::int32_t> values(1 << 20);
  const auto convert = [&] {
    (void)exact_elements(MatrixView<std::int32_t>{values.data(), 1024, 1024}, "corpus", {.threads = 1},
                         [](auto, auto) { return false; });
  };
  EXPECT_THROW(convert(), Error);
}

}  // namespace
