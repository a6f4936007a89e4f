// What resumable matching shares with match_pairs.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/match_rule.hpp"
#include "pipeline/resume.hpp"
#include "vicinal/match.hpp"

namespace vicinal {

/// Throws InvalidArgument for a pair that names no image.
void check_pairs(std::span<const ImagePair> pairs, std::size_t images);
/// What the rows of pairs are compared by, and the type that their distances are rounded to.
struct MatchKind {
  Metric metric;
  MatchKey key;
  DistanceType type;
  bool operator==(const MatchKind&) const = default;
};
/// The kind of all pairs, of which those with an image without rows have no say. Throws InvalidArgument for pairs of
/// two kinds: of these the type of the distances could not be each pair's own.
MatchKind match_kind(const MatchDistance& distance, std::span<const Points> images, std::span<const ImagePair> pairs);
/// match_pairs by several devices, each with some of the pairs.
Matches match_on_devices(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                         const std::vector<std::string>& devices);
/// match_pairs_resumable in pieces of so many pairs at first, and at most.
Matches match_in_pieces(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                        const std::string& directory, const Grid& grid);

}  // namespace vicinal
