// Selection by a threshold: src/cpu/select/threshold.cpp.
#pragma once
#include "core/parallel.hpp"
#include "cpu/select/scan.hpp"
#include "select/problem.hpp"

namespace vicinal::cpu {

void select_threshold(const SelectProblem& problem, const Scans& scans, ThreadPool& thread_pool);

}  // namespace vicinal::cpu
