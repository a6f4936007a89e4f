// The plan of the last search of a corpus. Queries that come one at a time ask for the same plan each time, and to make
// it takes a tenth of the time of such a search.
#pragma once
#include <memory>
#include <mutex>

#include "backend/backend.hpp"

namespace vicinal {

/// A KeptPlan serves one prepared corpus on the host. Calls may come from any thread.
class KeptPlan {
 public:
  /// It returns what make_plan makes of this search for the k nearest: the plan of the last one, where that was asked
  /// for the same and memory is no reason for another. Throws what make_plan throws.
  std::shared_ptr<const SearchPlan> plan(const Backend& backend, const ProblemShape& problem,
                                         const KnnOptions& options);

 private:
  /// What a plan depends on, of one corpus on one device.
  struct Asked {
    Shape queries;
    std::int64_t k = 0, filter_bytes = 0;
    DistanceType distance_type = DistanceType::automatic;
    Proof proof = Proof::certified;
    Budget memory = {};
    Execution run = {};  // with what the environment says
    int threads = 0;     // that it means
    bool operator==(const Asked&) const = default;
  };

  std::mutex mutex_;
  Asked asked_;
  std::shared_ptr<const SearchPlan> made_;
};

}  // namespace vicinal
