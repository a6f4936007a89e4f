// The search loop, for knn, Corpus and everything built on them.
#pragma once
#include "backend/backend.hpp"
#include "vicinal/search.hpp"

namespace vicinal {

struct Prepared;  // pipeline/searches.hpp

/// A Sweep takes one batch of queries past all of the corpus, chunk by chunk; chunks that stay in memory are prepared
/// once.
class Sweep {
 public:
  Sweep(Session& session, const SearchSpec& spec, const SearchPlan& plan, bool kept, Stats& stats)
      : session_(session), spec_(spec), plan_(plan), kept_(kept), stats_(stats) {}
  /// After Session::prepare_queries. again: another batch follows.
  void run(bool again);

 private:
  Session& session_;
  const SearchSpec& spec_;
  const SearchPlan& plan_;
  bool kept_, prepared_ = false;
  Stats& stats_;
};

/// It copies the facts of the plan that stats repeat.
void note_plan(Stats& stats, const Plan& plan, std::int64_t pairs);
void note_underflow(Stats& stats, DistanceType type);
/// It notes where the system starts fewer threads than the plan has.
void note_threads(Stats& stats, const ThreadPool& thread_pool);

/// It makes a plan smaller, after memory was refused: half of the queries at a time, or of the corpus, whichever leaves
/// less, and a note about it. Where tiles served both of their sides they serve one: for half of the queries that one side
/// holds in as much memory, or of half of the rows at a time. False where there is nothing to halve.
bool halve(SearchPlan& plan, const std::string& precision, const Backend& backend, const ProblemShape& problem,
           Stats& stats);

/// It searches by a plan, precision after precision. Arguments were checked.
Report search(const NeighborsView& out, const SearchSpec& spec, const Points& queries, const SearchPlan& plan,
              const Prepared& prepared, const KnnOptions& options);

/// Checks `out` against what the search will write.
void check_out(const NeighborsView& out, const Points& queries, const KnnOptions& options, DistanceType type);

}  // namespace vicinal
