// The launches of sieves.cuh on a device.
#include "cuda/select/launch.cuh"
#include "cuda/select/sieves.cuh"
