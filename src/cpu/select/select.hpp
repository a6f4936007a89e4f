// Selection on the CPU, for src/cpu/backend.cpp.
#pragma once
#include "cpu/select/scan.hpp"
#include "select/problem.hpp"

namespace vicinal::cpu {

SelectStats select_k(const SelectProblem& problem, const Scans& scans);

}  // namespace vicinal::cpu
