// The launches of bitonic.cuh on a device.
#include "cuda/select/bitonic.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_bitonic(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
