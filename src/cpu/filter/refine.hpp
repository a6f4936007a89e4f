// FILTER, refinement: what int8 cannot exclude is measured again by the second-level code of each row, a
// fifth of what canonical distances would read, and thresholds tighten by the bounds that this proves
// (core/bound_second.hpp). What is left at the end is little more than the answer. Of a query's
// candidates the first Candidates::refined are refined, and their t is of second_t.
#pragma once
#include "cpu/filter/int8_block.hpp"

namespace vicinal::cpu {

/// As many refinements take about the time of one canonical distance.
inline constexpr std::int64_t refinements_a_rank = 4;

class Refinement {
 public:
  /// codes: PackedQueries::second from the block's first query on.
  Refinement(const QueryBlock& block, const Int8Block& int8, const std::int8_t* codes)
      : block_(block), int8_(int8), codes_(codes) {}

  /// Refines the query's candidates before `end` that are not yet refined.
  void refine(int query, std::int64_t end) const;
  /// The query has refined more rows than it may before it is given up.
  bool over_budget(int query) const noexcept {
    return block_.results[query].matches == nullptr &&
           block_.candidates[query].refinements > refinements_a_rank * block_.rerank_budget;
  }
  /// An upper bound of the distance of a refined candidate, in filter units.
  double upper_of(int query, const Slot& slot) const;
  /// The largest t of a refined candidate in that tile that the query's threshold does not exclude.
  float threshold_for(int query, std::size_t tile) const;

 private:
  const QueryBlock& block_;
  const Int8Block& int8_;
  const std::int8_t* codes_;
};

}  // namespace vicinal::cpu
