// What the programs that time selection on a CUDA device share: rows of families, and the read that no selection can beat.
#pragma once
#include <cstdint>

#include "device_timing.cuh"

namespace bench {

inline constexpr const char* families[] = {"random",     "equal",       "ascending", "descending",
                                           "few-valued", "one outlier", "NaN-rich",  "denormals"};

/// Rows of `cols` values of a family, by its place in `families`.
static __global__ void fill(float* values, std::int64_t count, std::int64_t cols, int family,
                            unsigned long long seed = 0) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    unsigned long long x = (static_cast<unsigned long long>(i) + 1 + (seed << 40)) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    const std::int64_t col = i % cols;
    const float random = static_cast<float>(x >> 40) * (1.0f / 16777216.0f);
    float value = random;
    if (family == 1 || family == 5) value = family == 5 && col == cols / 2 ? -1.0f : 1.0f;
    else if (family == 2) value = static_cast<float>(col) / static_cast<float>(cols);
    else if (family == 3) value = static_cast<float>(cols - col) / static_cast<float>(cols);
    else if (family == 4) value = static_cast<float>(x >> 62);
    else if (family == 6) value = x % 10 != 0 ? __int_as_float(0x7fc00000) : random;
    else if (family == 7) value = __int_as_float(static_cast<int>(x >> 44 | (x & 1) << 31));
    values[i] = value;
  }
}

static __global__ void add_up(const float4* values, std::int64_t count, float* out) {
  float sum = 0;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float4 v = values[i];
    sum += v.x + v.y + v.z + v.w;
  }
  if (sum == -1) *out = sum;  // never: the loads must stay
}

}  // namespace bench
