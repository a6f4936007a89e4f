// What a function needs so that kernels may call it, too.
#pragma once
#if defined(__CUDACC__)
#define VICINAL_HOST_DEVICE __host__ __device__
#else
#define VICINAL_HOST_DEVICE
#endif
