// Selection on a CUDA device, every algorithm by name, values and results in device memory: medians by device events, and the share
// of the time that reading the rows once would take. Comma-separated lines on stdout, for bench/results/select_cuda.csv.
//   bench_select [--seconds S] [--only PREFIX] [--family NAME]
//     at most S seconds for one algorithm on one shape (default 0.5); algorithms whose names begin with PREFIX; rows of a
//     family (default random; `all` for each in turn)
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "vicinal/select.hpp"

namespace {

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench_select: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

constexpr const char* families[] = {"random", "equal", "ascending", "descending", "few-valued", "one outlier", "NaN-rich", "denormals"};

/// Rows of `cols` values of a family, by its place in `families`.
__global__ void fill(float* values, std::int64_t count, std::int64_t cols, int family) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    unsigned long long x = (static_cast<unsigned long long>(i) + 1) * 0x9e3779b97f4a7c15ull;
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
  double seconds = 0.5;
  std::string only, family = "random";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    else if (std::strcmp(argv[i], "--family") == 0) family = argv[i + 1];
  }
  struct Shape {
    std::int64_t rows, cols;
    std::vector<std::int64_t> ks;
  };
  const std::vector<Shape> shapes = {{1000, 1 << 20, {10, 100, 1000}}, {8192, 65536, {100}}, {65536, 8192, {10, 100, 1000}}, {524288, 1024, {100}},
                                     {256, 1 << 20, {2, 1024, 3000}},  {1, 1 << 20, {100}},  {1, 1 << 24, {100, 65536}},           {1, 1 << 28, {10, 100, 16384}}};
  constexpr std::int64_t most = 1000ll << 20;
  float *values = nullptr, *out = nullptr;
  std::int64_t* ids = nullptr;
  must(cudaMalloc(&values, most * 4));
  must(cudaMalloc(&out, std::int64_t{65536} * 1000 * 4));
  must(cudaMalloc(&ids, std::int64_t{65536} * 1000 * 8));
  cudaStream_t stream;
  must(cudaStreamCreate(&stream));
  std::printf("rows,cols,k,family,algorithm,median_ms,read_ms,share_of_read\n");
  std::vector<std::pair<Shape, int>> runs;
  for (const Shape& shape : shapes)
    for (int f = 0; f < static_cast<int>(std::size(families)); ++f)
      if (family == "all" || family == families[f]) runs.emplace_back(shape, f);
  for (const auto& [shape, f] : runs) {
    fill<<<4096, 256, 0, stream>>>(values, shape.rows * shape.cols, shape.cols, f);
    must(cudaGetLastError());
    const double read = median_ms(stream, 0.2, [&] { add_up<<<132 * 16, 256, 0, stream>>>(reinterpret_cast<const float4*>(values), shape.rows * shape.cols / 4, out); });
    for (const std::int64_t k : shape.ks) {
      for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms()) {
        if (algorithm.devices.find("cuda") == std::string_view::npos || algorithm.name.substr(0, only.size()) != only) continue;
        vicinal::Values view(values, vicinal::ValueType::f32, shape.rows, shape.cols);
        view.cuda_device = 0;
        const vicinal::SelectOptions options{.k = k, .algorithm = std::string(algorithm.name), .stream = stream};
        const vicinal::SelectionView result{.values = out, .ids = ids, .rows = shape.rows, .k = k};
        try {
          const double ms = median_ms(stream, seconds, [&] { vicinal::select_k_into(result, view, options); });
          std::printf("%lld,%lld,%lld,%s,%s,%.4f,%.4f,%.4f\n", static_cast<long long>(shape.rows), static_cast<long long>(shape.cols), static_cast<long long>(k), families[f],
                      std::string(algorithm.name).c_str(), ms, read, read / ms);
        } catch (const std::exception& error) {
          std::printf("%lld,%lld,%lld,%s,%s,,,\"%s\"\n", static_cast<long long>(shape.rows), static_cast<long long>(shape.cols), static_cast<long long>(k), families[f],
                      std::string(algorithm.name).c_str(), error.what());
        }
        std::fflush(stdout);
      }
    }
  }
}
