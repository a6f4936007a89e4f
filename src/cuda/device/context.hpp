// What a call that runs on a device is given of it.
#pragma once
#include "cuda/device/memory.hpp"

namespace vicinal::cuda {

struct DeviceContext {
  int ordinal = 0;  // of the current device
  int multiprocessors = 0;
  Pool& pool;
};

}  // namespace vicinal::cuda
