// What a backend selects: the k best values of each row of a matrix, the service of vicinal/select.hpp.
#pragma once
#include <string>

#include "select/problem.hpp"

namespace vicinal {

/// Calls may come from any thread.
struct SelectBackend {
  virtual ~SelectBackend() = default;
  /// It selects. Throws InvalidArgument where the algorithm that is asked for cannot take the problem.
  virtual SelectStats select_k(const SelectProblem& problem) const = 0;
  /// It says why problem.algorithm, which runs on this kind of device, cannot take the problem; empty where it can.
  virtual std::string select_refusal(const SelectProblem& problem) const = 0;
};

}  // namespace vicinal
