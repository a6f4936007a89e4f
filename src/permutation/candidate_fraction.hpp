// How many candidates a search takes, what recall that is expected to give, and what users are to know of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "permutation/search.hpp"

namespace vicinal {

/// How much of the objects a search evaluates for each query.
struct CandidateFraction {
  std::int64_t candidates = 0;  // objects, of all; `fraction` is the same as a share
  double fraction = 0;
  RecallEstimate recall;
  std::shared_ptr<const RecallCurve>
      by_objects;    // the curve that `recall` was read from, where it was measured on objects
  std::string note;  // what users should know, where the queries were too few to measure on
};

inline constexpr double default_recall = 0.95;

/// Chooses the fraction that `search` asks for or that its recall needs. queries: null where there are none, as in a
/// tuning.
CandidateFraction candidate_fraction_of(const PermutationIndex::State& state, const PermutationSearch& search,
                                        const Queries* queries, std::int64_t k, const double* radius,
                                        ThreadPool& thread_pool, const std::string& instruction_set);

/// Whether this search measures a recall on so many queries of its own.
bool tunes_on_queries(const PermutationSearch& search, std::int64_t queries) noexcept;

/// The note for users where queries are plainly farther from the objects than these from each other; else empty. keys:
/// of each query's k-th.
std::string unlike_objects(const RecallCurve& curve, std::vector<double> keys, DistanceType type, bool descends);

}  // namespace vicinal
