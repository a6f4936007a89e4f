// Matching by where features are: a row has other candidates than its neighbour, so its list of nearest rows is read until two of them may
// match it. Lists are short at first and grow for the rows that need longer ones.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/match_rule.hpp"
#include "vicinal/match.hpp"

namespace vicinal {

/// Throws InvalidArgument where there are guides but not one a pair, places but not one a row, or a value that is no number or out of range.
void check_guides(std::span<const MatchGuide> guides, std::span<const Points> images, std::span<const ImagePair> pairs);

/// The k nearest rows of the other image for each of these, by (key, id).
using NearestRows = std::function<Neighbors(const Points& asked, std::int64_t k)>;

/// For each of `asked` the best and the second best of `rows` that the guide leaves, with a second of NaN where it leaves one alone. back: `asked`
/// are the rows of guide.b.
std::vector<BestTwo> guided_best_two(const Points& asked, std::int64_t rows, const MatchGuide& guide, bool back,
                                     const NearestRows& nearest);

}  // namespace vicinal
