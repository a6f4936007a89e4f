// The registry sees the CUDA devices of this machine as usable, or as absent with the reason.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace vicinal {

struct CudaDevice {
  const Backend* backend = nullptr;  // null: not usable
  std::string reason;                // then
};

struct CudaDevices {
  std::vector<CudaDevice> devices;  // by ordinal
  std::string reason;               // why there are none: no library, no driver, no device
};

/// Loads libvicinal_cuda.so in the first call; safe from any thread.
const CudaDevices& cuda_devices();

}  // namespace vicinal
