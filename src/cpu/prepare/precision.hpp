// The precisions that the host filters in, a row each, cheapest first: what
// its stages ask of a precision besides the table of core/precision.hpp.
#pragma once
#include <cstdint>

#include "core/precision.hpp"
#include "cpu/isa/table.hpp"

namespace vicinal::cpu {

/// Columns in fours.
constexpr std::int64_t quads_of(std::int64_t dims) noexcept { return (dims + 3) / 4; }

struct HostPrecision {
  Precision precision;
  std::int64_t (*width)(std::int64_t dims);  // bytes of a packed row
  int (*roundings)(const Kernels& kernels);  // float operations that round, a column, of a sum of products
  const Int8Kernels* (*codes)(const InstructionSet& set);  // tiles of codes; null: its tiles are of floats
};
inline constexpr HostPrecision host_precisions[] = {
    {.precision = Precision::int8,
     .width = [](std::int64_t dims) { return quads_of(dims) * 4; },
     .roundings = [](const Kernels&) { return 0; },
     .codes = [](const InstructionSet& set) { return &set.int8; }},
    {.precision = Precision::f32,
     .width = [](std::int64_t dims) { return dims * 4; },
     .roundings = [](const Kernels& kernels) { return kernels.fused ? 1 : 2; },
     .codes = [](const InstructionSet&) -> const Int8Kernels* { return nullptr; }},
    {.precision = Precision::canonical,
     .width = [](std::int64_t) { return std::int64_t{0}; },
     .roundings = [](const Kernels&) { return 0; },
     .codes = [](const InstructionSet&) -> const Int8Kernels* { return nullptr; }}};

/// Null for a precision that the host does not have.
constexpr const HostPrecision* find_host_precision(Precision precision) noexcept {
  for (const HostPrecision& one : host_precisions)
    if (one.precision == precision) return &one;
  return nullptr;
}

}  // namespace vicinal::cpu
