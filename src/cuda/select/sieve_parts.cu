// The launches of sieve_parts.cuh on a device.
#include "cuda/select/sieve_parts.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_sieve_parts(CudaLaunch& launch, const Job& job, const Emission& emission);

}  // namespace vicinal::cuda
