// See table.hpp and sets.def.
#include "cpu/isa/table.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/text.hpp"

namespace vicinal::cpu {
namespace {

#define VECTORS(name, ...) constexpr VectorTables name{__VA_ARGS__};
#define SET(vectors, name, gain)
#include "cpu/isa/sets.def"

constexpr InstructionSet sets[] = {
#define VECTORS(name, ...)
#define SET(vectors, name, gain) {vectors, #name, int8_##name, gain},
#include "cpu/isa/sets.def"
};

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
  const bool best = name == "auto";
  for (const InstructionSet& set : sets) {
    if (best ? runs_here(set) : name == set.name) {
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
