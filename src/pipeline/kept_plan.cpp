// See kept_plan.hpp.
#include "pipeline/kept_plan.hpp"

#include "core/parallel.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {

KeptPlan::Loan KeptPlan::plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options) {
  Asked asked{.queries = problem.queries,
              .k = options.k,
              .filter_bytes = problem.filter_bytes,
              .symmetric = problem.symmetric,
              .filtered = problem.filtered,
              .distance_type = options.distance_type,
              .proof = options.proof,
              .memory = options.memory,
              .run = with_environment(options.run),
              .threads = threads_for(options.run.threads)};
  const std::int64_t budget = budget_of(backend, options);
  // A plan for all queries at a time, in half of the memory, is the one that would be made now.
  const auto holds = [&](const SearchPlan& plan) {
    return plan.query_batch >= problem.queries.rows && plan.peak_bytes <= budget / 2;
  };
  std::unique_ptr<Kept> kept = lend();
  if (!kept || kept->asked != asked || !holds(kept->plan))
    kept = std::make_unique<Kept>(Kept{make_plan(backend, problem, options), std::move(asked)});
  return {this, std::move(kept)};
}

// No search waits for the lock: a plan is made sooner, and in a child of fork() its holder may be no more.
std::unique_ptr<KeptPlan::Kept> KeptPlan::lend() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock ? std::move(kept_) : nullptr;
}

void KeptPlan::take_back(std::unique_ptr<Kept> kept) noexcept {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) kept_.swap(kept);
}

}  // namespace vicinal
