// The sequence runs one selection from end to end: it chooses an algorithm, divides the rows into batches that the
// workspace holds, and for each batch runs the algorithm, sorts and emits. It is written once over `Launch`, so that
// tests run the same under the emulator.
#pragma once
#include "core/text.hpp"
#include "cuda/select/choose.hpp"

namespace vicinal::cuda {

template <class Launch>
struct SelectPlan {
  const SelectKernel<Launch>* kernel = nullptr;
  const char* algorithm = "";  // the kernel's name
  const char* why = "";
  FormName form = FormName::packed;
  bool sort = false;  // the algorithm's words need it
  std::int64_t batch = 1, workers = 1;
  std::int64_t list_bytes = 0, bytes = 0;
};

/// `most_bytes` is what batches and workers aim at; a single row may need more.
template <class Launch>
SelectPlan<Launch> plan_select(const SelectArgs& task, int multiprocessors, std::int64_t most_bytes) {
  SelectPlan<Launch> plan;
  Choice choice = {task.algorithm, "it was asked for"};
  if (std::string_view(task.algorithm) == "auto") choice = choose_select<Launch>(task, multiprocessors);
  plan.kernel = find_select_kernel<Launch>(choice.algorithm);
  if (plan.kernel == nullptr) fail(ErrorCode::internal, cat("no kernels for ", choice.algorithm));
  plan.algorithm = plan.kernel->name;
  plan.why = choice.why;
  const std::int64_t rows = task.values.rows, cols = task.values.cols;
  const Rows facts = device_rows(task.values, task.largest);
  const bool alone = plan.kernel->values_alone && task.out.ids == nullptr && task.out.payload == nullptr;
  plan.form = !alone ? entries_form(task) : facts.size == 8 ? FormName::alone64 : FormName::alone32;
  const bool emits = plan.kernel->select_and_emit != nullptr;
  plan.sort = !emits && !plan.kernel->sorted && (task.sorted || (alone && facts.is_float));

  const SelectShape shape = {plan.form, cols, task.k, facts.size, multiprocessors};
  const Workspace workspace = plan.kernel->workspace != nullptr ? plan.kernel->workspace(shape) : Workspace{};
  const Workspace sort = plan.sort ? sort_workspace(plan.form, task.k) : Workspace{};

  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  if (workspace.worker > 0)
    plan.workers =
        std::max<std::int64_t>(1, std::min({rows, workspace.most_workers, most_bytes / 2 / workspace.worker}));
  const std::int64_t word = word_size(plan.form);
  const std::int64_t list_words = plan.kernel->list_words != nullptr ? plan.kernel->list_words(shape)
                                  : emits                            ? 0
                                                                     : task.k;
  const std::int64_t row = std::max<std::int64_t>(1, list_words * word + std::max(workspace.row, sort.row));
  const std::int64_t left = most_bytes - plan.workers * workspace.worker;
  plan.batch = std::max<std::int64_t>(1, std::min(rows, left / row));
  plan.workers = std::min(plan.workers, plan.batch);
  plan.list_bytes = aligned(plan.batch * list_words * word);
  plan.bytes = plan.list_bytes +
               aligned(std::max(plan.batch * workspace.row + plan.workers * workspace.worker, plan.batch * sort.row));
  return plan;
}

template <class Launch>
void run_sequence(Launch& launch, const SelectArgs& task, const SelectPlan<Launch>& plan, void* workspace,
                  int multiprocessors) {
  const auto offset = [](auto* data, std::int64_t bytes) {
    return data == nullptr ? nullptr
                           : reinterpret_cast<decltype(data)>(reinterpret_cast<std::uintptr_t>(data) +
                                                              static_cast<std::uintptr_t>(bytes));
  };
  SelectBatch batch;
  batch.form = plan.form;
  batch.k = task.k;
  batch.list = workspace;
  batch.workspace = static_cast<unsigned char*>(workspace) + plan.list_bytes;
  batch.multiprocessors = multiprocessors;
  for (std::int64_t first = 0; first < task.values.rows; first += plan.batch) {
    batch.rows = device_rows(task.values, task.largest);
    batch.rows.data += first * batch.rows.row_stride;
    batch.rows.rows = std::min(plan.batch, task.values.rows - first);
    batch.workers = std::min(plan.workers, batch.rows.rows);
    Emission emission;
    emission.values = offset(task.out.values, first * task.k * batch.rows.size);
    emission.ids = offset(task.out.ids, first * task.k * 8);
    emission.payload = task.payload;
    emission.payload.data = offset(task.payload.data, first * task.payload.row_stride);
    emission.payload_out = offset(task.out.payload, first * task.k * task.payload.item_size);
    if (plan.kernel->select_and_emit != nullptr) {
      plan.kernel->select_and_emit(launch, batch, emission);
      continue;
    }
    plan.kernel->select(launch, batch);
    if (plan.sort) run_sort(launch, batch);
    run_emit(launch, batch, emission);
  }
}

}  // namespace vicinal::cuda
