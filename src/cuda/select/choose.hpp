// Rules say which algorithm suits a shape, with the times that they rest on.
#pragma once
#include "cuda/select/table.hpp"

namespace vicinal::cuda {

/// How words are kept: keys of 64 bits and rows of more than 32 bits' columns need wide ones.
inline FormName entries_form(const SelectArgs& task) {
  return value_size(task.values.type) == 8 || task.values.cols > 0xffffffffll ? FormName::wide : FormName::packed;
}

/// Why the algorithm that the task names cannot take it; null where it can.
template <class Launch>
const char* refusal(const SelectArgs& task) {
  if (std::string_view(task.algorithm) == "auto") return nullptr;
  const SelectKernel<Launch>* kernel = find_select_kernel<Launch>(task.algorithm);
  if (kernel == nullptr) return "it does not run on cuda";
  return kernel->refusal != nullptr ? kernel->refusal(task, entries_form(task)) : nullptr;
}

struct Choice {
  const char* algorithm;
  const char* why;
};

/// The one that suits the shape: the first of these that takes it. The times are medians on one H200, 2026-11-22,
/// 32-bit floats with ids, in milliseconds (bench/results/select_cuda.csv): of the choice, and of the next best.
template <class Launch>
Choice choose_select(const SelectArgs& task, int multiprocessors) {
  const std::int64_t rows = task.values.rows, cols = task.values.cols, k = task.k;
  const bool many = rows >= 2 * std::int64_t{multiprocessors}, small_part = cols >= 4096 && k <= cols / 8;
  const struct {
    Choice choice;
    bool fits;
  } rules[] = {
      {{"sieve_rows",
        "registers hold a row: 65536 x 8192, k=100 0.97, sieve_grid 3.09; 524288 x 1024, k=100 1.28, quick_warp 12.9"},
       k <= 512},
      {{"sieve_parts",
        "a few rows of medium length: 1 x 2^20, k=100 0.021, sieve_grid 0.040; 8 x 2^20 0.036, sieve_grid 0.051"},
       rows <= 16 && rows * cols <= 1 << 23},
      {{"sieve_block",
        "a small part of rows that fill the device: 1000 x 2^20, k=100 1.16, sieve_grid 1.44, radix 9.68"},
       many && small_part},
      {{"sieve_grid",
        "a small part of few long rows: 1 x 2^28, k=16384 0.42, scan 3.74; 64 x 2^20, k=100 0.13, sieve_parts 0.15"},
       small_part},
      {{"scan", "a large part of few long rows, which share the device"}, cols >= 1 << 17 && !many},
      {{"quick_warp", "a large part of many short rows"}, cols <= 2048 && rows >= 32 * std::int64_t{multiprocessors}},
      {{"radix", "a large part of rows that fill the device: 65536 x 8192, k=1000 8.67, quick_warp 11.0"}, many},
  };
  SelectArgs asked = task;
  for (const auto& rule : rules) {
    asked.algorithm = rule.choice.algorithm;
    if (rule.fits && refusal<Launch>(asked) == nullptr) return rule.choice;
  }
  return {"quick_block", "a large part of few short rows"};
}

}  // namespace vicinal::cuda
