// The seam. Above it: plan, the loop over tiles, certify, merge, written once. Below it: one folder a device.
// A backend gives access to what its device can do, an interface each: it must have the first three.
#pragma once
#include <string>
#include <vector>

#include "backend/device.hpp"
#include "backend/ranks.hpp"
#include "backend/search.hpp"
#include "backend/select.hpp"
#include "backend/strings.hpp"

namespace vicinal {

struct MatchBackend;  // backend/match.hpp

struct Backend {
  virtual ~Backend() = default;
  virtual const DeviceBackend& device() const = 0;
  virtual const SearchBackend& search() const = 0;
  virtual const SelectBackend& select() const = 0;
  /// Optional; null: the host searches strings.
  virtual const StringBackend* strings() const { return nullptr; }
  /// Optional; null: the host searches a permutation index.
  virtual const RankBackend* ranks() const { return nullptr; }
  /// Optional; null: matching is a search for each direction of each pair.
  virtual const MatchBackend* match() const { return nullptr; }
};

/// It returns the devices that Execution::device names, each as a name of one: several for "cuda:all", all that are
/// usable, and for a list such as "cuda:0,cuda:1"; else one. Throws InvalidArgument for a list of an unknown name, of
/// devices of two kinds, or of one CUDA device twice; DeviceError for "cuda:all" where there are none.
std::vector<std::string> device_names(const std::string& device);
/// It returns the same where they are several; none where it is one.
std::vector<std::string> several_devices(const std::string& device);
/// It returns the backend that searches for Execution::device, the first of several; "auto" is the CPU, and then
/// nothing is loaded. Throws DeviceError for one that is absent, InvalidArgument for an unknown name.
const Backend& find_backend(const std::string& device);
/// It returns the backend that selects: for values on a CUDA device (cuda_device >= 0) or on the host (-1). "auto" goes
/// where the values are. Throws as find_backend does, and DeviceError where the device cannot read the values.
const Backend& find_select_backend(const std::string& device, int cuda_device);
/// It returns the names of the backends that are compiled in, the default first.
std::vector<std::string> backend_names();
/// It replaces "auto" by what VICINAL_ISA and VICINAL_FILTER force. VICINAL_BACKEND is for the two above.
Execution with_environment(Execution run);

/// The host CPU; src/cpu/backend.cpp.
const Backend& cpu_backend();

}  // namespace vicinal
