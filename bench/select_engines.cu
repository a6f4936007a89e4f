// Selection on a CUDA device by ours and by CUB 3.5, as a library that bench/select_cuda.py and repro/ load into the process in which
// torch runs too: values and results in device memory, times between device events.
//   CUB's DeviceTopK takes one row at a time and its DeviceBatchedTopK rows that one block holds; both give the set without an order
// and, where values are equal, any of them. Its radix sorts are sorted and stable, and sort everything.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_batched_topk.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_topk.cuh>

#include <stdexcept>
#include <string>

#include "select_timing.cuh"
#include "vicinal/select.hpp"

namespace {

using bench::must;
using bench::Times;

/// Device memory that grows and stays.
class Memory {
 public:
  void* of(std::size_t bytes) {
    if (bytes > bytes_) {
      if (data_ != nullptr) must(cudaFree(data_));
      data_ = nullptr;
      must(cudaMalloc(&data_, bytes));
      bytes_ = bytes;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};
Memory spare, sorted_keys, positions, sorted_positions, out_values, out_ids;

__global__ void count_columns(int* to, std::int64_t count, std::int64_t cols) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    to[i] = static_cast<int>(i % cols);
}

struct Call {
  const float* values;
  std::int64_t rows, cols, k;
  bool ids;
  double seconds;
  int most;
  cudaStream_t stream;
};

const auto unordered =
    cuda::execution::require(cuda::execution::determinism::not_guaranteed, cuda::execution::tie_break::unspecified,
                             cuda::execution::output_ordering::unsorted);

Times ours(const Call& call, const std::string& algorithm) {
  vicinal::Values view(call.values, vicinal::ValueType::f32, call.rows, call.cols);
  view.cuda_device = 0;
  const vicinal::SelectOptions options{.k = call.k, .algorithm = algorithm, .stream = call.stream};
  const auto count = static_cast<std::size_t>(call.rows * call.k);
  const vicinal::SelectionView result{.values = out_values.of(count * 4),
                                      .ids = call.ids ? static_cast<std::int64_t*>(out_ids.of(count * 8)) : nullptr,
                                      .rows = call.rows,
                                      .k = call.k};
  return bench::times_of(call.stream, call.seconds, call.most, [&] { vicinal::select_k_into(result, view, options); });
}

/// CUB's two steps: how much memory, then the work. `step(memory, bytes)`.
template <class Step>
Times in_two_steps(const Call& call, const Step& step) {
  std::size_t bytes = 0;
  must(step(nullptr, bytes));
  void* memory = spare.of(bytes + 1);
  return bench::times_of(call.stream, call.seconds, call.most, [&] { must(step(memory, bytes)); });
}

Times cub_topk(const Call& call) {
  auto* values = static_cast<float*>(out_values.of(static_cast<std::size_t>(call.rows * call.k) * 4));
  auto* ids = static_cast<int*>(out_ids.of(static_cast<std::size_t>(call.rows * call.k) * 8));
  const auto environment = cuda::std::execution::env{cuda::stream_ref{call.stream}, unordered};
  const auto row = [&](std::int64_t i, void* memory, std::size_t& bytes) {
    const auto n = static_cast<int>(call.cols), k = static_cast<int>(call.k);
    const float* from = call.values + i * call.cols;
    return call.ids ? cub::DeviceTopK::MinPairs(memory, bytes, from, values + i * k, thrust::counting_iterator<int>(0),
                                                ids + i * k, n, k, environment)
                    : cub::DeviceTopK::MinKeys(memory, bytes, from, values + i * k, n, k, environment);
  };
  return in_two_steps(call, [&](void* memory, std::size_t& bytes) {
    cudaError_t status = cudaSuccess;
    for (std::int64_t i = 0; i < (memory == nullptr ? 1 : call.rows) && status == cudaSuccess; ++i)
      status = row(i, memory, bytes);
    return status;
  });
}

template <class T>
struct RowAt {
  T* base;
  std::int64_t length;
  __host__ __device__ T* operator()(std::int64_t row) const { return base + row * length; }
};
template <class T>
auto rows_from(T* base, std::int64_t length) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), RowAt<T>{base, length});
}
struct Same {
  __host__ __device__ thrust::counting_iterator<int> operator()(std::int64_t) const {
    return thrust::counting_iterator<int>(0);
  }
};

struct Offset {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * cols; }
};

