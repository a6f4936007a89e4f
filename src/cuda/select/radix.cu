// The launches of radix.cuh on a device.
#include "cuda/select/radix.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_radix(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
