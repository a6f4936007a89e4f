// The launches of sieve_grid.cuh on a device.
#include "cuda/select/sieve_grid.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_sieve_grid(CudaLaunch& launch, const Job& job, const Emission& emission);

}  // namespace vicinal::cuda
