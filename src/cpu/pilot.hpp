// Whether bytes are worth their while on these rows: some of them play queries. Speed depends on it and no answer does.
#pragma once
#include "cpu/frame.hpp"

namespace vicinal::cpu {

/// frame: of the int8 rung. second: rows that bytes leave are looked at again before they are ranked.
bool bytes_pay(const Kernels& kernels, const Question& question, const Frame& frame, bool second, Team& team);
/// Memory that it takes.
inline constexpr std::int64_t pilot_bytes = std::int64_t{1} << 20;

}  // namespace vicinal::cpu
