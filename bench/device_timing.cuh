// How programs time what is queued on a CUDA device.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench {

inline void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

/// Median, mean and standard deviation of milliseconds between device events around body().
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

template <class Body>
double median_ms(cudaStream_t stream, double seconds, const Body& body, int most = 50) {
  return times_of(stream, seconds, most, body).median;
}

}  // namespace bench
