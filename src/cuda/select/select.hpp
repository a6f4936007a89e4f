// Selection on a CUDA device, for src/cuda/backend.cu: what may be asked, how much memory it needs, and the launches.
#pragma once
#include <cstdint>

#include "vicinal/select.hpp"

namespace vicinal::cuda {

/// Everything in device memory and checked: rows >= 1, cols >= 1,
/// 1 <= k <= cols, strides multiples of the size of an element.
struct SelectArgs {
  Values values;
  Payload payload;
  SelectionView out;
  std::int64_t k = 1;
  bool largest = false, sorted = true;
  const char* algorithm = "auto";  // a name of algorithm.def that runs on cuda, or "auto"
  void* stream = nullptr;          // cudaStream_t
};

/// Why the named algorithm cannot take the task; null where it can.
const char* select_refusal(const SelectArgs& task);
/// Bytes of device memory that run_select works in. Tasks of any size fit: rows pass in batches.
std::int64_t select_workspace(const SelectArgs& task, int multiprocessors);
/// What ran, and what made "auto" choose it.
struct Ran {
  const char* algorithm;
  const char* why;
};
/// Queues everything on the stream. Throws Error(device_error) where a launch fails.
Ran run_select(const SelectArgs& task, void* workspace, int multiprocessors);

}  // namespace vicinal::cuda
