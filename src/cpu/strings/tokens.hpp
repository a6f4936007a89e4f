// What jaccard compares: a string as the set of its words, or of its runs of n symbols.
#pragma once
#include <string>
#include <vector>

#include "core/strings.hpp"

namespace vicinal::cpu {

using Token = std::u32string;  // codes of the alphabet

/// The distinct tokens of one string, sorted.
std::vector<Token> tokens_of(const StringSet& set, std::int64_t at, const Alphabet& alphabet, Encoding encoding,
                             std::int64_t ngram);

}  // namespace vicinal::cpu
