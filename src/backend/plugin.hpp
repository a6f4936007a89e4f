// What a backend in a library of its own exports: one function. libvicinal_cuda.so is the only one; it is loaded on
// first use.
#pragma once
#include "backend/backend.hpp"

extern "C" {
/// The backend of device `ordinal`, which lives as long as the process; null where it cannot work, and *why then says
/// why, in memory that stays. *count becomes the number of devices that the driver names, 0 where there is no driver.
/// `version` is VICINAL_VERSION of the caller: the seam is C++ inside one release, so both libraries must be of one
/// build. Never throws; calls from several threads are for the caller to put in order.
using VicinalBackendFn = const vicinal::Backend* (*)(const char* version, int ordinal, int* count, const char** why);
}
inline constexpr const char* vicinal_backend_symbol = "vicinal_backend";
