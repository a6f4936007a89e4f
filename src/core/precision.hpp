// The precisions of filters, a row each, cheapest first: a cascade goes through its own in this order. Code asks for a
// property of the row, so that a precision which shares it needs no place of its own there. How a device encodes rows
// in a precision is in its own table
// (src/cpu/prepare/precision.hpp, src/cuda/search/core/precision.hpp), what the encoding loses in core/bound.hpp.
#pragma once
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace vicinal {

enum class Precision : unsigned char { int8, fp16, f32, canonical };

/// What a filter's rows are made of. codes: integers that stand for so many steps, so that sums of products are exact.
/// nothing: there is no filter, every pair's canonical distance is computed, which proves itself.
enum class FilterElements : unsigned char { codes, floats, nothing };

inline constexpr struct PrecisionRow {
  Precision precision;
  std::string_view name;  // in plans, certificates and Execution::filter
  FilterElements elements;
  int code_range;  // the largest code less the smallest
} precision_rows[] = {{Precision::int8, "int8", FilterElements::codes, 255},
                      {Precision::fp16, "fp16", FilterElements::floats, 0},
                      {Precision::f32, "f32", FilterElements::floats, 0},
                      {Precision::canonical, "canonical", FilterElements::nothing, 0}};

constexpr const PrecisionRow& precision_row(Precision precision) noexcept {
  return precision_rows[static_cast<std::size_t>(precision)];
}
static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(precision_rows); ++i)
        if (static_cast<std::size_t>(precision_rows[i].precision) != i) return false;
      return std::size(precision_rows) == static_cast<std::size_t>(Precision::canonical) + 1;
    }(),
    "precision_rows has a row for each precision, in the order of the enum");

constexpr bool has_filter(Precision precision) noexcept {
  return precision_row(precision).elements != FilterElements::nothing;
}
constexpr bool in_codes(Precision precision) noexcept {
  return precision_row(precision).elements == FilterElements::codes;
}
constexpr bool in_floats(Precision precision) noexcept {
  return precision_row(precision).elements == FilterElements::floats;
}

/// The names that force the int8 precision with rows rotated (core/rotation.hpp) or projected (core/projection.hpp);
/// they are no precisions of their own.
inline constexpr std::string_view rotated_filter = "rotated", projected_filter = "projected";
constexpr bool names_transform(std::string_view filter) noexcept {
  return filter == rotated_filter || filter == projected_filter;
}

inline std::string precision_name(Precision precision) { return std::string(precision_row(precision).name); }

/// The precision of that name; the canonical one for a name that is not in the list.
inline Precision precision_of(std::string_view name) {
  for (const PrecisionRow& known : precision_rows)
    if (known.name == name) return known.precision;
  return Precision::canonical;
}

}  // namespace vicinal
