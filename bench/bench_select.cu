// Selection on a CUDA device, every algorithm by name, values and results in device memory: medians by device events, and the share
// of the time that reading the rows once would take. Comma-separated lines on stdout, for bench/results/select_cuda.csv.
//   bench_select [--seconds S]     at most S seconds for one algorithm on one shape (default 0.5)
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "vicinal/select.hpp"

namespace {

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench_select: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

__global__ void fill(float* values, std::int64_t count, unsigned seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    unsigned long long x = (static_cast<unsigned long long>(i) + seed) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    values[i] = static_cast<float>((x ^ x >> 31) >> 40) * (1.0f / 16777216.0f);
  }
}

__global__ void add_up(const float4* values, std::int64_t count, float* out) {
  float sum = 0;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float4 v = values[i];
    sum += v.x + v.y + v.z + v.w;
  }
  if (sum == -1) *out = sum;  // never: the loads must stay
}

template <class Body>
double median_ms(cudaStream_t stream, double seconds, const Body& body) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  std::vector<float> times;
  double all = 0;
  body();  // warm
  must(cudaStreamSynchronize(stream));
  while (times.size() < 3 || (all < seconds * 1e3 && times.size() < 50)) {
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
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc == 3 && std::strcmp(argv[1], "--seconds") == 0 ? std::atof(argv[2]) : 0.5;
  struct Shape {
    std::int64_t rows, cols;
    std::vector<std::int64_t> ks;
  };
  const std::vector<Shape> shapes = {{1000, 1 << 20, {10, 100, 1000}}, {8192, 65536, {100}}, {65536, 8192, {10, 100, 1000}}, {524288, 1024, {100}},
                                     {256, 1 << 20, {2, 1024, 3000}},  {1, 1 << 20, {100}},  {1, 1 << 24, {100}},           {1, 1 << 28, {100, 16384}}};
  constexpr std::int64_t most = 1000ll << 20;
  float *values = nullptr, *out = nullptr;
  std::int64_t* ids = nullptr;
  must(cudaMalloc(&values, most * 4));
  must(cudaMalloc(&out, std::int64_t{65536} * 1000 * 4));
  must(cudaMalloc(&ids, std::int64_t{65536} * 1000 * 8));
  cudaStream_t stream;
  must(cudaStreamCreate(&stream));
  fill<<<4096, 256, 0, stream>>>(values, most, 1);
  must(cudaGetLastError());
  std::printf("rows,cols,k,algorithm,median_ms,read_ms,share_of_read\n");
  for (const Shape& shape : shapes) {
    const double read = median_ms(stream, 0.2, [&] { add_up<<<132 * 16, 256, 0, stream>>>(reinterpret_cast<const float4*>(values), shape.rows * shape.cols / 4, out); });
    for (const std::int64_t k : shape.ks) {
      for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms()) {
        if (algorithm.devices.find("cuda") == std::string_view::npos) continue;
        vicinal::Values view(values, vicinal::ValueType::f32, shape.rows, shape.cols);
        view.cuda_device = 0;
        const vicinal::SelectOptions options{.k = k, .algorithm = std::string(algorithm.name), .stream = stream};
        const vicinal::SelectionView result{.values = out, .ids = ids, .rows = shape.rows, .k = k};
        try {
          const double ms = median_ms(stream, seconds, [&] { vicinal::select_k_into(result, view, options); });
          std::printf("%lld,%lld,%lld,%s,%.4f,%.4f,%.4f\n", static_cast<long long>(shape.rows), static_cast<long long>(shape.cols), static_cast<long long>(k),
                      std::string(algorithm.name).c_str(), ms, read, read / ms);
        } catch (const std::exception& error) {
          std::printf("%lld,%lld,%lld,%s,,,\"%s\"\n", static_cast<long long>(shape.rows), static_cast<long long>(shape.cols), static_cast<long long>(k),
                      std::string(algorithm.name).c_str(), error.what());
        }
        std::fflush(stdout);
      }
    }
  }
}
