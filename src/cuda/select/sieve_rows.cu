// The launches of sieve_rows.cuh on a device.
#include "cuda/select/sieve_rows.cuh"

#include "cuda/select/launch.cuh"

namespace vicinal::cuda {

template void run_sieve_rows(CudaLaunch& launch, const Job& job, const Emission& emission);

}  // namespace vicinal::cuda
