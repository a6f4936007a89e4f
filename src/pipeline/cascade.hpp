// The precisions that a search filters with, cheapest first, by what each is predicted to cost; the last one ranks every pair and
// proves itself. And whether rows get second codes, or a k-d tree.
#pragma once
#include <string>
#include <vector>

#include "pipeline/plan.hpp"

namespace vicinal {

/// The filters by name for Plan::precisions. filter: the name that is forced, or "auto". Throws InvalidArgument, Unsupported; notes of the plan say
/// what a device has no filter for.
std::vector<std::string> choose_cascade(const ProblemShape& problem, const KnnOptions& options,
                                        const std::string& filter, const Backend& backend, Plan& plan);
bool takes_second(const ProblemShape& problem, const KnnOptions& options, const Backend& backend, const Plan& plan);
bool takes_groups(const ProblemShape& problem, const KnnOptions& options, const std::string& filter,
                  const Facts& facts);
void keep_prepared_precisions(std::vector<std::string>& precisions, const Plan& made);

}  // namespace vicinal
