// One selection as a backend gets it: checked, and with the algorithm's name as asked.
#pragma once
#include <stop_token>
#include <string>

#include "vicinal/select.hpp"

namespace vicinal {

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

/// Throws InvalidArgument for a name that is not in the catalogue, naming the nearest and listing all.
void check_select_algorithm(const std::string& name);
/// Whether the catalogue has `name` for `device` ("cpu", "cuda").
bool select_runs_on(const std::string& name, std::string_view device);

}  // namespace vicinal
