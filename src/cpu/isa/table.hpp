// The instruction sets of this processor family: one row each, of everything that is compiled for it.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cpu/isa/bits.hpp"
#include "cpu/isa/kernels.hpp"
#include "cpu/isa/other_tables.hpp"

namespace vicinal::cpu {

/// What instruction sets of one vector width share: everything but their tiles of int8.
struct VectorTables {
  const Kernels& floats;
  const BitKernels* bits[2];  // best first; the second runs wherever the set does
  const Scans& scans;
  const Myers& myers;
  const Warping& warping;
  const Scores& scores;
  double slowness;  // of a tile of floats beside one of AVX-512
};

/// What a user calls an instruction set: tables that run on the same processors.
struct InstructionSet : VectorTables {
  std::string_view name;  // "avx512amx", "avx512vnni", "avx512", "avxvnni", "avx2", "plain"
  const Int8Kernels& int8;
  double int8_gain;  // speed of an int8 tile beside one of floats

  const BitKernels& bit_kernels() const { return bits[0]->supported() ? *bits[0] : *bits[1]; }
  bool supported() const { return floats.supported() && int8.supported(); }
};

/// All that are compiled in, best first.
std::span<const InstructionSet> instruction_sets() noexcept;
/// This processor and this system can run it.
bool runs_here(const InstructionSet& set);
/// By name, or the best one for "auto". Throws Unsupported for one
/// that does not run here, InvalidArgument for an unknown name.
const InstructionSet& find_instruction_set(const std::string& name);

}  // namespace vicinal::cpu
