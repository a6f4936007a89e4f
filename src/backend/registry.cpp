// The list of backends, one line each, and what this build and machine can do. The only file that reads the environment:
//   VICINAL_ISA     forces an instruction set by name where a call says "auto" (tests, bug reports)
//   VICINAL_FILTER  forces a filter rung the same way
#include <cstdlib>

#include "backend/backend.hpp"
#include "core/text.hpp"
#include "vicinal/device.hpp"

namespace vicinal {
namespace {

struct Entry {
  const char* name;
  Backend& (*get)();
};
constexpr Entry table[] = {
    {"cpu", &cpu_backend},
};

void force(std::string& option, const char* variable) {
  const char* value = option == "auto" ? std::getenv(variable) : nullptr;
  if (value != nullptr && *value != '\0') option = value;
}

}  // namespace

Backend& find_backend(const std::string& device) {
  for (const Entry& entry : table)
    if (device == "auto" || device == entry.name) return entry.get();
  if (device.rfind("cuda", 0) == 0)
    fail(ErrorCode::device_error, cat("no usable CUDA device: this build has no CUDA backend; use device=auto or device=cpu"));
  fail(ErrorCode::invalid_argument, cat("unknown device \"", device, "\"; devices: auto, ", joined(backend_names())));
}

Backend& find_select_backend(const std::string& device, int cuda_device) {
  return find_backend(cuda_device >= 0 && device == "auto" ? cat("cuda:", cuda_device) : device);
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.emplace_back(entry.name);
  return names;
}

Execution with_environment(Execution run) {
  force(run.instruction_set, "VICINAL_ISA");
  force(run.filter, "VICINAL_FILTER");
  return run;
}

std::vector<Device> devices() {
  std::vector<Device> found;
  for (const Entry& entry : table) {
    const Facts facts = entry.get().facts();
    found.push_back({facts.name, facts.description, true, "", facts.free_bytes});
  }
  found.push_back({"cuda", "", false, "this build has no CUDA backend", 0});
  return found;
}

Info info() {
  const Facts facts = cpu_backend().facts();
  Info result;
  result.version = VICINAL_VERSION;
#if defined(__clang__)
  result.compiler = cat("clang ", __clang_major__, ".", __clang_minor__);
#else
  result.compiler = cat("gcc ", __GNUC__, ".", __GNUC_MINOR__);
#endif
  result.instruction_sets = facts.instruction_sets;
  result.built_instruction_sets = facts.built_instruction_sets;
  for (const RungName& rung : rung_names) result.filters.emplace_back(rung.name);
  result.backends = backend_names();
  result.devices = devices();
  result.threads = default_threads();
  return result;
}

}  // namespace vicinal
