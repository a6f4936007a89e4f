// The cascade of filters, cheapest first. The last one computes the canonical distance of every pair and proves itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vicinal {

enum class Precision : unsigned char { int8, fp16, f32, canonical };

inline constexpr struct PrecisionName {
  Precision precision;
  std::string_view name;
} precision_names[] = {
    {Precision::int8, "int8"}, {Precision::fp16, "fp16"}, {Precision::f32, "f32"}, {Precision::canonical, "canonical"}};

/// The name that forces the int8 precision with rows rotated (core/rotation.hpp); it is no precision of its own.
inline constexpr std::string_view rotated_filter = "rotated";

inline std::string precision_name(Precision precision) {
  return std::string(precision_names[static_cast<std::size_t>(precision)].name);
}

/// Of a name that is in the list; the canonical precision for any other.
inline Precision precision_of(std::string_view name) {
  for (const PrecisionName& known : precision_names)
    if (known.name == name) return known.precision;
  return Precision::canonical;
}

}  // namespace vicinal
