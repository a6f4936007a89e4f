// The launches of quick_block.cuh on a device.
#include "cuda/select/quick_block.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_quick_block(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
