// SPECULATE: thresholds that are guessed from a sample of the tiles, so that one part over all tiles is enough. A share
// s of the rows holds about s k of the k nearest, and seldom many more: the threshold becomes the estimate that a few
// more than s k of the sample are within. It excludes as a proved one does, and is verified in the end, by k ranked
// rows within it. A part of the tiles passes first where there are many queries: of what the slots then hold,
// thresholds are guessed again, closer. A query that has fewer (finish.cuh) is searched again with proved thresholds
// (session.hpp). How likely that is matters to time and memory alone.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "core/both.hpp"
#include "core/divide.hpp"
#include "core/precision.hpp"
#include "cuda/search/core/args.hpp"
#include "cuda/search/filter/units.hpp"

namespace vicinal::cuda {

/// SpeculationRule says how a device guesses; tests have their own.
struct SpeculationRule {
  std::int64_t least_k = 16;                   // of fewer neighbours proved thresholds take no longer, but of
  std::int64_t any_k_queries = block_queries;  // at most, for which each further launch costs
  std::int64_t least_k_of_long_rows = 12;      // of more than a slab: parts would rank rows that are long
  // A rank is the mean of a binomial distribution, as of evenly spread rows, and so many of its deviations, and rows
  // besides, since the distribution of few rows is lopsided. For k from 8 to 1,000 ranks are too small for about one
  // such query in a million at most.
  double deviations = 5;
  double rows_besides = 3;
  std::int64_t least_reestimated = block_queries + 1;  // of fewer queries a second launch takes longer than what passes
  std::int64_t least_k_of_many = 8,
               many_queries = 4096;  // of so many, parts rank long enough for guesses to pay sooner

  // Of a graph whose tiles serve both sides: runs (BlockPairs), and for how many times the rows that are expected to
  // pass guesses are of use; a first part alone passes by them.
  std::int64_t least_runs = 32;
  double most_passing = 3;
  // Where more than this share of them has passed in that part, near rows lie together, tight clusters most of all:
  // ranking takes the time, and tiles that serve one side leave less of it.
  double most_passed = 0.25;

  /// Whether so many neighbours of each query of a batch, of so many columns, are guessed.
  bool guesses(std::int64_t k, std::int64_t queries, std::int64_t dims) const {
    const std::int64_t least = dims > 128 ? least_k_of_long_rows : queries >= many_queries ? least_k_of_many : least_k;
    return k >= least || queries <= any_k_queries;
  }
  /// It returns how many rows of a sample, which is this share of all, are to be within the threshold of a query that
  /// wants so many neighbours; 1 at least.
  std::int64_t rank(std::int64_t want, double share) const {
    const double expected = share * static_cast<double>(want),
                 most = expected + deviations * std::sqrt(expected * (1 - share)) + rows_besides;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(most)));
  }
};

/// A SampleRank is a number of tiles, and the rank among what is found in them that becomes a threshold.
struct SampleRank {
  std::int64_t tiles = 0, rank = 0;
};
/// Speculation is what a batch's thresholds are guessed from.
struct Speculation {
  SampleRank small_batch;  // the sample of few queries; no tiles: thresholds are proved
  SampleRank large_batch;  // the sample of many queries
  SampleRank first_part;   // of many queries: the tiles that pass first, from which thresholds are guessed again
  std::int64_t slots = 0;  // a query
  std::int64_t most = 0;   // rows that may pass for a query by the first guess
  std::int64_t least_reestimated = 0;
  BlockPairs pairs = {};     // of a graph whose tiles serve both sides
  std::int64_t passing = 0;  // of it: the slots that are enough where rows are spread evenly
  SampleRank first_runs;     // the same as first_part, in runs of these
  double most_passed = 0;    // share of `passing` in that part, of more of which tiles serve one side
  bool active() const { return small_batch.tiles > 0; }
  bool serves_both() const { return pairs.run > 0; }
  bool reestimates(std::int64_t queries) const { return first_part.tiles > 0 && queries >= least_reestimated; }
  const SampleRank& sample(std::int64_t queries) const { return reestimates(queries) ? large_batch : small_batch; }
};

inline constexpr std::int64_t most_speculative_groups = 16384;  // whose estimates shared memory holds
inline constexpr std::int64_t least_speculative_slots = 3072;   // so many take little memory
inline constexpr std::int64_t reestimate_part = 4;  // a quarter of the tiles passes before thresholds are guessed again

