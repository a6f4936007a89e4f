// See kept_plan.hpp.
#include "pipeline/kept_plan.hpp"

#include "core/parallel.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {

std::shared_ptr<const SearchPlan> KeptPlan::plan(const Backend& backend, const ProblemShape& problem,
                                                 const KnnOptions& options) {
  Asked asked{.queries = problem.queries,
              .k = options.k,
              .filter_bytes = problem.filter_bytes,
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
  {
    const std::lock_guard lock(mutex_);
    if (made_ && asked == asked_ && holds(*made_)) return made_;
  }
  auto made = std::make_shared<const SearchPlan>(make_plan(backend, problem, options));
  const std::lock_guard lock(mutex_);
  asked_ = std::move(asked);
  made_ = made;
  return made;
}

}  // namespace vicinal
