// The axes that must not change a bit, read from the library at run time: a new instruction set or filter is tested
// the day it is listed.
#pragma once
#include <dlfcn.h>

#include <string>
#include <vector>

#include "conformance/support.hpp"

namespace conformance {

/// AddressSanitizer or ThreadSanitizer is in this process, in the library if not here: memory and pace are not its own.
inline const bool sanitized =
    ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;

enum class Memory { ample, third, least };
const char* memory_name(Memory memory);
inline const std::vector<Memory> all_memory = {Memory::ample, Memory::third, Memory::least};
inline const std::vector<int> all_threads = {1, 2, 7};

/// Usable instruction sets; the built ones that this CPU lacks are reported once as not run.
const std::vector<std::string>& instruction_sets();
const std::vector<std::string>& filters();

struct Setting {
  std::string instruction_set = "auto", filter = "auto";
  int threads = 0;
  Memory memory = Memory::ample;
  vicinal::Proof proof = vicinal::Proof::certified;
  std::string text() const;
};
Setting random_setting(Rng& rng);
/// The options with this setting; the budget comes from plan() of this very search.
vicinal::KnnOptions apply(const Setting& setting, vicinal::KnnOptions options, const vicinal::Points& corpus,
                          const vicinal::Points& queries);
vicinal::Shape shape_of(const vicinal::Points& points);

/// Every metric with every element type that it is defined for.
struct Kind {
  Metric metric;
  DType dtype;
  std::string text() const { return metric_name(metric) + " " + vicinal::dtype_name(dtype); }
};
const std::vector<Kind>& all_kinds();

/// Data on which order matters: some lattice, some duplicates, some offset, no degenerate row.
Table mixed_table(Rng& rng, DType type, std::int64_t n, std::int64_t d);

}  // namespace conformance
