// The list of backends, and what this build and machine can do. Here, in plugin.cpp and in pipeline/spot_check.cpp, the
// environment is read:
//   VICINAL_ISA      forces an instruction set by name where a call says "auto" (tests, bug reports)
//   VICINAL_FILTER   forces a filter precision the same way
//   VICINAL_BACKEND  forces a device the same way: cpu, cuda, cuda:1, cuda:all
//   VICINAL_BACKEND_PATH  an absolute path, of a folder in which to look for libvicinal_cuda.so when it is not beside
//                         the library
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "backend/backend.hpp"
#include "backend/devices.hpp"
#include "core/text.hpp"
#include "vicinal/device.hpp"

namespace vicinal {
namespace {

struct NamedBackend {
  const char* name;
  const Backend& (*get)();
};
constexpr NamedBackend backends[] = {
    {"cpu", &cpu_backend},
};

void force(std::string& option, const char* variable) {
  const char* value = option == "auto" ? std::getenv(variable) : nullptr;
  if (value != nullptr && *value != '\0') option = value;
}

/// "cuda" -> 0, "cuda:3" -> 3, anything else nothing.
std::optional<int> cuda_ordinal(const std::string& device) {
  constexpr std::string_view prefix = "cuda:";
  if (device == "cuda") return 0;
  if (device.rfind(prefix, 0) != 0) return {};
  int ordinal = -1;
  const char* end = device.data() + device.size();
  const auto read = std::from_chars(device.data() + prefix.size(), end, ordinal);
  if (read.ec != std::errc{} || read.ptr != end || ordinal < 0) return {};
  return ordinal;
}

std::atomic<bool> opened{false};  // there may be CUDA devices that hold memory

const CudaDevices& open_cuda_devices() {
  const CudaDevices& cuda = cuda_devices();
  opened.store(true, std::memory_order_release);
  return cuda;
}

const Backend& cuda_backend(int ordinal) {
  const CudaDevices& cuda = open_cuda_devices();
  const auto count = static_cast<int>(cuda.devices.size());
  std::string reason = cuda.reason;
  if (ordinal < count) {
    const CudaDevice& device = cuda.devices[static_cast<std::size_t>(ordinal)];
    if (device.backend != nullptr) return *device.backend;
    reason = device.reason;
  } else if (count > 0) {
    reason = count == 1 ? "cuda:0 is the only one" : cat("there are cuda:0 to cuda:", count - 1);
  }
  fail(ErrorCode::device_error,
       cat("no usable CUDA device ", ordinal, ": ", reason, "; use device=auto or device=cpu"));
}

const Backend* find_entry(const std::string& device) {
  for (const NamedBackend& entry : backends)
    if (device == entry.name) return &entry.get();
  return nullptr;
}

[[noreturn]] void fail_unknown(const std::string& device) {
  fail(ErrorCode::invalid_argument, cat("unknown device \"", device, "\"; devices: auto, ", joined(backend_names()),
                                        ", cuda, cuda:N, cuda:all, or several with commas between"));
}

}  // namespace

std::vector<std::string> device_names(const std::string& asked) {
  std::string device = asked;
  force(device, "VICINAL_BACKEND");
  std::vector<std::string> names;
  if (device == "cuda:all") {
    const CudaDevices& cuda = open_cuda_devices();
    for (std::size_t ordinal = 0; ordinal < cuda.devices.size(); ++ordinal)
      if (cuda.devices[ordinal].backend != nullptr) names.push_back(cat("cuda:", ordinal));
    if (names.empty()) cuda_backend(0);  // which says why
    return names;
  }
  if (device.find(',') == std::string::npos) return {device};
  for (std::size_t at = 0; at <= device.size();) {
    const std::size_t end = std::min(device.find(',', at), device.size());
    const std::string name = device.substr(at, end - at);
    const std::optional<int> ordinal = cuda_ordinal(name);
    if (!ordinal && find_entry(name) == nullptr) fail_unknown(name);
    names.push_back(ordinal ? cat("cuda:", *ordinal) : name);
    if (ordinal && std::find(names.begin(), names.end() - 1, names.back()) != names.end() - 1)
      fail(ErrorCode::invalid_argument, cat("device ", device, ": ", names.back(), " is named twice"));
    if (ordinal.has_value() != names.front().starts_with("cuda:"))
      fail(ErrorCode::invalid_argument,
           cat("device ", device, ": several devices are of one kind; name CUDA devices alone"));
    at = end + 1;
  }
  return names;
}

std::vector<std::string> several_devices(const std::string& asked) {
  std::vector<std::string> names;
  if (find_entry(asked) == nullptr) names = device_names(asked);
  if (names.size() < 2) names.clear();
  return names;
}

const Backend& find_backend(const std::string& asked) {
  if (const Backend* backend = find_entry(asked)) return *backend;  // as most calls have it: no list is made
  const std::string device = device_names(asked).front();
  if (device == "auto") return backends[0].get();
  if (const Backend* backend = find_entry(device)) return *backend;
  const std::optional<int> ordinal = cuda_ordinal(device);
  if (!ordinal) fail_unknown(device);
  return cuda_backend(*ordinal);
}

const Backend& find_select_backend(const std::string& asked, int cuda_device) {
  const std::string device = device_names(asked).front();
  const bool on_host = cuda_device < 0;
  if (device == "auto") return on_host ? backends[0].get() : cuda_backend(cuda_device);
  if (const Backend* backend = find_entry(device)) {
    if (!on_host)
      fail(ErrorCode::device_error, cat("values are in memory of cuda:", cuda_device, ", which device=", device,
                                        " cannot read; use device=auto, or copy them to the host"));
    return *backend;
  }
  const std::optional<int> ordinal = cuda_ordinal(device);
  if (!ordinal) fail_unknown(device);
  if (on_host) return cuda_backend(*ordinal);
  if (device != "cuda" && *ordinal != cuda_device)  // "cuda" is the device of the values
    fail(ErrorCode::device_error, cat("values are in memory of cuda:", cuda_device, " and device=", device,
                                      "; use device=auto, or copy them there"));
  return cuda_backend(cuda_device);
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const NamedBackend& entry : backends) names.emplace_back(entry.name);
  return names;
}

