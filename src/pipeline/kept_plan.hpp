// A corpus on the host keeps the plan of its last search: queries that come one at a time ask for the same plan each
// time, and to make it takes a tenth of the time of such a search.
#pragma once
#include <memory>
#include <mutex>
#include <utility>

#include "backend/backend.hpp"

namespace vicinal {

/// A KeptPlan serves one prepared corpus on the host. Calls may come from any thread.
class KeptPlan {
  /// Asked has what a plan depends on, of one corpus on one device.
  struct Asked {
    Shape queries;
    std::int64_t k = 0, filter_bytes = 0;
    bool symmetric = false, filtered = false;
    DistanceType distance_type = DistanceType::automatic;
    Proof proof = Proof::certified;
    Budget memory = {};
    Execution run = {};  // with what the environment says
    int threads = 0;     // that it means
    bool operator==(const Asked&) const = default;
  };
  struct Kept {
    SearchPlan plan;
    Asked asked = {};
  };

 public:
  /// A search has its plan on loan: what one search uses no other sees, and the last that ends gives the next its plan.
  class Loan {
   public:
    explicit Loan(SearchPlan plan) : Loan(nullptr, std::make_unique<Kept>(Kept{std::move(plan)})) {}  // kept nowhere
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() {
      if (to_ != nullptr) to_->take_back(std::move(kept_));
    }
    const SearchPlan& operator*() const noexcept { return kept_->plan; }

   private:
    friend class KeptPlan;
    Loan(KeptPlan* to, std::unique_ptr<Kept> kept) : to_(to), kept_(std::move(kept)) {}
    KeptPlan* to_;
    std::unique_ptr<Kept> kept_;
  };

  /// It returns what make_plan makes of this search for the k nearest: the plan of the last one, where that was asked
  /// for the same and memory is no reason for another. Throws what make_plan throws.
  Loan plan(const Backend& backend, const ProblemShape& problem, const KnnOptions& options);

 private:
  std::unique_ptr<Kept> lend() noexcept;
  void take_back(std::unique_ptr<Kept> kept) noexcept;

  std::mutex mutex_;
  std::unique_ptr<Kept> kept_;  // null while a search has it
};

}  // namespace vicinal
