// The launches of scan.cuh on a device.
#include "cuda/select/scan.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_scan(CudaLaunch& launch, const Job& job);

}  // namespace vicinal::cuda
