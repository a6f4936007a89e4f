// The precisions that the host filters in, a row each, cheapest first: what its stages ask of a precision besides the table of core/precision.hpp.
#pragma once
#include <cstdint>

#include "core/precision.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// Columns in fours.
constexpr std::int64_t quads_of(std::int64_t dims) noexcept { return (dims + 3) / 4; }

struct HostPrecision {
  Precision precision;
  std::int64_t (*width)(std::int64_t dims);  // bytes of a packed row
  int (*roundings)(const Kernels& kernels);  // float operations that round, a column, of a sum of products
};
inline constexpr HostPrecision host_precisions[] = {
    {Precision::int8, [](std::int64_t dims) { return quads_of(dims) * 4; }, [](const Kernels&) { return 0; }},
    {Precision::f32, [](std::int64_t dims) { return dims * 4; },
     [](const Kernels& kernels) { return kernels.fused ? 1 : 2; }},
    {Precision::canonical, [](std::int64_t) { return std::int64_t{0}; }, [](const Kernels&) { return 0; }}};

/// Null for a precision that the host does not have.
constexpr const HostPrecision* find_host_precision(Precision precision) noexcept {
  for (const HostPrecision& one : host_precisions)
    if (one.precision == precision) return &one;
  return nullptr;
}

}  // namespace vicinal::cpu
