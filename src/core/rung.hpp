// The ladder of filters, cheapest first. The last one computes the canonical distance of every pair and proves itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vicinal {

enum class Rung : unsigned char { f32, canonical };

inline constexpr struct RungName {
  Rung rung;
  std::string_view name;
} rung_names[] = {{Rung::f32, "f32"}, {Rung::canonical, "canonical"}};

inline std::string rung_name(Rung rung) { return std::string(rung_names[static_cast<std::size_t>(rung)].name); }

}  // namespace vicinal
