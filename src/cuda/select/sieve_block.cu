// The launches of sieve_block.cuh on a device.
#include "cuda/select/sieve_block.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_sieve_block(CudaLaunch& launch, const Job& job, const Emission& emission);

}  // namespace vicinal::cuda
