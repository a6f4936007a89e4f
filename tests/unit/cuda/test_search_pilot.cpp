// What a sample of the rows says of a search on a device, for its plan (src/cuda/search/pilot.hpp).
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cuda/search/pilot.hpp"
#include "unit/cuda/emulated_search.hpp"

namespace pilot {
namespace {

using namespace vicinal;
using emulated_search::Device;

constexpr std::int64_t rows = 1 << 16, dims = 24;

/// element(row, column, Gaussian).
template <class Element>
std::vector<float> rows_of(const Element& element) {
  std::mt19937 random(7);
  std::normal_distribution<float> gauss;
  std::vector<float> values(static_cast<std::size_t>(rows * dims));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < dims; ++j)
      values[static_cast<std::size_t>(i * dims + j)] = element(i, j, gauss(random));
  return values;
}
std::vector<float> even() {
  return rows_of([](std::int64_t, std::int64_t, float x) { return x; });
}
/// 64 clusters of 1,024 rows, which bytes cannot tell apart.
std::vector<float> clusters() {
  std::mt19937 random(8);
  std::normal_distribution<float> gauss;
  std::vector<float> centres(64 * dims);
  for (float& x : centres) x = gauss(random);
  return rows_of([&](std::int64_t i, std::int64_t j, float x) {
    return centres[static_cast<std::size_t>(i % 64 * dims + j)] + 1e-4F * x;
  });
}

SearchPlan plan_of(const std::vector<float>& values, Metric metric, std::int64_t k, bool on_device = false,
                   const char* first = "int8") {
  Device device;
  Points corpus(values.data(), DType::f32, rows, dims);
  cuda::DeviceBuffer<float, Device> there(device);
  if (on_device) {
    there.reserve(rows * dims);
    there.in(values.data(), rows * dims);
    corpus.data = there.data();
  }
  SearchPlan plan;
  plan.cascade = {first, "canonical"};
  plan.seconds = 1e-3;
  const ProblemShape problem{
      .corpus = {rows, dims, DType::f32}, .queries = {1000, dims, DType::f32}, .metric = metric, .k = k};
  cuda::look_before(device, plan, problem, {.corpus = corpus, .metric = metric, .k = k});
  return plan;
}

TEST(CudaPilot, EvenRowsTakeWhatTheirShapesSay) {
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product})
    for (const std::int64_t k : {10, 100}) {
      const SearchPlan plan = plan_of(even(), metric, k);
      EXPECT_EQ(plan.sampled_rows, 8192);
      EXPECT_GE(plan.left_rows, k);
      EXPECT_LE(plan.left_rows, 5 * k) << static_cast<int>(metric) << " " << k;
      EXPECT_EQ(plan.seconds, 1e-3);
    }
}

TEST(CudaPilot, ClustersAreRankedWhole) {
  for (const bool on_device : {false, true}) {
    const SearchPlan plan = plan_of(clusters(), Metric::euclidean, 10, on_device);
    EXPECT_NEAR(static_cast<double>(plan.left_rows), 1024, 200);
    // 1,000 queries of 974 rows of 96 bytes more.
    EXPECT_NEAR(plan.seconds, 1e-3 + 1000 * 974 * 96 * 1.5e-12, 3e-5);
  }
}

TEST(CudaPilot, EqualRowsAreMarkedAndFewAreLeft) {
  const SearchPlan plan =
      plan_of(rows_of([](std::int64_t, std::int64_t, float) { return 1.0F; }), Metric::euclidean, 10);
  EXPECT_LE(plan.left_rows, 20);
  EXPECT_NEAR(plan.seconds, 1e-3 + 1.2e-9 * rows, 1e-6);
}

TEST(CudaPilot, OfFewerRowsThanASampleItSaysNothing) {
  const std::vector<float> values = even();
  for (const std::int64_t count : {std::int64_t{63}, std::int64_t{64}, std::int64_t{65}}) {
    Device device;
    SearchPlan plan;
    plan.cascade = {"int8", "canonical"};
    cuda::look_before(device, plan,
                      {.corpus = {count, dims, DType::f32}, .queries = {1000, dims, DType::f32}, .k = count},
                      {.corpus = Points(values.data(), DType::f32, count, dims), .k = count});
    EXPECT_EQ(plan.sampled_rows, count < cuda::least_pilot_rows ? 0 : count);
    EXPECT_EQ(plan.left_rows, plan.sampled_rows);  // k = n: all of them
  }
}

TEST(CudaPilot, WhatItCannotTellIsLeftAsItWas) {
  const std::vector<float> values = even();
  for (const auto& [metric, k, first] : {std::tuple{Metric::l1, 10, "int8"}, std::tuple{Metric::euclidean, 0, "int8"},
                                         std::tuple{Metric::euclidean, 10, "fp16"}}) {
    const SearchPlan plan = plan_of(values, metric, k, false, first);
    EXPECT_EQ(plan.sampled_rows, 0);
    EXPECT_EQ(plan.seconds, 1e-3);
  }
  Device device;  // rows that are not dense there are refused by the search
  cuda::DeviceBuffer<float, Device> there(device, rows * dims);
  there.in(values.data(), rows * dims);
  Points turned(there.data() + dims - 1, DType::f32, rows - 1, dims);
  turned.col_stride = -4;
  SearchPlan plan;
  plan.cascade = {"int8", "canonical"};
  cuda::look_before(device, plan,
                    {.corpus = {rows - 1, dims, DType::f32, true}, .queries = {1000, dims, DType::f32}, .k = 10},
                    {.corpus = turned, .k = 10});
  EXPECT_EQ(plan.sampled_rows, 0);
  std::vector<float> wild = values;  // rows that no filter takes are no part of a sample
  for (std::int64_t i = 0; i < rows; ++i) wild[static_cast<std::size_t>(i * dims)] = std::nanf("");
  EXPECT_EQ(plan_of(wild, Metric::euclidean, 10).sampled_rows, 0);
}

}  // namespace
}  // namespace pilot