/// It returns the slots of a query for `k` neighbours and one more: twice what is expected to pass, on average. They
/// grow with k. Quantization errors let more rows pass than are within the threshold, the more so the more columns they
/// have: factors were measured on Gaussian rows.
inline std::int64_t passing_slots(std::int64_t tiles, std::int64_t dims, std::int64_t k) {
  const double share = std::min(
                   1.0 / 16, static_cast<double>(most_speculative_groups / groups_a_tile) / static_cast<double>(tiles)),
               want = static_cast<double>(k + 1), rank = want + 5 * std::sqrt(want / share) + 4 / share;
  const double widened = std::exp(0.61 * std::sqrt(static_cast<double>(std::min<std::int64_t>(dims, 1536)) / 128));
  return static_cast<std::int64_t>(2 * widened * rank) + 512;
}
inline std::int64_t speculative_slots(std::int64_t tiles, std::int64_t dims, std::int64_t k) {
  return std::max(least_speculative_slots, passing_slots(tiles, dims, k));
}

/// Whether thresholds of a precision may be guessed: its sums tell of each group of a sample how near it is.
constexpr bool guesses(Precision precision, Sum sum) { return precision == Precision::int8 && has_products(sum); }
/// Whether the whole corpus is there when a search begins, so that thresholds may be guessed from a sample of it.
inline bool at_once(const Plan& plan, std::int64_t rows, bool prepared) {
  return prepared || plan.corpus_chunk >= rows;
}

/// It returns how a search speculates whose corpus is one chunk of so many tiles, in batches of so many queries. slots:
/// those that a query has where thresholds are proved.
inline Speculation speculation_of(const SpeculationRule& rule, std::int64_t queries, std::int64_t tiles,
                                  std::int64_t dims, std::int64_t k, bool without_self, std::int64_t slots) {
  const std::int64_t want = k + (without_self ? 1 : 0);
  if (!rule.guesses(k, queries, dims) || slots / tile_rows >= tiles) return {};
  const auto rank_of = [&](std::int64_t sampled) {
    return SampleRank{sampled, rule.rank(want, static_cast<double>(sampled) / static_cast<double>(tiles))};
  };
  // A group is its nearest row: of too few groups the sample would not tell enough rows apart.
  const auto sample = [&](std::initializer_list<std::int64_t> parts) {
    for (const std::int64_t part : parts)
      if (const SampleRank found = rank_of(std::min(divide_up(tiles, part), most_speculative_groups / groups_a_tile));
          found.tiles * groups_a_tile >= 4 * found.rank)
        return found;
    return SampleRank{};
  };
  Speculation speculation;
  speculation.small_batch = sample({16, 8});
  if (!speculation.active()) return {};
  speculation.slots = std::min(slots, speculative_slots(tiles, dims, k));
  speculation.most = speculation.slots;
  speculation.least_reestimated = rule.least_reestimated;
  // Of a long list so much passes that a closer first guess is worth a larger sample.
  speculation.large_batch = k <= 256 ? sample({32, 16, 8}) : speculation.small_batch;
  const SampleRank first = rank_of(tiles / reestimate_part);
  if (first.tiles > speculation.large_batch.tiles && first.tiles * groups_a_tile >= 8 * first.rank)
    speculation.first_part = first;
  return speculation;
}

/// Whether tiles of a graph may serve both sides: rows are multiplied as they are as queries, and tested in groups.
constexpr bool serves_both_sides(Precision precision, Sum sum, std::int64_t dims) {
  return precision == Precision::int8 && sum == Sum::squares && dims <= most_grouped_width;
}

/// It returns the speculation of a graph whose tiles serve both sides, from that where they serve one; the same where
/// rows are too few.
inline Speculation symmetric_speculation(Speculation speculation, const SpeculationRule& rule, std::int64_t tiles,
                                         std::int64_t dims, std::int64_t k, std::int64_t want) {
  const BlockPairs pairs = block_pairs(tiles, dims > 128 ? slab_queries : block_queries, rule.least_runs);
  if (!speculation.active() || speculation.first_part.tiles == 0 || pairs.runs() < rule.least_runs) return speculation;
  const std::int64_t first = divide_up(pairs.runs(), reestimate_part);
  const double share = 2 * static_cast<double>(first * pairs.run) / static_cast<double>(pairs.blocks());
  speculation.pairs = pairs;
  speculation.first_runs = {first, rule.rank(want, std::min(share, 1.0))};
  // All rows have slots at once: of few rows as many as where tiles serve one side, for clusters pass whole.
  constexpr std::int64_t usual_slots = std::int64_t{1} << 28;
  speculation.passing = std::min(speculation.slots, passing_slots(tiles, dims, k));
  speculation.most_passed = rule.most_passed;
  speculation.most = static_cast<std::int64_t>(rule.most_passing * static_cast<double>(speculation.passing));
  speculation.slots = std::clamp(usual_slots / (tiles * tile_rows), speculation.passing, speculation.slots);
  return speculation;
}

/// It tells whether the query's list proves its guessed threshold: k rows were found, and the last of them, with this
/// key, is within it. Then whatever the threshold excluded has a greater key.
VICINAL_HOST_DEVICE inline bool verifies(const QueryState& state, std::int64_t k, double kth_key) {
  return !state.given_up && static_cast<std::int64_t>(state.best) == k && kth_key <= state.threshold_key;
}

}  // namespace vicinal::cuda
