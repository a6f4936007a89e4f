// Internal face of the planner: the same plan, when the prepared corpus may already exist.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// Device, instruction set, threads and budget: what every plan begins with. Throws DeviceError, Unsupported (the caller's stream, too), InvalidArgument (names).
Plan open_plan(const Backend& backend, const KnnOptions& options);

/// Throws MemoryBudget for a plan of which minimum_bytes are beyond budget_bytes. or_else: what helps besides more memory.
[[noreturn]] void fail_budget(const Plan& plan, const char* or_else);

/// Arguments were checked. Throws MemoryBudget, DeviceError, Unsupported, InvalidArgument (names).
Plan make_plan(const Backend& backend, const Problem& problem, const KnnOptions& options);

/// A k-NN search of these shapes. `kept`: the prepared corpus is there already (Corpus) and is not part of the budget.
Problem knn_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options, bool kept = false);
Problem graph_problem(const Shape& rows, const GraphOptions& options);
Problem range_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options);

/// The plan of preparing a corpus once: threads, rungs, instruction set, bytes. resident says whether it may be kept.
Plan make_corpus_plan(const Backend& backend, const Shape& corpus, const KnnOptions& options);

}  // namespace vicinal
