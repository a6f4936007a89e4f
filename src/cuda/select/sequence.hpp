// One selection from end to end: choose, divide the rows into batches that the workspace holds, and for each batch run the
// algorithm, sort, emit. Written once over `Launch`, so that tests run the same sequence under the emulator.
#pragma once
#include <cstring>

#include "cuda/select/job.hpp"
#include "cuda/select/select.hpp"

namespace vicinal::cuda {

struct SelectPlan {
  const char* algorithm = "";
  const char* why = "it was asked for";
  FormName form = FormName::packed;
  bool sort = false;  // the algorithm's words need it
  std::int64_t batch = 1, workers = 1;
  std::int64_t list_bytes = 0, bytes = 0;
  bool emits = false;  // the algorithm writes the results itself
};

/// Why the named algorithm cannot take the task; null where it can.
inline const char* refusal(const SelectTask& task) {
  const auto is = [&](const char* name) { return std::strcmp(task.algorithm, name) == 0; };
  const std::int64_t size = static_cast<std::int64_t>(value_size(task.values.type));
  const FormName form = size == 8 || task.values.cols > 0xffffffffll ? FormName::wide : FormName::packed;
  if (is("sieve_rows")) {
    if (size == 8) return "it is for values of 1, 2 and 4 bytes";
    if (task.values.cols > sieve_rows_cols) return "its rows have at most 8,192 columns";
    if (task.k > sieve_rows_most_k(task.values.cols)) return task.values.cols <= 1024 ? "its k is at most 228 for rows of up to 1,024 columns" : "its k is at most 1,821";
    return nullptr;
  }
  if (is("sieve_block"))
    return task.k <= sieve_most_k(form) ? nullptr : form == FormName::wide ? "its k is at most 2,048 for values of 8 bytes" : "its k is at most 4,096";
  if (is("sieve_parts")) {
    const auto multiple = [](std::int64_t bytes) { return bytes % 16 == 0; };
    if (size != 4) return "it is for values of 4 bytes";
    if (task.values.col_stride != 4 || (task.values.rows > 1 && !multiple(task.values.row_stride)) || !multiple(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(task.values.data))))
      return "its rows are values side by side that start at multiples of 16 bytes";
    if (task.values.cols < sieve_parts_least_cols || task.values.cols > sieve_parts_most_cols) return "its rows have 65,536 to 4,194,304 columns";
    return task.k <= sieve_parts_most_k ? nullptr : "its k is at most 128";
  }
  for (const char* name : {"auto", "sieve_grid", "quick_warp", "quick_block", "merge", "bitonic", "radix", "scan"})
    if (is(name)) return nullptr;
  return "it does not run on cuda";
}

struct Choice {
  const char* algorithm;
  const char* why;
};

/// The one that suits the shape: the first of these that takes it. The times are medians on one H200, 2026-11-22, 32-bit floats with ids, in
/// milliseconds (bench/results/select_cuda.csv): of the choice, and of the next best.
inline Choice choose_select(const SelectTask& task, int multiprocessors) {
  const std::int64_t rows = task.values.rows, cols = task.values.cols, k = task.k;
  const bool many = rows >= 2 * std::int64_t{multiprocessors}, small_part = cols >= 4096 && k <= cols / 8;
  const struct {
    Choice choice;
    bool fits;
  } rules[] = {
      {{"sieve_rows", "registers hold a row: 65536 x 8192, k=100 0.97, sieve_grid 3.09; 524288 x 1024, k=100 1.28, quick_warp 12.9"}, k <= 512},
      {{"sieve_parts", "a few rows of medium length: 1 x 2^20, k=100 0.021, sieve_grid 0.040; 8 x 2^20 0.036, sieve_grid 0.051"}, rows <= 16 && rows * cols <= 1 << 23},
      {{"sieve_block", "a small part of rows that fill the device: 1000 x 2^20, k=100 1.16, sieve_grid 1.44, radix 9.68"}, many && small_part},
      {{"sieve_grid", "a small part of few long rows: 1 x 2^28, k=16384 0.42, scan 3.74; 64 x 2^20, k=100 0.13, sieve_parts 0.15"}, small_part},
      {{"scan", "a large part of few long rows, which share the device"}, cols >= 1 << 17 && !many},
      {{"quick_warp", "a large part of many short rows"}, cols <= 2048 && rows >= 32 * std::int64_t{multiprocessors}},
      {{"radix", "a large part of rows that fill the device: 65536 x 8192, k=1000 8.67, quick_warp 11.0"}, many},
  };
  SelectTask asked = task;
  for (const auto& rule : rules) {
    asked.algorithm = rule.choice.algorithm;
    if (rule.fits && refusal(asked) == nullptr) return rule.choice;
  }
  return {"quick_block", "a large part of few short rows"};
}

