// Every kernel of selection, compiled for the host.
#include "kernels/emulated.hpp"

#include <memory>

#include "cuda/select/bitonic.cuh"
#include "cuda/select/emit.cuh"
#include "cuda/select/merge.cuh"
#include "cuda/select/quick_block.cuh"
#include "cuda/select/quick_warp.cuh"
#include "cuda/select/radix.cuh"
#include "cuda/select/scan.cuh"
#include "cuda/select/sieve_block.cuh"
#include "cuda/select/sieve_grid.cuh"
#include "cuda/select/sieve_parts.cuh"
#include "cuda/select/sieve_rows.cuh"

namespace emulated {

vicinal::cuda::SelectPlan select(const vicinal::cuda::SelectTask& task, const Machine& machine) {
  const vicinal::cuda::SelectPlan plan = vicinal::cuda::plan_select(task, machine.multiprocessors, machine.most_bytes);
  const std::unique_ptr<std::byte[]> workspace(new std::byte[static_cast<std::size_t>(plan.bytes)]);
  std::memset(workspace.get(), 0x5a, static_cast<std::size_t>(plan.bytes));
  Launch launch;
  vicinal::cuda::run_sequence(launch, task, plan, workspace.get(), machine.multiprocessors);
  return plan;
}

}  // namespace emulated
