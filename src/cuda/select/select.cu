// The calls of select.hpp, and the launches of emit.cuh.
#include "cuda/select/select.hpp"

#include "cuda/device/launch.cuh"
#include "cuda/select/emit.cuh"
#include "cuda/select/sequence.hpp"

namespace vicinal::cuda {

template void run_emit(CudaLaunch& launch, const SelectBatch& batch, const Emission& emission);

namespace {

constexpr std::int64_t most_workspace = std::int64_t{2} << 30;

}  // namespace

const char* select_refusal(const SelectArgs& task) { return refusal<CudaLaunch>(task); }

std::int64_t select_workspace(const SelectArgs& task, int multiprocessors) {
  return plan_select<CudaLaunch>(task, multiprocessors, most_workspace).bytes;
}

Ran run_select(const SelectArgs& task, void* workspace, int multiprocessors) {
  const SelectPlan<CudaLaunch> plan = plan_select<CudaLaunch>(task, multiprocessors, most_workspace);
  CudaLaunch launch{static_cast<cudaStream_t>(task.stream)};
  run_sequence(launch, task, plan, workspace, multiprocessors);
  return {plan.algorithm, plan.why};
}

}  // namespace vicinal::cuda
