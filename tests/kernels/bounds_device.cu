// bounds.hpp on a device: random tables of hostile kinds past every precision and metric until so many pairs were checked.
//   vicinal_bounds_device [PAIRS [SEED [SECONDS]]]      PAIRS: 1e10 unless told; ends earlier after SECONDS. Exit status 1 where a pair would have been excluded wrongly.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "cuda/device/launch.cuh"
#include "cuda/search/filter/self_test.cuh"
#include "kernels/bounds_fused.hpp"

namespace {
using namespace vicinal;

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(2);
}

struct TestDevice {
  int multiprocessors = 0;
  cuda::FilterSet usable;
  cudaStream_t stream = cudaStreamPerThread;

  void* take(std::int64_t bytes) {
    void* memory = nullptr;
    must(cudaMallocAsync(&memory, static_cast<std::size_t>(bytes), stream));
    return memory;
  }
  void give(void* memory) { cudaFreeAsync(memory, stream); }
  void copy(void* to, const void* from, std::int64_t bytes) {
    must(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream));
  }
  void in(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void out(void* to, const void* from, std::int64_t bytes) { copy(to, from, bytes); }
  void zero(void* at, std::int64_t bytes) { must(cudaMemsetAsync(at, 0, static_cast<std::size_t>(bytes), stream)); }
  void wait() { must(cudaStreamSynchronize(stream)); }
  cuda::CudaLaunch launch() const { return {stream}; }
  bool holds(const void* /*memory*/) const { return false; }
  void rows_in(std::byte* to, const Points& rows) {
    copy(to, rows.data, rows.rows * rows.cols * static_cast<std::int64_t>(dtype_size(rows.dtype)));
  }
  const cuda::FilterSet& filters() const { return usable; }
};

constexpr const char* kinds[] = {"gaussian",    "offset 1e6", "clusters 1e-2", "clusters 1e-5",
                                 "heavy tails", "lognormal",  "whole 0..3",    "decades",
                                 "sparse",      "1e-30",      "1e15",          "ulps apart"};

/// A table of a kind; queries are of the same one, some of them rows.
std::vector<float> table(std::mt19937_64& random, std::size_t kind, std::int64_t rows, std::int64_t dims,
                         const std::vector<float>& centres) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(1e-6F, 1);
  std::vector<float> values(static_cast<std::size_t>(rows * dims));
  const float spread = std::exp2(static_cast<float>(random() % 9) - 4);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = values.data() + r * dims;
    const float* centre = centres.data() + random() % 64 * static_cast<std::size_t>(dims);
    const float size = kind == 4   ? 1 / std::sqrt(uniform(random))
                       : kind == 7 ? std::pow(10.0F, 8 * uniform(random) - 4)
                                   : 1;
    for (std::int64_t i = 0; i < dims; ++i) {
      float& x = row[i];
      const float g = normal(random);
      switch (kind) {
        case 1: x = 1e6F + g; break;
        case 2: x = centre[i] + 1e-2F * g; break;
        case 3: x = centre[i] + 1e-5F * g; break;
        case 5: x = std::exp(1.5F * g); break;
        case 6: x = static_cast<float>(random() % 4); break;
        case 8: x = random() % 10 == 0 ? g : 0; break;
        case 9: x = 1e-30F * g; break;
        case 10: x = 1e15F * g; break;
        case 11: x = std::nextafter(centre[i], random() % 2 == 0 ? 1e9F : -1e9F); break;
        default: x = spread * size * g;
      }
    }
    row[0] += kind == 8 ? 1 : 0;  // no row of nothing but zeros
  }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  const double wanted = argc > 1 ? std::atof(argv[1]) : 1e10;
  const unsigned long long seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const double most_seconds = argc > 3 ? std::atof(argv[3]) : 1e9;
  cudaDeviceProp about{};
  must(cudaGetDeviceProperties(&about, 0));
  cudaMemPool_t pool{};
  must(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep = 1ull << 34;
  must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  TestDevice device{about.multiProcessorCount,
                    cuda::built_filters(VICINAL_CUDA_ARCHITECTURES, about.major * 10 + about.minor)};
  for (const cuda::FilterKernel* kernel : device.usable)
    if (!cuda::passes_test(device, *kernel)) {
      std::printf("%s: %s failed its test\n", about.name, std::string(kernel->name).c_str());
      return 1;
    }
  ThreadPool thread_pool(4, nullptr, {}, 1);
  const auto start = std::chrono::steady_clock::now();
  bounds::Tally all{};
  std::mt19937_64 random(seed);
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  try {
    for (int set = 0; static_cast<double>(all.pairs) < wanted && seconds() < most_seconds; ++set) {
      const std::size_t kind = static_cast<std::size_t>(set) % std::size(kinds);
      const std::int64_t dims = 1 + static_cast<std::int64_t>(random() % (set % 10 == 0  ? 1024
                                                                          : set % 5 == 0 ? 300
                                                                                         : 64)),
                         rows = 16384 - static_cast<std::int64_t>(random() % 200), queries = 1024;
      std::vector<float> centres(static_cast<std::size_t>(64 * dims));
      std::normal_distribution<float> normal;
      for (float& x : centres) x = normal(random);
      const std::vector<float> corpus = table(random, kind, rows, dims, centres);
      std::vector<float> asked = table(random, kind, queries, dims, centres);
      std::copy_n(corpus.begin(), 100 * dims, asked.begin());
      const Points corpus_rows(corpus.data(), DType::f32, rows, dims),
          query_rows(asked.data(), DType::f32, queries, dims);
      for (const MetricInfo& metric : metrics()) {
        if (!metric.vectors || metric.metric == Metric::hamming || filter_sum_of(metric.metric) == Sum::none) continue;
        const unsigned long long wrong_before = all.wrong;
        bounds::check_fused_queries(device, corpus_rows, query_rows, metric.metric, thread_pool, all);
        if (all.wrong != wrong_before)
          std::printf("WRONG: %llu of %s, %lld columns, %s by few queries; last: query %llu, row %llu\n",
                      all.wrong - wrong_before, kinds[kind], static_cast<long long>(dims),
                      std::string(metric.name).c_str(), all.first_query, all.first_row);
        const bool differences = metric.metric == Metric::l1 || metric.metric == Metric::linf;
        for (const Precision precision : {Precision::int8, Precision::fp16, Precision::f32})
          for (const char* instruction_set : {"wgmma", "mma"}) {
            if ((differences && precision == Precision::fp16) ||
                ((differences || precision != Precision::int8) && instruction_set[0] == 'w'))
              continue;
            const unsigned long long before = all.wrong;
            bounds::check(device, corpus_rows, query_rows, metric.metric, precision, instruction_set, thread_pool, all);
            if (all.wrong != before)
              std::printf("WRONG: %llu of %s, %lld columns, %s by %s (%s); last: query %llu, row %llu\n",
                          all.wrong - before, kinds[kind], static_cast<long long>(dims),
                          std::string(metric.name).c_str(), precision_name(precision).c_str(), instruction_set,
                          all.first_query, all.first_row);
          }
      }
    }
  } catch (const Error& error) {
    std::printf("stopped: %s\n", error.what());
  }
  std::printf(
      "%s: %llu pairs checked, %llu excluded wrongly, %llu of queries that the filter gives up, %.1f s, seed %llu\n",
      about.name, all.pairs, all.wrong, all.unfilterable, seconds(), seed);
  return all.wrong == 0 ? 0 : 1;
}
