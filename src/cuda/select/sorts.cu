// The launches of sorts.cuh on a device.
#include "cuda/device/launch.cuh"
#include "cuda/select/sorts.cuh"

namespace vicinal::cuda {

template void run_merge(CudaLaunch& launch, const Job& job);
template void run_sort(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
