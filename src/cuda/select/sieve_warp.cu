// The launches of sieve_warp.cuh on a device.
#include "cuda/select/sieve_warp.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_sieve_warp(CudaLaunch& launch, const Job& job, const Emission& emission);

}  // namespace vicinal::cuda
