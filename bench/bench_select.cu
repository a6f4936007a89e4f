// Selection on a CUDA device, every algorithm by name, values and results in device memory: medians by device events, and the share
// of the time that reading the rows once would take. Comma-separated lines on stdout, for bench/results/select_cuda.csv.
//   bench_select [--seconds S] [--only PREFIX] [--family NAME] [--cols N]
//     at most S seconds for one algorithm on one shape (default 0.5); algorithms whose names begin with PREFIX; rows of a
//     family (default random; `all` for each in turn); shapes of N columns
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "select_timing.cuh"
#include "vicinal/select.hpp"

using bench::add_up, bench::families, bench::fill, bench::median_ms, bench::must;

int main(int argc, char** argv) {
  double seconds = 0.5;
  std::int64_t cols = 0;
  std::string only, family = "random";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    else if (std::strcmp(argv[i], "--family") == 0) family = argv[i + 1];
    else if (std::strcmp(argv[i], "--cols") == 0) cols = std::atoll(argv[i + 1]);
  }
  struct Shape {
    std::int64_t rows, cols;
    std::vector<std::int64_t> ks;
  };
  const std::vector<Shape> shapes = {{1000, 1 << 20, {10, 100, 1000}},
                                     {8192, 65536, {100}},
                                     {65536, 8192, {10, 100, 1000}},
                                     {524288, 1024, {100}},
                                     {256, 1 << 20, {2, 1024, 3000}},
                                     {1, 1 << 16, {100}},
                                     {1, 1 << 18, {100}},
                                     {1, 1 << 20, {10, 100}},
                                     {1, 1 << 22, {100}},
                                     {1, 1 << 24, {100, 65536}},
                                     {8, 1 << 16, {100}},
                                     {8, 1 << 20, {100}},
                                     {64, 1 << 16, {100}},
                                     {64, 1 << 20, {100}},
                                     {1, 1 << 28, {10, 100, 16384}}};
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
      if ((family == "all" || family == families[f]) && (cols == 0 || cols == shape.cols)) runs.emplace_back(shape, f);
  for (const auto& [shape, f] : runs) {
    fill<<<4096, 256, 0, stream>>>(values, shape.rows * shape.cols, shape.cols, f);
    must(cudaGetLastError());
    const double read = median_ms(stream, 0.2, [&] {
      add_up<<<132 * 16, 256, 0, stream>>>(reinterpret_cast<const float4*>(values), shape.rows * shape.cols / 4, out);
    });
    for (const std::int64_t k : shape.ks) {
      for (const vicinal::SelectAlgorithm& algorithm : vicinal::select_algorithms()) {
        if (algorithm.devices.find("cuda") == std::string_view::npos || algorithm.name.substr(0, only.size()) != only)
          continue;
        vicinal::Values view(values, vicinal::ValueType::f32, shape.rows, shape.cols);
        view.cuda_device = 0;
        const vicinal::SelectOptions options{.k = k, .algorithm = std::string(algorithm.name), .stream = stream};
        const vicinal::SelectionView result{.values = out, .ids = ids, .rows = shape.rows, .k = k};
        try {
          const double ms = median_ms(stream, seconds, [&] { vicinal::select_k_into(result, view, options); });
          std::printf("%lld,%lld,%lld,%s,%s,%.4f,%.4f,%.4f\n", static_cast<long long>(shape.rows),
                      static_cast<long long>(shape.cols), static_cast<long long>(k), families[f],
                      std::string(algorithm.name).c_str(), ms, read, read / ms);
        } catch (const std::exception& error) {
          std::printf("%lld,%lld,%lld,%s,%s,,,\"%s\"\n", static_cast<long long>(shape.rows),
                      static_cast<long long>(shape.cols), static_cast<long long>(k), families[f],
                      std::string(algorithm.name).c_str(), error.what());
        }
        std::fflush(stdout);
      }
    }
  }
}
