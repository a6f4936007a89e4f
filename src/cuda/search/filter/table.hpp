// The kernels that filter, best first: one that runs on some architecture is a file and a name here (and flags in
// cmake/cuda.cmake, if its code needs any). Its struct has `facts`, `launch` and `is_present` (kernel.hpp).
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "cuda/device/architectures.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/filter/float_mma.cuh"
#include "cuda/search/filter/int8_differences.cuh"
#include "cuda/search/filter/int8_mma.cuh"
#include "cuda/search/filter/int8_wgmma.cuh"

namespace vicinal::cuda {

template <class... Rows>
struct FilterTable {
  static constexpr const FilterKernel* kernels[sizeof...(Rows)] = {&Rows::facts...};
  static_assert(((Rows::facts.writing_warps <= most_writing_warps) && ...), "memory is planned for most_writing_warps");

  /// f(row) of the kernel's row.
  template <class F>
  static void with(const FilterKernel& kernel, const F& f) {
    static_cast<void>(((&Rows::facts == &kernel && (f(Rows{}), true)) || ...));
  }
};
using FilterKernels = FilterTable<Int8Wgmma, Int8Mma, Int8Differences, FloatMma>;

/// Kernels that a device may be given, best first.
using FilterSet = std::vector<const FilterKernel*>;

/// Those that a build for these architectures (architectures.hpp) has code of, for whatever device.
inline FilterSet compiled_filters(std::string_view architectures) {
  FilterSet compiled(std::begin(FilterKernels::kernels), std::end(FilterKernels::kernels));
  std::erase_if(compiled, [&](const FilterKernel* kernel) {
    const auto named = [&](const Architecture& one) { return one.name == kernel->architecture; };
    return !kernel->architecture.empty() && !any_architecture(architectures, named);
  });
  return compiled;
}
/// Those of them that a device of this compute capability has code of.
inline FilterSet built_filters(std::string_view architectures, int capability) {
  FilterSet built = compiled_filters(architectures);
  std::erase_if(built, [&](const FilterKernel* kernel) {
    return !kernel->architecture.empty() && !has_code_of(kernel->architecture, architectures, capability);
  });
  return built;
}
/// Their names for a plan, best first.
inline std::vector<std::string> instruction_sets_of(const FilterSet& set) {
  std::vector<std::string> names;
  for (const FilterKernel* kernel : set)
    if (std::find(names.begin(), names.end(), kernel->instruction_set) == names.end())
      names.emplace_back(kernel->instruction_set);
  return names;
}

/// The kernel that filters for a precision and a sum: of the plan's
/// instruction set, or one that every device runs; null where none does.
inline const FilterKernel* filter_kernel(const FilterSet& set, Precision precision, Sum sum,
                                         std::string_view instruction_set) {
  for (const FilterKernel* kernel : set)
    if (kernel->accepts(precision, sum) && (kernel->instruction_set == instruction_set || kernel->architecture.empty()))
      return kernel;
  return nullptr;
}

/// Why a device whose blocks have so many bytes of shared memory has no filter for such rows; empty where it has one.
inline std::string filter_refusal(const std::string& name, const FilterSet& set, Precision precision, Sum sum,
                                  std::int64_t dims, std::string_view instruction_set, std::int64_t shared_bytes) {
  const FilterKernel* kernel = filter_kernel(set, precision, sum, instruction_set);
  if (kernel == nullptr || kernel->shared_bytes(precision, dims) <= shared_bytes) return "";
  return cat(name, " has ", shared_bytes, " bytes of shared memory a block, filter ", precision_name(precision), " of ",
             dims, " columns takes ", kernel->shared_bytes(precision, dims), ": it is not used there");
}

/// Filters, or takes the samples of initial_thresholds.cuh.
template <bool sampling, class Device>
void launch_filter(Device& device, const FilterKernel& kernel, Precision precision, Filter f, std::int64_t grid) {
  f.sampling = sampling;
  FilterKernels::with(kernel, [&](auto row) { row.template launch<sampling>(device, precision, f, grid); });
}

}  // namespace vicinal::cuda
