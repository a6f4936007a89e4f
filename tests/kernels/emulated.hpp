// Selection by the CUDA kernels on the host: the sequence of src/cuda/select/sequence.hpp, launched on the emulator.
#pragma once
#include <cstddef>
#include <vector>

#include "cuda/select/sequence.hpp"

namespace emulated {

/// Launches as CudaLaunch does, and keeps which kernels these were.
struct Launch {
  std::vector<const void*> kernels = {};

  template <class Args>
  void operator()(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
                  const std::type_identity_t<Args>& args) {
    kernels.push_back(reinterpret_cast<const void*>(kernel));
    simt::launch(dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                 static_cast<std::size_t>(shared), [&] { kernel(args); });
  }
  /// Here a kernel starts when the one before has ended.
  template <class Args>
  void next(std::int64_t blocks, int threads, std::int64_t shared, void (*kernel)(Args),
            const std::type_identity_t<Args>& args) {
    (*this)(blocks, threads, shared, kernel, args);
  }
};

struct Machine {
  int multiprocessors = 1;
  std::int64_t most_bytes = std::int64_t{1} << 30;  // of workspace, which decides about batches
};

/// What was planned, and the kernels that ran, in order.
struct Selected : vicinal::cuda::SelectPlan<Launch> {
  std::vector<const void*> kernels;
};
/// run_select, with a workspace of just the planned size.
Selected select(const vicinal::cuda::SelectArgs& task, const Machine& machine);

}  // namespace emulated
