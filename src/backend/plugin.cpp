// Finds and opens libvicinal_cuda.so, once, and asks it for every device. Nothing here runs before a caller names a
// CUDA device or lists the devices: docs/design/0013-cuda-plugin.md.
#include "backend/plugin.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "backend/devices.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

namespace fs = std::filesystem;
constexpr const char* file_name = "libvicinal_cuda.so";

/// The folder of the library, or of the program that holds it.
fs::path own_folder() {
  std::error_code ignored;
  Dl_info here = {};
  fs::path file;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &here) != 0 && here.dli_fname != nullptr)
    file = here.dli_fname;
  // A program that was started through PATH is known by its bare name.
  if (!file.has_parent_path()) file = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path whole = fs::absolute(file, ignored);
  return (ignored ? file : whole).parent_path();
}

/// The file to open, or empty and the reason.
fs::path find_file(std::string& reason) {
  fs::path beside = own_folder() / file_name;
  std::error_code ignored;
  if (fs::exists(beside, ignored)) return beside;
  reason = cat(file_name, " is not in ", beside.parent_path().string());
  const char* folder = secure_getenv("VICINAL_BACKEND_PATH");  // not for programs with more rights than their caller
  if (folder == nullptr || *folder == '\0') {
    reason += ", and VICINAL_BACKEND_PATH is not set";
    return {};
  }
  if (!fs::path(folder).is_absolute()) {  // it would be code from wherever the process happens to stand
    reason += cat(", and VICINAL_BACKEND_PATH must be an absolute path, got ", folder);
    return {};
  }
  fs::path named = fs::path(folder) / file_name;
  if (fs::exists(named, ignored)) return named;
  reason += cat(" and not in VICINAL_BACKEND_PATH=", folder);
  return {};
}

CudaDevices open_devices() {
  CudaDevices found;
  const fs::path file = find_file(found.reason);
  if (file.empty()) return found;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: its backends live as long as the process
  if (library == nullptr) {
    const char* text = dlerror();
    found.reason = text != nullptr ? text : cat("cannot open ", file.string());
    return found;
  }
  const auto backend = reinterpret_cast<VicinalBackendFn>(dlsym(library, vicinal_backend_symbol));
  if (backend == nullptr) {
    found.reason = cat(file.string(), " is not a backend of vicinal: it has no ", vicinal_backend_symbol);
    return found;
  }
  int count = 1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const char* why = nullptr;
    const Backend* device = backend(VICINAL_VERSION, ordinal, &count, &why);
    const std::string text = why != nullptr ? why : "no reason was given";
    if (count < 1) found.reason = text;
    else found.devices.push_back({device, device != nullptr ? "" : text});
  }
  return found;
}

}  // namespace

const CudaDevices& cuda_devices() {
  static const CudaDevices devices = open_devices();
  return devices;
}

}  // namespace vicinal
