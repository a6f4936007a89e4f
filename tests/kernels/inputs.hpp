// Rows that are hard on a selection, for every type of value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vicinal/select.hpp"

namespace inputs {

inline constexpr vicinal::ValueType types[] = {
    vicinal::ValueType::f32, vicinal::ValueType::f64, vicinal::ValueType::f16, vicinal::ValueType::bf16,
    vicinal::ValueType::u8,  vicinal::ValueType::i8,  vicinal::ValueType::u16, vicinal::ValueType::i16,
    vicinal::ValueType::u32, vicinal::ValueType::i32, vicinal::ValueType::u64, vicinal::ValueType::i64};
inline bool is_float(vicinal::ValueType type) { return type <= vicinal::ValueType::bf16; }

enum class Family {
  random,
  equal,
  ascending,
  descending,
  few,
  mostly_nan,
  all_nan,
  zeros,
  denormal,
  infinities,
  outlier,
  shared_top,
  count
};
const char* name(Family family);
const char* name(vicinal::ValueType type);

/// rows x cols values, dense; what a type has not got (NaN, -0) becomes an extreme of the integers.
std::vector<std::byte> make(Family family, vicinal::ValueType type, std::int64_t rows, std::int64_t cols,
                            std::uint64_t seed);

}  // namespace inputs
