// Internal face of the planner: the same plan, when the prepared corpus may already exist.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// Device, instruction set, threads and budget: what every plan begins with. Throws DeviceError, Unsupported (the caller's stream, too), InvalidArgument (names).
SearchPlan open_plan(const Backend& backend, const KnnOptions& options);

/// Throws MemoryBudget for a plan of which minimum_bytes are beyond budget_bytes. or_else: what helps besides more memory.
[[noreturn]] void fail_budget(const Plan& plan, const char* or_else);

/// Arguments were checked. Throws MemoryBudget, DeviceError, Unsupported, InvalidArgument (names).
SearchPlan make_plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options);

/// The searches of these shapes. `made`: the plan by which a kept corpus (Corpus) was prepared, which is not part of the budget and can be
/// searched in the forms alone that it was prepared in; null: nothing is kept.
ProblemShape knn_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options,
                         const Plan* made = nullptr);
ProblemShape graph_problem(const Shape& rows, const GraphOptions& options, const Plan* made = nullptr);
ProblemShape range_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options,
                           const Plan* made = nullptr);

/// The plan of preparing a corpus once: threads, precisions, instruction set, bytes. resident says whether it may be kept.
SearchPlan make_corpus_plan(const Backend& backend, const Shape& corpus, const KnnOptions& options);

}  // namespace vicinal
