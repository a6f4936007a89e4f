// What resumable matching shares with match_pairs.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "pipeline/resume.hpp"
#include "vicinal/match.hpp"

namespace vicinal {

/// Throws InvalidArgument for a pair that names no image.
void check_pairs(std::span<const ImagePair> pairs, std::size_t images);
/// It returns the type that distances of these images are rounded to.
DistanceType match_distance_type(const MatchDistance& distance, std::span<const Points> images);
/// match_pairs by several devices, each with some of the pairs.
Matches match_on_devices(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                         const std::vector<std::string>& devices);
/// match_pairs_resumable in pieces of so many pairs at first, and at most.
Matches match_in_pieces(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options,
                        const std::string& directory, const Grid& grid);

}  // namespace vicinal
