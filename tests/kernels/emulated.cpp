// Every kernel of selection, compiled for the host.
#include "kernels/emulated.hpp"

#include <memory>

#include "cuda/select/emit.cuh"
#include "cuda/select/sieves.cuh"
#include "cuda/select/sorts.cuh"

namespace emulated {

Selected select(const vicinal::cuda::SelectArgs& task, const Machine& machine) {
  const auto plan = vicinal::cuda::plan_select<Launch>(task, machine.multiprocessors, machine.most_bytes);
  const std::unique_ptr<std::byte[]> workspace(new std::byte[static_cast<std::size_t>(plan.bytes)]);
  std::memset(workspace.get(), 0x5a, static_cast<std::size_t>(plan.bytes));
  Launch launch;
  vicinal::cuda::run_sequence(launch, task, plan, workspace.get(), machine.multiprocessors);
  return {plan, std::move(launch.kernels)};
}

}  // namespace emulated
