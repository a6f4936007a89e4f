// What a CUDA backend does around its kernels: values of any strides copied in batches, results brought back, memory refused,
// pointers that are not where they are said to be. The launches are a sort here.
#include "unit/cuda/fake_runtime.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <regex>

// The host's side of the plugin, compiled by the host's compiler.
#include "cuda/device/feed.cu"    // NOLINT(bugprone-suspicious-include)
#include "cuda/device/load.cu"    // NOLINT(bugprone-suspicious-include)
#include "cuda/device/memory.cu"  // NOLINT(bugprone-suspicious-include)
#include "cuda/device/pinned.cu"  // NOLINT(bugprone-suspicious-include)
#include "cuda/select/run.cu"     // NOLINT(bugprone-suspicious-include)
#include "select/ordered.hpp"

namespace vicinal::cuda {

const char* select_refusal(const SelectArgs& task) {
  return std::string(task.algorithm) == "scan" ? "it is Monday" : nullptr;
}
std::int64_t select_workspace(const SelectArgs& task, int /*multiprocessors*/) { return task.values.rows * 100 + 64; }

Ran run_select(const SelectArgs& task, void* workspace, int multiprocessors) {
  std::memset(workspace, 0xcd, static_cast<std::size_t>(select_workspace(task, multiprocessors)));
  const auto at = [](const void* data, std::int64_t offset) { return static_cast<const std::byte*>(data) + offset; };
  const Values& values = task.values;
  for (std::int64_t row = 0; row < values.rows; ++row) {
    const auto value = [&](std::int64_t col) {
      return at(values.data, row * values.row_stride + col * values.col_stride);
    };
    const auto key = [&](std::int64_t col) {
      std::uint32_t bits;
      std::memcpy(&bits, value(col), sizeof bits);
      return ordered<ValueType::f32>(bits, task.largest);
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(values.cols));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + task.k, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
    for (std::int64_t rank = 0; rank < task.k; ++rank) {
      const std::int64_t col = order[static_cast<std::size_t>(rank)], to = row * task.k + rank;
      const auto size = static_cast<std::size_t>(task.payload.item_size);
      if (task.out.ids != nullptr) task.out.ids[to] = col;
      if (task.out.values != nullptr) std::memcpy(static_cast<std::byte*>(task.out.values) + to * 4, value(col), 4);
      if (task.out.payload != nullptr)
        std::memcpy(static_cast<std::byte*>(task.out.payload) + to * task.payload.item_size,
                    at(task.payload.data, row * task.payload.row_stride + col * task.payload.col_stride), size);
    }
  }
  return {"radix", "it was asked for"};
}

namespace {

enum class Form { dense, padded, columns, one_row, swapped, backwards };

class CudaRun : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake::blocks, 0);
    fake::largest_block = SIZE_MAX;
    fake::free_bytes = std::size_t{1} << 33;
    fake::device_memory.clear();
    fake::capture = cudaStreamCaptureStatusNone;
    fake::log.clear();
  }

  template <class T>
  void on_device(const std::vector<T>& memory) {
    fake::device_memory.emplace_back(reinterpret_cast<const char*>(memory.data()), memory.size() * sizeof(T));
  }

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }

  /// One selection of random small integers, with a payload, compared with what sorting says.
  void check(Form form, std::int64_t rows, std::int64_t cols, std::int64_t k, bool device) {
    std::int64_t row_stride = cols * 4, col_stride = 4, first = 0;
    if (form == Form::padded) row_stride += 8;
    if (form == Form::columns) row_stride = 4, col_stride = rows * 4;
    if (form == Form::one_row) row_stride = 0;
    if (form == Form::backwards) col_stride = -4, first = cols - 1;
    std::vector<float> data(static_cast<std::size_t>(rows * (cols + 2)));
    for (float& value : data) value = static_cast<float>(below(20) - 10);
    std::vector<float> stored = data;
    if (form == Form::swapped)
      for (float& value : stored) std::reverse(reinterpret_cast<char*>(&value), reinterpret_cast<char*>(&value) + 4);
    const std::int64_t size = payload_bytes_ != 0 ? payload_bytes_ : std::int64_t{1} << below(4);
    std::vector<char> payload(static_cast<std::size_t>(rows * cols * size * 2));  // every second element
    for (char& item : payload) item = static_cast<char>(random_());
    std::vector<float> values(static_cast<std::size_t>(rows * k));
    std::vector<std::int64_t> ids(values.size());
    std::vector<char> chosen(values.size() * static_cast<std::size_t>(size));

    SelectProblem problem;
    problem.values = Values(stored.data() + first, ValueType::f32, rows, cols);
    problem.values.row_stride = row_stride;
    problem.values.col_stride = col_stride;
    problem.values.byte_swapped = form == Form::swapped;
    problem.payload = {payload.data(), size, cols * size * 2, size * 2};
    problem.out = {values.data(), ids.data(), chosen.data(), rows, k};
    problem.k = k;
    problem.largest = below(2) == 1;
    if (device) {
      problem.values.cuda_device = 0;
      on_device(stored), on_device(payload), on_device(values), on_device(ids), on_device(chosen);
    }
    const SelectStats stats = run_problem(problem, {.ordinal = 0, .multiprocessors = 132, .pool = pool_});
    fake::device_memory.clear();
    EXPECT_EQ(stats.algorithm + " on " + stats.device, "radix on cuda:0");

    for (std::int64_t row = 0; row < rows; ++row) {
      const auto value = [&](std::int64_t col) {
        return data[static_cast<std::size_t>(first + (row * row_stride + col * col_stride) / 4)];
      };
      std::vector<std::int64_t> order(static_cast<std::size_t>(cols));
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t a, std::int64_t b) {
        const float sign = problem.largest ? -1.0f : 1.0f;
        return std::pair(sign * value(a), a) < std::pair(sign * value(b), b);
      });
      for (std::int64_t rank = 0; rank < k; ++rank) {
        const auto to = static_cast<std::size_t>(row * k + rank);
        const std::int64_t col = order[static_cast<std::size_t>(rank)];
        ASSERT_EQ(ids[to], col) << "row " << row;
        ASSERT_EQ(values[to], value(col));
        ASSERT_EQ(std::memcmp(&chosen[to * static_cast<std::size_t>(size)],
                              &payload[static_cast<std::size_t>((row * cols + col) * size * 2)],
                              static_cast<std::size_t>(size)),
                  0);
      }
    }
  }

  void expect_error(const SelectProblem& problem, ErrorCode code, const char* pattern) {
    try {
      run_problem(problem, {.ordinal = 0, .multiprocessors = 132, .pool = pool_});
      ADD_FAILURE() << "no error; expected " << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
    }
  }

  std::int64_t payload_bytes_ = 0;  // 0: any
  std::mt19937_64 random_{5};
  Pool pool_{0};
};

