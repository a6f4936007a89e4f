// What this machine and this build can do.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vicinal/options.hpp"

namespace vicinal {

struct Device {
  std::string name;         // "cpu", "cuda:0"
  std::string description;  // "2 threads, avx512"
  bool usable = false;
  std::string reason;  // why not, when it is not usable
  std::int64_t free_bytes = 0;
};
/// The CPU first; a backend that is absent is listed with the reason.
std::vector<Device> devices();

/// Gives back to the drivers what CUDA devices keep of their memory between calls, for another library in this process:
/// at most 4 GiB each, or an eighth while a corpus is prepared there (docs/design/0026). Returns how many bytes that
/// were. Prepared corpora stay, and the next search takes memory anew, 1 ms a GiB.
/// May be called at any time, from any thread; opens no device. Throws Error (DeviceError).
std::int64_t release_memory();

struct Info {
  std::string version;        // "0.1.0"
  int semantics_version = 1;  // changes with any change of values or order
  std::string compiler;
  std::vector<std::string> instruction_sets;        // usable here, best first: "avx512amx", "avx512", "avx2", "plain"
  std::vector<std::string> built_instruction_sets;  // compiled in, whether or not this device has them
  /// Precisions of the CPU's filter, first to last: "int8", "f32", "canonical"; a CUDA device has "fp16" before "f32"
  /// too.
  std::vector<std::string> filters;
  std::vector<std::string> backends;  // those that search: "cpu"
  std::vector<Device> devices;
  int threads = 1;  // what threads = 0 means here
};
Info info();

/// What a device does at best, for a search to be held against.
struct Rates {
  double products = 0;       // multiply-adds a second of a filter's tiles whose rows are in the first-level cache
  double bytes = 0;          // a second, read from memory
  double element_bytes = 0;  // of a row of that filter, an element
};
/// Measures them, in some 50 ms, for the threads, the instruction set and the filter of `run`, by its name. All 0 where
/// a device does not say, which it does on the CPU for its own filters. Throws Error (InvalidArgument) for a name that
/// is no filter's, "auto" among them.
Rates measure_rates(const Execution& run);

}  // namespace vicinal
