// One selection on one device, from and to either memory.
#pragma once
#include "cuda/device/context.hpp"
#include "select/problem.hpp"

namespace vicinal::cuda {

/// Values of the host are copied to the device in batches of rows, and the results back; values on the device are read
/// in place, and the results belong there too. Returns when all is done; on the device and with a stream of the
/// caller's, when all is queued.
SelectStats run_problem(const SelectProblem& problem, const DeviceContext& context);
/// Why problem.algorithm cannot take it; empty where it can.
std::string refusal_of(const SelectProblem& problem);

}  // namespace vicinal::cuda