TEST_F(CudaRun, EveryLayoutFromTheHost) {
  for (const Form form : {Form::dense, Form::padded, Form::columns, Form::one_row, Form::swapped, Form::backwards})
    for (int i = 0; i < 30; ++i) {
      const std::int64_t cols = 1 + below(60);
      check(form, 1 + below(50), cols, 1 + below(cols), false);
    }
}

TEST_F(CudaRun, EveryLayoutOnTheDevice) {
  for (const Form form : {Form::dense, Form::padded, Form::columns, Form::one_row, Form::backwards})
    for (int i = 0; i < 30; ++i) {
      const std::int64_t cols = 1 + below(60);
      check(form, 1 + below(50), cols, 1 + below(cols), true);
    }
}

TEST_F(CudaRun, BatchesWhereMemoryIsShort) {
  payload_bytes_ = 8;
  fake::free_bytes = std::size_t{40} << 20;
  check(Form::dense, 3, 2000000, 3, false);  // by what is free
  fake::free_bytes = std::size_t{1} << 33;
  check(Form::columns, 2, 1500000, 3, false);  // packed in several pieces
  fake::largest_block = 3000;                  // by what is refused
  check(Form::dense, 29, 20, 5, false);
  EXPECT_GT(fake::refused, 0);
  fake::refused = 0;
  check(Form::dense, 40, 20, 5, true);
  EXPECT_GT(fake::refused, 0);
}

TEST_F(CudaRun, NoMemoryAtAll) {
  fake::largest_block = 100;
  std::vector<float> data(400);
  std::vector<std::int64_t> ids(400);
  SelectProblem problem;
  problem.values = Values(data.data(), ValueType::f32, 400, 1);
  problem.k = 1;
  problem.out = {nullptr, ids.data(), nullptr, 400, 1};
  fake::refused = 0;
  expect_error(problem, ErrorCode::out_of_memory, "cuda:0 refused .* from 25 of 400 rows needs; 8.0 GiB are free");
  EXPECT_EQ(fake::refused, 10);  // whole and four times half of it, each also after the pool was emptied
}

TEST_F(CudaRun, WhatIsRefused) {
  std::vector<float> data = {1, 2, 3, 4};
  std::vector<std::int64_t> ids(1);
  SelectProblem host;
  host.values = Values(data.data(), ValueType::f32, 1, 4);
  host.k = 1;
  host.out = {nullptr, ids.data(), nullptr, 1, 1};
  SelectProblem device = host;
  device.values.cuda_device = 0;

  expect_error(device, ErrorCode::device_error, "values: the memory is of the host, and memory of cuda:0 was expected");
  on_device(data);
  expect_error(host, ErrorCode::device_error, "values: the memory is of cuda:0, and memory of the host was expected");
  expect_error(device, ErrorCode::device_error, "ids of the result: the memory is of the host");
  on_device(ids);
  SelectProblem odd = device;
  odd.values.row_stride = 3;
  expect_error(odd, ErrorCode::invalid_argument, "strides \\(3, 4 bytes\\) must be multiples");
  odd = device;
  odd.values.byte_swapped = true;
  expect_error(odd, ErrorCode::invalid_argument, "other byte order");
  odd = device;
  odd.values.cuda_device = 1;
  expect_error(odd, ErrorCode::device_error, "of cuda:0, and memory of cuda:1 was expected");

  // The memory of another device passes for nobody's.
  fake::memory_device = 1;
  expect_error(device, ErrorCode::device_error, "of cuda:1, and memory of cuda:0 was expected");
  odd.values.cuda_device = 1;
  expect_error(odd, ErrorCode::device_error, "memory is of cuda:1, and the selection runs on cuda:0");
  fake::memory_device = 0;

  fake::device_memory.clear();
  host.algorithm = "scan";
  expect_error(host, ErrorCode::invalid_argument, "algorithm scan cannot take this selection on cuda:0: it is Monday");
  host.algorithm = "heap";
  expect_error(host, ErrorCode::invalid_argument, "algorithm heap does not run on CUDA");
  host.algorithm = "auto";
  std::stop_source stop;
  stop.request_stop();
  host.stop = stop.get_token();
  expect_error(host, ErrorCode::cancelled, "cancelled");
  host.stop = {};
  host.progress = [](std::uint64_t done, std::uint64_t total) { return done != 0 || total != 4; };
  expect_error(host, ErrorCode::cancelled, "cancelled");
}

}  // namespace
}  // namespace vicinal::cuda