Execution with_environment(Execution run) {
  force(run.instruction_set, "VICINAL_ISA");
  force(run.filter, "VICINAL_FILTER");
  return run;
}

std::vector<Device> devices() {
  std::vector<Device> found;
  for (const NamedBackend& entry : backends) {
    const DeviceBackend& device = entry.get().device();
    found.push_back({device.facts().name, device.description(), true, "", device.free_bytes()});
  }
  const CudaDevices& cuda = open_cuda_devices();
  if (cuda.devices.empty()) found.push_back({"cuda", "", false, cuda.reason, 0});
  for (std::size_t ordinal = 0; ordinal < cuda.devices.size(); ++ordinal) {
    const CudaDevice& device = cuda.devices[ordinal];
    Device line{cat("cuda:", ordinal), "", device.backend != nullptr, device.reason, 0};
    try {
      if (device.backend != nullptr) {
        line.description = device.backend->device().description();
        line.free_bytes = device.backend->device().free_bytes();
      }
    } catch (const Error& error) {  // a device that was there and fails now, or a child after fork()
      line.usable = false;
      line.reason = error.what();
    }
    found.push_back(std::move(line));
  }
  return found;
}

std::int64_t release_memory() {
  std::int64_t released = 0;
  if (!opened.load(std::memory_order_acquire)) return released;
  for (const CudaDevice& device : cuda_devices().devices)
    if (device.backend != nullptr) released += device.backend->device().release_memory();
  return released;
}

Rates measure_rates(const Execution& run) {
  const Execution asked = with_environment(run);
  std::vector<std::string> known;
  for (const PrecisionRow& row : precision_rows) {
    if (asked.filter == row.name)
      return find_backend(run.device)
          .search()
          .rates(asked.instruction_set, row.precision, run.threads == 0 ? default_threads() : run.threads);
    known.emplace_back(row.name);
  }
  fail(ErrorCode::invalid_argument,
       cat("rates are those of one filter, got \"", asked.filter, "\"; filters: ", joined(known)));
}

Info info() {
  const Facts& facts = cpu_backend().device().facts();
  Info result;
  result.version = VICINAL_VERSION;
#if defined(__clang__)
  result.compiler = cat("clang ", __clang_major__, ".", __clang_minor__);
#else
  result.compiler = cat("gcc ", __GNUC__, ".", __GNUC_MINOR__);
#endif
  result.instruction_sets = facts.instruction_sets;
  result.built_instruction_sets = facts.built_instruction_sets;
  for (const Precision precision : facts.precisions) result.filters.push_back(precision_name(precision));
  result.backends = backend_names();
  result.devices = devices();
  result.threads = default_threads();
  return result;
}

}  // namespace vicinal
