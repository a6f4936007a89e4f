// The launches of sieves.cuh on a device.
#include "cuda/device/launch.cuh"
#include "cuda/select/sieves.cuh"
