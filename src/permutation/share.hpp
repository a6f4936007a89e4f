// How many candidates a search takes, what recall that is expected to give, and what users are to know of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "permutation/search.hpp"

namespace vicinal {

struct Share {
  std::int64_t candidates = 0;
  double fraction = 0;
  RecallEstimate recall;
  std::shared_ptr<const RecallCurve> by_objects;  // that told it
  std::string note;                               // of queries that were too few to tell it
};

inline constexpr double default_recall = 0.95;

/// queries: null where there are none, as of a tuning.
Share share_of(const PermutationIndex::State& state, const PermutationSearch& search, const Queries* queries,
               std::int64_t k, const double* radius, ThreadPool& thread_pool, const std::string& instruction_set);

/// Whether this search measures a recall on so many queries of its own.
bool tunes_on_queries(const PermutationSearch& search, std::int64_t queries) noexcept;

/// What users are told where queries are plainly farther from the objects than these from each other; else empty. keys: of each query's k-th.
std::string unlike_objects(const RecallCurve& curve, std::vector<double> keys, DistanceType type, bool descends);

}  // namespace vicinal
