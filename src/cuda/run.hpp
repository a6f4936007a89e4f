// One selection on one device, from and to either memory.
#pragma once
#include "cuda/memory.hpp"
#include "select/problem.hpp"

namespace vicinal::cuda {

struct Place {
  int ordinal = 0;  // of the current device
  int multiprocessors = 0;
  Pool& pool;
};

/// Values in memory of the host are copied to the device in batches of rows, values on the device are read in place. Results go
/// to the host or to the device, wherever problem.out points. Returns when all is done; with results on the device and a stream
/// of the caller's, when all is queued.
SelectStats run_problem(const SelectProblem& problem, const Place& place);

}  // namespace vicinal::cuda
