// How a range search keeps and hands over what it found. Filter and rerank are those of every search; here the
// threshold never moves and nothing is dropped for being too far down a list.
#pragma once
#include <span>
#include <vector>

#include "cpu/rerank/output.hpp"

namespace vicinal::cpu {

/// The matches of a batch of queries.
class RangeMatches {
 public:
  /// Begins a batch: every result collects matches from now on. match_bytes: what all of them may take.
  void start(const SearchBatch& batch, std::int64_t match_bytes);
  /// As Session::counts.
  static void counts(const SearchBatch& batch, std::span<std::int64_t> counts, std::vector<bool>& overflowed);
  /// As Session::write_matches_to.
  void write_to(const SearchBatch& batch, const RangeView& out);
  /// As Session::finish_range.
  void write(const Output& output, const RangeView& out, const BoundsView& bounds) const;

 private:
  std::vector<Matches> matches_;       // one for each result
  std::vector<OutputCursor> cursors_;  // one for each query whose matches overflowed once
  MatchBudget budget_;
};

}  // namespace vicinal::cpu
