// Orders of permutants compared, one query with many objects: the words that an instruction set provides. All give
// integers, so equal bits; scores_plain.cpp is the slow, obvious reference.
#pragma once
#include <cstdint>

#include "cpu/isa/complete.hpp"

namespace vicinal::cpu {

/// Rows of bytes, one an object, filled up with zeros to `stride`, a multiple of 16 and of 32 from there on.
struct ScoreArgs {
  const std::uint8_t* query;  // as a row
  const std::uint8_t* rows;
  std::int64_t stride, count;
  std::uint32_t* out;  // [count]
};
using ScoreFn = void (*)(const ScoreArgs&);

/// Objects all of whose bytes are within [low, low + width] of their column, modulo 256.
struct WithinArgs {
  const std::uint8_t *low, *width;
  const std::uint8_t* rows;
  std::int64_t stride, count;
  std::uint32_t first;  // number of the first row
  std::uint32_t* out;   // their numbers, ascending
};
/// How many there are.
using WithinFn = std::int64_t (*)(const WithinArgs&);

struct Scores {
  const char* name;
  ScoreFn footrule, rho;  // sum of |difference|, of its square
  ScoreFn differing;      // bits
  WithinFn within;

  consteval bool complete() const { return all_set(name, footrule, rho, differing, within); }
};

constexpr std::int64_t score_stride(std::int64_t bytes) noexcept { return bytes <= 16 ? 16 : (bytes + 31) / 32 * 32; }

}  // namespace vicinal::cpu
