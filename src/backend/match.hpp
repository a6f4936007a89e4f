// What a device is asked to match: its side of the seam.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/match_rule.hpp"
#include "core/parallel.hpp"
#include "vicinal/error.hpp"
#include "vicinal/match.hpp"

namespace vicinal {

/// A FoundMatch is a match of one pair. distance: in binary64.
struct FoundMatch {
  std::int64_t a = 0, b = 0;
  double distance = 0, ratio = 0;
};

/// A MatchSpec says what is matched. Views and pairs were checked: all images that have rows have as many columns.
struct MatchSpec {
  std::span<const Points> images;
  std::span<const ImagePair> pairs;
  Metric metric = Metric::sqeuclidean;  // whose values in binary64 are the rule's keys
  MatchRule rule;
  Mutual mutual = Mutual::tested;
  const MatchGuide* guide = nullptr;  // matrices and keypoints were checked
  KnnOptions search = {};             // memory, run, stop, stream
};

/// MatchPlaces are where matches of a result are written, one after the other.
struct MatchPlaces {
  Matches::Rows* rows = nullptr;
  void* distances = nullptr;
  double* ratios = nullptr;
  DistanceType type = DistanceType::f32;  // of the distances

  /// Throws RangeError for a distance beyond the type.
  void put(std::int64_t at, const FoundMatch& match) const;
  MatchPlaces from(std::int64_t at) const;
};
/// It makes room for all matches of pairs of the spec, those of one pair after those of the one before; every pair
/// once, at most, from any thread and in any order.
using MatchAnswer =
    std::function<MatchPlaces(std::span<const std::int64_t> pairs, std::span<const std::int64_t> counts)>;
void give_matches(const MatchAnswer& answer, std::int64_t pair, std::span<const FoundMatch> matches);

/// A MatchBackend finds the best two of the rows of both sides from one tile of distances. Calls may come from any
/// thread.
struct MatchBackend {
  virtual ~MatchBackend() = default;
  /// It matches all pairs; those with a side without rows have no answer. False, and nothing was done: distances are
  /// not of a sort that it takes, and are searched for (src/pipeline/match.cpp). Progress counts pairs of rows, once
  /// each.
  virtual bool match(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool, Stats& stats) const = 0;
};

/// A RowBest has the best two of a row, and how many rows competed: the best, and what may be second to it.
struct RowBest {
  BestTwo two;
  std::int64_t others = 0;
};

/// The matches of a pair from the best two of each row of its sides; `b` is empty where one_way.
std::vector<FoundMatch> decide_matches(std::span<const RowBest> a, std::span<const RowBest> b, const MatchRule& rule,
                                       Mutual mutual);

/// It throws the error of a search of image `corpus` for rows of image `queries` in words of images: a RowError as
/// "row R of image N ...", others with both numbers behind them.
[[noreturn]] void rethrow_of_images(const Error& error, std::int64_t corpus, std::int64_t queries);

}  // namespace vicinal
