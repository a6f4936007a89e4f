// What the host prefers for a search, and how long it takes.
#pragma once
#include "backend/search.hpp"

namespace vicinal::cpu {

/// SearchBackend::propose.
Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof);

/// The rows of the corpus, a query, that a filter in bytes or in floats leaves to be ranked.
struct Left {
  double bytes, floats;
};
/// It predicts the seconds of a plan. sampled: null, where the shapes alone are known.
double predicted_seconds(const SearchPlan& plan, const ProblemShape& problem, const Left* sampled = nullptr);

/// SearchBackend::sample.
void sample_rows(SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec);

}  // namespace vicinal::cpu
