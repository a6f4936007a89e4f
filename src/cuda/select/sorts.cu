// The launches of sorts.cuh on a device.
#include "cuda/device/launch.cuh"
#include "cuda/select/sorts.cuh"

namespace vicinal::cuda {

template void run_merge(CudaLaunch& launch, const SelectBatch& batch);
template void run_sort(CudaLaunch& launch, const SelectBatch& batch);

}  // namespace vicinal::cuda
