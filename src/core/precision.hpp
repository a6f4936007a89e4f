// The ladder of filters, cheapest first. The last one computes the canonical distance of every pair and proves itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vicinal {

enum class Rung : unsigned char { int8, fp16, f32, canonical };

inline constexpr struct RungName {
  Rung rung;
  std::string_view name;
} rung_names[] = {{Rung::int8, "int8"}, {Rung::fp16, "fp16"}, {Rung::f32, "f32"}, {Rung::canonical, "canonical"}};

/// The name that forces the int8 rung with rows rotated (core/rotation.hpp); it is no rung of its own.
inline constexpr std::string_view rotated_filter = "rotated";

inline std::string rung_name(Rung rung) { return std::string(rung_names[static_cast<std::size_t>(rung)].name); }

/// Of a name that is in the list; the canonical rung for any other.
inline Rung rung_of(std::string_view name) {
  for (const RungName& known : rung_names)
    if (known.name == name) return known.rung;
  return Rung::canonical;
}

}  // namespace vicinal
