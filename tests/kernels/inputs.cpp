// Values are written by their bits: sign, exponent and fraction of each floating-point type, two's complement of integers.
#include "kernels/inputs.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace inputs {
namespace {

using vicinal::ValueType;

struct Layout {
  int bits, fraction;  // fraction 0: an integer
};

Layout layout(ValueType type) {
  const int bits = static_cast<int>(vicinal::value_size(type)) * 8;
  switch (type) {
    case ValueType::f32: return {bits, 23};
    case ValueType::f64: return {bits, 52};
    case ValueType::f16: return {bits, 10};
    case ValueType::bf16: return {bits, 7};
    default: return {bits, 0};
  }
}

}  // namespace

const char* name(Family family) {
  constexpr const char* names[] = {"random",  "equal", "ascending", "descending", "few",     "mostly_nan",
                                   "all_nan", "zeros", "denormal",  "infinities", "outlier", "shared_top"};
  return names[static_cast<std::size_t>(family)];
}

const char* name(ValueType type) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
  return names[static_cast<std::size_t>(type)];
}

std::vector<std::byte> make(Family family, ValueType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const Layout form = layout(type);
  const std::size_t size = vicinal::value_size(type);
  const std::uint64_t sign = std::uint64_t{1} << (form.bits - 1), all = sign | (sign - 1);
  const std::uint64_t one_fraction = std::uint64_t{1} << form.fraction;
  const std::uint64_t infinity = form.fraction != 0 ? (sign - 1) & ~(one_fraction - 1) : sign - 1;
  std::mt19937_64 draw(seed * 1000003 + static_cast<std::uint64_t>(family));
  const auto nan = [&] { return infinity | (draw() & sign) | std::max<std::uint64_t>(1, draw() & (one_fraction - 1)); };
  const auto finite = [&] {
    std::uint64_t bits = draw() & all;
    while (form.fraction != 0 && (bits & (sign - 1)) >= infinity) bits = draw() & all;
    return bits;
  };
  std::vector<std::byte> data(static_cast<std::size_t>(rows * cols) * size);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint64_t common = finite();
    for (std::int64_t c = 0; c < cols; ++c) {
      std::uint64_t bits = 0;
      const auto step = static_cast<std::uint64_t>(c);
      const std::uint64_t positive = infinity / static_cast<std::uint64_t>(cols + 1);
      switch (family) {
        case Family::random: bits = finite(); break;
        case Family::equal: bits = common; break;
        case Family::ascending: bits = positive * step + (positive == 0 ? step & infinity : 0); break;
        case Family::descending: bits = infinity - positive * step - (positive == 0 ? step & infinity : 0); break;
        case Family::few: bits = (common + draw() % 3) & all & ~(form.fraction != 0 ? one_fraction << 1 : 0); break;
        case Family::mostly_nan: bits = draw() % 8 != 0 ? nan() : finite(); break;
        case Family::all_nan: bits = nan(); break;
        case Family::zeros: bits = draw() % 4 == 0 ? finite() : draw() & sign; break;
        case Family::denormal: bits = (draw() & sign) | (draw() & (form.fraction != 0 ? one_fraction - 1 : 7)); break;
        case Family::infinities: bits = draw() % 2 == 0 ? infinity | (draw() & sign) : finite(); break;
        case Family::outlier: bits = c == cols * 2 / 3 ? (common ^ sign) : common; break;
        default: bits = (common & ~std::uint64_t{7}) | (draw() & 7); break;
      }
      bits &= all;
      std::memcpy(data.data() + static_cast<std::size_t>(r * cols + c) * size, &bits, size);
    }
  }
  return data;
}

}  // namespace inputs
