// SPECULATE: thresholds that are guessed from a sample of the tiles, so that one part over all tiles is enough. A share s of the rows holds
// about s k of the k nearest, and seldom many more: the threshold becomes the estimate that a few more than s k of the sample are within. It
// excludes as a proved one does, and is verified in the end, by k ranked rows within it. A query that has fewer (finish.cuh) is searched again
// with proved thresholds (session.hpp). How likely that is matters to time and memory alone.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/both.hpp"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

/// SpeculationRule says how a device guesses; tests have their own.
struct SpeculationRule {
  std::int64_t least_k = 16;                 // of fewer neighbours proved thresholds take no longer, but of
  std::int64_t few_queries = block_queries;  // at most, for which each further launch costs
  double deviations = 5;  // of a binomial distribution, beyond what is expected of evenly spread rows
  double rows_besides = 4;

  /// Whether so many neighbours of each query of a batch are guessed.
  bool guesses(std::int64_t k, std::int64_t queries) const { return k >= least_k || queries <= few_queries; }
  /// How many rows of a sample of this share of all are to be within the threshold of a query that wants so many neighbours; 1 at least.
  std::int64_t rank(std::int64_t want, double share) const {
    const double expected = share * static_cast<double>(want),
                 most = expected + deviations * std::sqrt(expected * (1 - share)) + rows_besides;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(most)));
  }
};

/// Speculation is what a batch's thresholds are guessed from.
struct Speculation {
  std::int64_t tiles = 0;  // of the sample; 0: thresholds are proved
  std::int64_t rank = 0;   // of its estimates, which the threshold is
  std::int64_t slots = 0;  // a query
  bool active() const { return tiles > 0; }
};

inline constexpr std::int64_t most_speculative_groups = 16384;  // whose estimates shared memory holds
inline constexpr std::int64_t least_speculative_slots = 3072;   // so many take little memory

/// The slots of a query for `k` neighbours, and for one more: twice what is expected to pass, on average. It grows with k. Quantization errors let
/// more rows pass than are within the threshold, and the more the more columns there are: factors were measured on Gaussian rows.
inline std::int64_t speculative_slots(std::int64_t tiles, std::int64_t dims, std::int64_t k) {
  const double share = std::min(
                   1.0 / 16, static_cast<double>(most_speculative_groups / groups_a_tile) / static_cast<double>(tiles)),
               want = static_cast<double>(k + 1), rank = want + 5 * std::sqrt(want / share) + 4 / share;
  const double widened = std::exp(0.61 * std::sqrt(static_cast<double>(std::min<std::int64_t>(dims, 1536)) / 128));
  return std::max(least_speculative_slots, static_cast<std::int64_t>(2 * widened * rank) + 512);
}

/// Whether thresholds of a precision may be guessed: its sums tell of each group of a sample how near it is.
constexpr bool guesses(Precision precision, Sum sum) {
  return precision == Precision::int8 && (sum == Sum::squares || sum == Sum::products);
}
/// Whether the whole corpus is there when a search begins, so that thresholds may be guessed from a sample of it.
inline bool at_once(const Plan& plan, std::int64_t rows, bool prepared) {
  return prepared || plan.corpus_chunk >= rows;
}

/// How a search of a corpus that is one chunk of so many tiles speculates, in batches of so many queries. slots: that a query has where thresholds are
/// proved.
inline Speculation speculation_of(const SpeculationRule& rule, std::int64_t queries, std::int64_t tiles,
                                  std::int64_t dims, std::int64_t k, bool without_self, std::int64_t slots) {
  const std::int64_t want = k + (without_self ? 1 : 0);
  if (!rule.guesses(k, queries) || slots / tile_rows >= tiles) return {};
  for (const std::int64_t part : {16, 8}) {
    const std::int64_t sampled = std::min((tiles + part - 1) / part, most_speculative_groups / groups_a_tile),
                       rank = rule.rank(want, static_cast<double>(sampled) / static_cast<double>(tiles));
    // A group is its nearest row: of too few groups the sample would not tell enough rows apart.
    if (sampled * groups_a_tile >= 4 * rank) return {sampled, rank, std::min(slots, speculative_slots(tiles, dims, k))};
  }
  return {};
}

/// Whether a guessed threshold is proved by the query's list of k rows at most: so many were found, and the last of them, with this key, is within
/// it. Then whatever it excluded has a greater key.
VICINAL_HOST_DEVICE inline bool verifies(const QueryState& state, std::int64_t k, double kth_key) {
  return !state.overflowed && static_cast<std::int64_t>(state.best) == k && kth_key <= state.threshold_key;
}

}  // namespace vicinal::cuda
