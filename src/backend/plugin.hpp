// What a backend in a library of its own exports: one function. libvicinal_cuda.so is the only one; it is loaded on first use.
#pragma once
#include "backend/backend.hpp"

extern "C" {
/// Null where the backend cannot work here (no driver, no device, another version); *why then says so, in static memory.
/// `version` is VICINAL_VERSION of the caller: the seam is C++ inside one release, so both libraries must be of one build.
using VicinalBackendFn = vicinal::Backend* (*)(const char* version, const char** why);
}
inline constexpr const char* vicinal_backend_symbol = "vicinal_backend";