/// `most_bytes` is what batches and workers aim at; a single row may need more.
inline SelectPlan plan_select(const SelectTask& task, int multiprocessors, std::int64_t most_bytes) {
  SelectPlan plan;
  plan.algorithm = task.algorithm;
  if (std::strcmp(task.algorithm, "auto") == 0) {
    const Choice choice = choose_select(task, multiprocessors);
    plan.algorithm = choice.algorithm;
    plan.why = choice.why;
  }
  const auto is = [&](const char* name) { return std::strcmp(plan.algorithm, name) == 0; };
  const std::int64_t rows = task.values.rows, cols = task.values.cols;
  const Rows facts = device_rows(task.values, task.largest);
  const bool alone = (is("quick_warp") || is("quick_block")) && task.out.ids == nullptr && task.out.payload == nullptr;
  if (alone) plan.form = facts.size == 8 ? FormName::alone64 : FormName::alone32;
  else plan.form = facts.size == 8 || cols > 0xffffffffll ? FormName::wide : FormName::packed;
  plan.emits = std::strncmp(plan.algorithm, "sieve", 5) == 0;
  plan.sort = !plan.emits && !is("merge") && !is("bitonic") && (task.sorted || (alone && facts.is_float));

  Needs needs;
  if (is("merge")) needs = merge_needs(plan.form, cols, task.k);
  else if (is("bitonic")) needs = bitonic_needs(plan.form, cols, task.k);
  else if (is("radix")) needs = radix_needs(plan.form, cols, multiprocessors);
  else if (is("scan")) needs = scan_needs(cols);
  else if (is("sieve_grid")) needs = sieve_grid_needs(cols, task.k, facts.size, plan.form);
  else if (is("sieve_parts")) needs = sieve_parts_needs(cols);
  else if (plan.emits) needs = {};
  else needs = quick_needs(plan.form, cols, is("quick_warp"), multiprocessors);
  const Needs sort = plan.sort ? merge_needs(plan.form, task.k, task.k) : Needs{};

  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  if (needs.worker > 0)
    plan.workers = std::max<std::int64_t>(1, std::min({rows, needs.most_workers, most_bytes / 2 / needs.worker}));
  const std::int64_t word = word_size(plan.form);
  const std::int64_t list_words = is("sieve_grid") ? sieve_grid_plan(cols, task.k, facts.size, plan.form).most_found : plan.emits ? 0 : task.k;
  const std::int64_t row = std::max<std::int64_t>(1, list_words * word + std::max(needs.row, sort.row));
  const std::int64_t left = most_bytes - plan.workers * needs.worker;
  plan.batch = std::max<std::int64_t>(1, std::min(rows, left / row));
  plan.workers = std::min(plan.workers, plan.batch);
  plan.list_bytes = aligned(plan.batch * list_words * word);
  plan.bytes =
      plan.list_bytes + aligned(std::max(plan.batch * needs.row + plan.workers * needs.worker, plan.batch * sort.row));
  return plan;
}

template <class Launch>
void run_sequence(Launch& launch, const SelectTask& task, const SelectPlan& plan, void* workspace,
                  int multiprocessors) {
  const auto is = [&](const char* name) { return std::strcmp(plan.algorithm, name) == 0; };
  const auto offset = [](auto* data, std::int64_t bytes) {
    return data == nullptr ? nullptr
                           : reinterpret_cast<decltype(data)>(reinterpret_cast<std::uintptr_t>(data) +
                                                              static_cast<std::uintptr_t>(bytes));
  };
  Job job;
  job.form = plan.form;
  job.k = task.k;
  job.list = workspace;
  job.spare = static_cast<unsigned char*>(workspace) + plan.list_bytes;
  job.multiprocessors = multiprocessors;
  for (std::int64_t first = 0; first < task.values.rows; first += plan.batch) {
    job.rows = device_rows(task.values, task.largest);
    job.rows.data += first * job.rows.row_stride;
    job.rows.rows = std::min(plan.batch, task.values.rows - first);
    job.workers = std::min(plan.workers, job.rows.rows);
    Emission emission;
    emission.values = offset(task.out.values, first * task.k * job.rows.size);
    emission.ids = offset(task.out.ids, first * task.k * 8);
    emission.payload = task.payload;
    emission.payload.data = offset(task.payload.data, first * task.payload.row_stride);
    emission.payload_out = offset(task.out.payload, first * task.k * task.payload.item_size);
    if (is("sieve_rows")) run_sieve_rows(launch, job, emission);
    else if (is("sieve_block")) run_sieve_block(launch, job, emission);
    else if (is("sieve_grid")) run_sieve_grid(launch, job, emission);
    else if (is("sieve_parts")) run_sieve_parts(launch, job, emission);
    if (plan.emits) continue;

    if (is("quick_warp")) run_quick_warp(launch, job);
    else if (is("merge")) run_merge(launch, job);
    else if (is("bitonic")) run_bitonic(launch, job);
    else if (is("radix")) run_radix(launch, job);
    else if (is("scan")) run_scan(launch, job);
    else run_quick_block(launch, job);
    if (plan.sort) run_sort(launch, job);

    run_emit(launch, job, emission);
  }
}

}  // namespace vicinal::cuda