template <int most_cols>
Times cub_batched(const Call& call) {
  auto* values = static_cast<float*>(out_values.of(static_cast<std::size_t>(call.rows * call.k) * 4));
  auto* ids = static_cast<int*>(out_ids.of(static_cast<std::size_t>(call.rows * call.k) * 8));
  const auto environment = cuda::std::execution::env{cuda::stream_ref{call.stream}, unordered};
  const auto columns = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Same{});
  return in_two_steps(call, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceBatchedTopK::MinPairs(
        memory, bytes, rows_from(call.values, call.cols), rows_from(values, call.k), columns, rows_from(ids, call.k),
        cuda::args::constant<most_cols>{},
        cuda::args::immediate{static_cast<int>(call.k), cuda::args::bounds<1, most_cols>()}, call.rows, environment);
  });
}

const int* columns_of(const Call& call) {
  const std::int64_t count = call.rows * call.cols;
  auto* to = static_cast<int*>(positions.of(static_cast<std::size_t>(count) * 4));
  count_columns<<<4096, 256, 0, call.stream>>>(to, count, call.cols);
  must(cudaGetLastError());
  return to;
}

Times cub_sort(const Call& call) {
  const std::int64_t count = call.rows * call.cols;
  auto* keys = static_cast<float*>(sorted_keys.of(static_cast<std::size_t>(count) * 4));
  if (!call.ids && call.rows == 1)
    return in_two_steps(call, [&](void* memory, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortKeys(memory, bytes, call.values, keys, count, 0, 32, call.stream);
    });
  const int* from = columns_of(call);
  auto* to = static_cast<int*>(sorted_positions.of(static_cast<std::size_t>(count) * 4));
  if (call.rows == 1)
    return in_two_steps(call, [&](void* memory, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, call.values, keys, from, to, count, 0, 32, call.stream);
    });
  const auto offsets = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Offset{call.cols});
  return in_two_steps(call, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortPairs(memory, bytes, call.values, keys, from, to, count, call.rows,
                                                    offsets, offsets + 1, 0, 32, call.stream);
  });
}

Times read_all(const Call& call) {
  auto* out = static_cast<float*>(out_values.of(4));
  return bench::times_of(call.stream, call.seconds, call.most, [&] {
    bench::add_up<<<132 * 16, 256, 0, call.stream>>>(reinterpret_cast<const float4*>(call.values),
                                                     call.rows * call.cols / 4, out);
  });
}

std::string why_not;

Times time_engine(const std::string& engine, const Call& call) {
  if (engine == "read") return read_all(call);
  if (engine.rfind("vicinal ", 0) == 0) return ours(call, engine.substr(8));
  const auto refuse = [](const char* why) { throw std::runtime_error(why); };
  if (engine == "cub topk") {
    if (call.cols > 1 << 30) refuse("a row of so many values was not tried");
    return cub_topk(call);
  }
  if (engine == "cub batched topk") {
    if (!call.ids) refuse("it is timed with ids");
    switch (call.cols) {
      case 1024: return cub_batched<1024>(call);
      case 4096: return cub_batched<4096>(call);
      case 8192: return cub_batched<8192>(call);
      default:
        refuse("it is compiled for rows of 1,024, 4,096 and 8,192 values, and takes none that a block does not hold");
    }
  }
  if (engine == "cub sort") return cub_sort(call);
  refuse("no such engine");
  return {};
}

}  // namespace

extern "C" {

void bench_fill(float* values, std::int64_t rows, std::int64_t cols, int family, std::uint64_t seed) {
  bench::fill<<<4096, 256>>>(values, rows * cols, cols, family, seed);
  must(cudaGetLastError());
  must(cudaDeviceSynchronize());
}

/// Milliseconds of the engine into out[0..3]: median, mean, standard deviation, repetitions. Null, or why it was not timed.
const char* bench_time(const char* engine, const float* values, std::int64_t rows, std::int64_t cols, std::int64_t k,
                       int ids, double seconds, int most, double* out) {
  static cudaStream_t stream = [] {
    cudaStream_t made;
    must(cudaStreamCreate(&made));
    return made;
  }();
  try {
    const Times times = time_engine(engine, {values, rows, cols, k, ids != 0, seconds, most, stream});
    out[0] = times.median;
    out[1] = times.mean;
    out[2] = times.deviation;
    out[3] = times.count;
    return nullptr;
  } catch (const std::exception& error) {
    why_not = error.what();
    return why_not.c_str();
  }
}

/// The names of ours, with commas.
const char* bench_algorithms() {
  static const std::string all = [] {
    std::string names;
    for (const vicinal::SelectAlgorithm& one : vicinal::select_algorithms())
      if (one.devices.find("cuda") != std::string_view::npos)
        names += (names.empty() ? "" : ",") + std::string(one.name);
    return names;
  }();
  return all.c_str();
}
}
