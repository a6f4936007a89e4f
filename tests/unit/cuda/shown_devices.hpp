// The CUDA devices that the library finds while a test runs. Its calls of cuda_devices() are sent to test_search_devices.cpp by the linker.
#pragma once
#include "backend/devices.hpp"

namespace emulated_search {

/// Null: the two of test_search_devices.cpp.
inline const vicinal::CudaDevices* shown_devices = nullptr;

/// These, as long as it lives.
struct ShownDevices {
  explicit ShownDevices(const vicinal::CudaDevices& devices) { shown_devices = &devices; }
  ~ShownDevices() { shown_devices = nullptr; }
  ShownDevices(const ShownDevices&) = delete;
  ShownDevices& operator=(const ShownDevices&) = delete;
};

}  // namespace emulated_search
