// What a backend selects: the k best values of each row of a matrix, the service of vicinal/select.hpp.
#pragma once
#include <cstdint>
#include <stop_token>
#include <string>

#include "vicinal/select.hpp"

namespace vicinal {

/// One selection as a backend gets it: checked, and with the algorithm's name as asked.
struct SelectProblem {
  Values values;
  Payload payload;
  SelectionView out;
  std::int64_t k = 0;  // 1..values.cols; no rows or columns is never asked of a backend
  bool largest = false, sorted = true;
  std::string algorithm = "auto";
  std::string instruction_set = "auto";
  int threads = 1;
  Progress progress;
  std::stop_token stop;
  void* stream = nullptr;
};

/// Calls may come from any thread.
struct SelectBackend {
  virtual ~SelectBackend() = default;
  /// It selects. Throws InvalidArgument where the algorithm that is asked for cannot take the problem.
  virtual SelectStats select_k(const SelectProblem& problem) const = 0;
  /// It says why problem.algorithm, which runs on this kind of device, cannot take the problem; empty where it can.
  virtual std::string select_refusal(const SelectProblem& problem) const = 0;
};

}  // namespace vicinal
