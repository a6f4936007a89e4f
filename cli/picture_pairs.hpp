// Which pictures of a database are matched with which: what --pairs says.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "colmap.hpp"
#include "vicinal/match.hpp"
#include "vicinal/options.hpp"

namespace cli {

/// Pairs of positions in `pictures`, none twice and none of a picture with itself.
/// asked: "exhaustive"; "sequential:N", each with the N after it by name; "nearest:K", each with the K nearest of its
/// row of `descriptors`, a file with one row a picture by ascending id; or a file with two names a line, as COLMAP's
/// match_list.
std::vector<vicinal::ImagePair> picture_pairs(const std::string& asked, const std::string& descriptors,
                                              std::span<const Picture> pictures, const vicinal::Execution& run);

/// The same pairs in an order in which blocks of pictures stay together: few are needed at a time.
std::vector<vicinal::ImagePair> by_blocks(std::vector<vicinal::ImagePair> pairs, std::span<const Picture> pictures,
                                          std::int64_t bytes);
/// How many of the first pairs make a batch: at most `most`, whose pictures hold at most `bytes` of descriptors
/// together; 1 or more.
std::size_t batch_size(std::span<const vicinal::ImagePair> pairs, std::span<const Picture> pictures, std::int64_t bytes,
                       std::size_t most);

}  // namespace cli
