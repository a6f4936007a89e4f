// The algorithms of algorithm.def that run on CUDA, by name.
#pragma once
#include <string_view>

#include "cuda/select/kernel.hpp"

namespace vicinal::cuda {

#define VICINAL_ROW_cpu(name)
#define VICINAL_ROW_cuda(name) \
  template <class Launch>      \
  const SelectKernel<Launch>& name##_select();
#define VICINAL_ROW_cpu_and_cuda(name) VICINAL_ROW_cuda(name)
#define VICINAL_SELECT(name, devices, ...) VICINAL_ROW_##devices(name)
#include "select/algorithm.def"
#undef VICINAL_SELECT
#undef VICINAL_ROW_cuda

/// Null for a name that no algorithm on CUDA has.
template <class Launch>
const SelectKernel<Launch>* find_select_kernel(std::string_view wanted) {
#define VICINAL_ROW_cuda(name) \
  if (wanted == #name) return &name##_select<Launch>();
#define VICINAL_SELECT(name, devices, ...) VICINAL_ROW_##devices(name)
#include "select/algorithm.def"
#undef VICINAL_SELECT
#undef VICINAL_ROW_cpu
#undef VICINAL_ROW_cuda
#undef VICINAL_ROW_cpu_and_cuda
  return nullptr;
}

}  // namespace vicinal::cuda
