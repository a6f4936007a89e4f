// PLAN, for the rest of the library: what a device proposes, fitted into the budget.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

/// It decides device, instruction set, threads and budget, which every plan begins with. Throws DeviceError,
/// Unsupported (the caller's stream, too), InvalidArgument (names).
SearchPlan open_plan(const Backend& backend, const KnnOptions& options);

/// It returns the bytes of memory that a search may take: the caller's, or nine tenths of what is free.
std::int64_t budget_of(const Backend& backend, const KnnOptions& options);

/// It throws MemoryBudget for a plan of which minimum_bytes are beyond budget_bytes. or_else: what helps besides more
/// memory.
[[noreturn]] void fail_budget(const Plan& plan, const char* or_else);

/// It plans a search, of which the arguments were checked. Throws MemoryBudget, DeviceError, Unsupported,
/// InvalidArgument (names).
SearchPlan make_plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options);

/// They describe the searches of these shapes. `made`: the plan by which a corpus was prepared (Corpus), which is not
/// part of the budget and can be searched in the precisions alone that it was prepared in; null: nothing is prepared.
ProblemShape knn_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options,
                         const SearchPlan* made = nullptr);
ProblemShape graph_problem(const Shape& rows, const GraphOptions& options, const SearchPlan* made = nullptr);
ProblemShape range_problem(const Shape& corpus, const Shape& queries, const KnnOptions& options,
                           const SearchPlan* made = nullptr);

/// It plans to prepare a corpus once: threads, precisions, instruction set, bytes. Plan::resident says whether the
/// budget allows it.
SearchPlan make_corpus_plan(const Backend& backend, const Shape& corpus, const KnnOptions& options);

/// It returns what users are told of a plan.
Plan public_plan(const SearchPlan& plan);

}  // namespace vicinal
