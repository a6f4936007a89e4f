// See table.hpp. slowness and int8_gain were measured by bench_tile on the machine of 2026-11-21.
#include "cpu/isa/table.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/text.hpp"

namespace vicinal::cpu {
namespace {

#if defined(__x86_64__)
constexpr VectorTables avx512{.floats = float_avx512,
                              .bits = {&bits_avx512popcnt, &bits_avx512},
                              .scans = scans_avx512,
                              .myers = myers_avx512,
                              .warping = warping_avx512,
                              .scores = scores_avx2,
                              .slowness = 1};
constexpr VectorTables avx2{.floats = float_avx2,
                            .bits = {&bits_avx2, &bits_avx2},
                            .scans = scans_avx2,
                            .myers = myers_avx2,
                            .warping = warping_avx2,
                            .scores = scores_avx2,
                            .slowness = 2};
#endif
constexpr VectorTables plain{.floats = float_plain,
                             .bits = {&bits_plain, &bits_plain},
                             .scans = scans_plain,
                             .myers = myers_plain,
                             .warping = warping_plain,
                             .scores = scores_plain,
                             .slowness = 12};

constexpr InstructionSet sets[] = {
#if defined(__x86_64__)
    {avx512, "avx512amx", int8_avx512amx, 3},
    {avx512, "avx512vnni", int8_avx512vnni, 3},
    {avx512, "avx512", int8_avx512, 1},
    {avx2, "avxvnni", int8_avxvnni, 3},
    {avx2, "avx2", int8_avx2, 1},
#endif
    {plain, "plain", int8_plain, 1}};

}  // namespace

std::span<const InstructionSet> instruction_sets() noexcept { return sets; }

/// Each set is asked once: a hypervisor that answers CPUID takes 20 us for it, and every call asks.
bool runs_here(const InstructionSet& set) {
  static const auto answers = [] {
    std::array<bool, std::size(sets)> all{};
    std::transform(std::begin(sets), std::end(sets), all.begin(),
                   [](const InstructionSet& one) { return one.supported(); });
    return all;
  }();
  return answers[static_cast<std::size_t>(&set - sets)];
}

const InstructionSet& find_instruction_set(const std::string& name) {
  for (const InstructionSet& set : sets) {
    if (name == "auto" ? runs_here(set) : name == set.name) {
      if (!runs_here(set)) fail(ErrorCode::unsupported, cat("instruction set ", name, " is not available on this CPU"));
      return set;
    }
  }
  std::vector<std::string> known;
  for (const InstructionSet& set : sets) known.emplace_back(set.name);
  fail(ErrorCode::invalid_argument, cat("unknown instruction set \"", name, "\"; known: auto, ", joined(known)));
}

}  // namespace vicinal::cpu

namespace vicinal {

RowKernels best_row_kernels() { return cpu::find_instruction_set("auto").floats; }

}  // namespace vicinal
