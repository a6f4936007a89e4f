// The launches of quick_warp.cuh on a device.
#include "cuda/select/quick_warp.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_quick_warp(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
