// The host proposes how it would search and predicts how long that takes, by the cost model of costs.hpp.
#pragma once
#include "backend/search.hpp"

namespace vicinal::cpu {

/// SearchBackend::propose.
Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof);

/// Left tells how many rows of the corpus a filter in int8, or in floats, leaves to be ranked for a query.
struct Left {
  double bytes, floats;
};
/// It predicts the seconds of a plan. sampled: null, where the shapes alone are known.
double predicted_seconds(const SearchPlan& plan, const ProblemShape& problem, const Left* sampled = nullptr);

/// SearchBackend::sample.
void sample_rows(SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec);

}  // namespace vicinal::cpu
