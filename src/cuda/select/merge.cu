// The launches of merge.cuh on a device.
#include "cuda/select/merge.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_merge(CudaLaunch& launch, const Job& job);
template void run_sort(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
