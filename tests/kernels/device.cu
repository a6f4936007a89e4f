// The same tests on a device: this file stands in for emulated.cpp, and copies each task to the device and back. Built by hand
// where a GPU is:
//   nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a -fmad=false -I include -I src -I tests src/cuda/select/*.cu
//     tests/kernels/device.cu tests/kernels/inputs.cpp tests/kernels/test_select.cpp tests/simt/fibers.cpp
//     tests/oracle/select.cpp -lgtest -lgtest_main
#include <cstdlib>
#include <iostream>
#include <vector>

#include "cuda/select/launch.cuh"
#include "cuda/select/sequence.hpp"

namespace emulated {

struct Machine {  // as in emulated.hpp, which speaks of the emulator
  int multiprocessors;
  std::int64_t most_bytes;
};

namespace {

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::cerr << "CUDA: " << cudaGetErrorString(status) << "\n";
  std::exit(1);
}

/// Device memory for the bytes [first, end) of the host.
class Mirror {
 public:
  Mirror(const void* first, std::int64_t bytes)
      : host_(static_cast<const char*>(first)), bytes_(static_cast<std::size_t>(bytes)) {
    must(cudaMalloc(&device_, bytes_ + 1));
    if (first != nullptr) must(cudaMemcpy(device_, host_, bytes_, cudaMemcpyHostToDevice));
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() { cudaFree(device_); }
  /// The place on the device of a place on the host.
  template <class T>
  T* at(T* place) const {
    if (place == nullptr) return nullptr;
    return reinterpret_cast<T*>(device_ + (reinterpret_cast<const char*>(place) - host_));
  }
  void* memory() const { return device_; }
  void back() const {
    if (host_ != nullptr) must(cudaMemcpy(const_cast<char*>(host_), device_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  const char* host_;
  char* device_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

vicinal::cuda::SelectPlan select(const vicinal::cuda::SelectTask& task, const Machine& machine) {
  const auto plan = vicinal::cuda::plan_select(task, machine.multiprocessors, machine.most_bytes);
  const vicinal::Values& v = task.values;
  const auto size = static_cast<std::int64_t>(vicinal::value_size(v.type));
  const std::int64_t row_span = (v.rows - 1) * v.row_stride, col_span = (v.cols - 1) * v.col_stride;
  const std::int64_t before = std::min<std::int64_t>(0, row_span) + std::min<std::int64_t>(0, col_span);
  const std::int64_t after = std::max<std::int64_t>(0, row_span) + std::max<std::int64_t>(0, col_span) + size;
  const Mirror values(static_cast<const char*>(v.data) + before, after - before);
  const Mirror payload(task.payload.data, task.payload.data == nullptr ? 0 : v.rows * v.cols * task.payload.item_size);
  const std::int64_t results = v.rows * task.k;
  const auto bytes = [&](const void* out, std::int64_t item) { return out == nullptr ? 0 : results * item; };
  const Mirror out_values(task.out.values, bytes(task.out.values, size)), ids(task.out.ids, bytes(task.out.ids, 8)),
      out_payload(task.out.payload, bytes(task.out.payload, task.payload.item_size)), workspace(nullptr, plan.bytes);
  vicinal::cuda::SelectTask there = task;
  there.values.data = values.at(v.data);
  there.payload.data = payload.at(task.payload.data);
  there.out.values = out_values.at(task.out.values);
  there.out.ids = ids.at(task.out.ids);
  there.out.payload = out_payload.at(task.out.payload);
  vicinal::cuda::CudaLaunch launch{nullptr};
  vicinal::cuda::run_sequence(launch, there, plan, workspace.memory(), machine.multiprocessors);
  must(cudaDeviceSynchronize());
  out_values.back();
  ids.back();
  out_payload.back();
  return plan;
}

}  // namespace emulated
