#include "oracle/select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace oracle {
namespace {

using vicinal::ValueType;
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): using knows no __extension__

/// Widened exactly; integers of 64 bits do not fit a long double everywhere, so both forms are kept.
struct Number {
  bool nan = false;
  bool is_integer = false;
  double real = 0;
  Wide integer = 0;
};

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction != 0 ? std::nan("") : HUGE_VAL)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Number real(double value) { return {std::isnan(value), false, value, 0}; }
Number whole(Wide value) { return {false, true, 0, value}; }

Number number(const std::byte* at, ValueType type) {
  switch (type) {
    case ValueType::f32: return real(static_cast<double>(load<float>(at)));
    case ValueType::f64: return real(load<double>(at));
    case ValueType::f16: return real(half_value(load<std::uint16_t>(at)));
    case ValueType::bf16:
      return real(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16)));
    case ValueType::u8: return whole(load<std::uint8_t>(at));
    case ValueType::i8: return whole(load<std::int8_t>(at));
    case ValueType::u16: return whole(load<std::uint16_t>(at));
    case ValueType::i16: return whole(load<std::int16_t>(at));
    case ValueType::u32: return whole(load<std::uint32_t>(at));
    case ValueType::i32: return whole(load<std::int32_t>(at));
    case ValueType::u64: return whole(load<std::uint64_t>(at));
    case ValueType::i64: break;
  }
  return whole(load<std::int64_t>(at));
}

bool earlier(const Number& a, const Number& b, bool largest) {
  if (a.nan || b.nan) return !a.nan && b.nan;
  if (a.is_integer) return largest ? a.integer > b.integer : a.integer < b.integer;
  return largest ? a.real > b.real : a.real < b.real;
}

}  // namespace

Selected select_k(const vicinal::Values& values, std::int64_t k, bool largest) {
  const std::size_t size = vicinal::value_size(values.type);
  Selected result;
  std::vector<std::byte> row(static_cast<std::size_t>(values.cols) * size);
  std::vector<Number> numbers(static_cast<std::size_t>(values.cols));
  std::vector<std::int64_t> order(static_cast<std::size_t>(values.cols));
  for (std::int64_t r = 0; r < values.rows; ++r) {
    for (std::int64_t c = 0; c < values.cols; ++c) {
      std::byte* at = row.data() + static_cast<std::size_t>(c) * size;
      std::memcpy(at, static_cast<const std::byte*>(values.data) + r * values.row_stride + c * values.col_stride, size);
      if (values.byte_swapped) std::reverse(at, at + size);
      numbers[static_cast<std::size_t>(c)] = number(at, values.type);
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return earlier(numbers[static_cast<std::size_t>(a)], numbers[static_cast<std::size_t>(b)], largest);
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = order[static_cast<std::size_t>(i)];
      result.ids.push_back(at);
      const std::byte* from = row.data() + static_cast<std::size_t>(at) * size;
      result.values.insert(result.values.end(), from, from + size);
    }
  }
  return result;
}

}  // namespace oracle
