// What the programs that time selection on a CUDA device share: rows of families, the read that no selection can beat, medians.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench {

inline void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

inline constexpr const char* families[] = {"random", "equal", "ascending", "descending", "few-valued", "one outlier", "NaN-rich", "denormals"};

/// Rows of `cols` values of a family, by its place in `families`.
static __global__ void fill(float* values, std::int64_t count, std::int64_t cols, int family, unsigned long long seed = 0) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
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
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float4 v = values[i];
    sum += v.x + v.y + v.z + v.w;
  }
  if (sum == -1) *out = sum;  // never: the loads must stay
}

/// `times` is at least 1: median, mean and standard deviation of milliseconds between device events around body().
struct Times {
  double median = 0, mean = 0, deviation = 0;
  int count = 0;
};
template <class Body>
Times times_of(cudaStream_t stream, double seconds, int most, const Body& body) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  std::vector<double> times;
  double all = 0;
  body();  // warm
  must(cudaStreamSynchronize(stream));
  while (times.size() < 3 || (all < seconds * 1e3 && static_cast<int>(times.size()) < most)) {
    must(cudaEventRecord(begin, stream));
    body();
    must(cudaEventRecord(end, stream));
    must(cudaEventSynchronize(end));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
    all += ms;
    if (all > 4 * seconds * 1e3) break;
  }
  must(cudaEventDestroy(begin));
  must(cudaEventDestroy(end));
  Times result;
  result.count = static_cast<int>(times.size());
  result.mean = all / result.count;
  for (const double ms : times) result.deviation += (ms - result.mean) * (ms - result.mean);
  result.deviation = result.count > 1 ? std::sqrt(result.deviation / (result.count - 1)) : 0;
  std::sort(times.begin(), times.end());
  result.median = times[times.size() / 2];
  return result;
}

}  // namespace bench
