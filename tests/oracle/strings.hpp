// Distances of strings as their definitions say them: the full table of edits, a walk over positions, sorted sets of tokens;
// then every pair, and a full sort.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/oracle.hpp"

namespace oracle {

using Text = std::u32string;

std::int64_t levenshtein(const Text& a, const Text& b);
double normalized_levenshtein(const Text& a, const Text& b);
std::int64_t differing(const Text& a, const Text& b);
/// ngram 0: tokens are between blanks.
double jaccard(const Text& a, const Text& b, std::int64_t ngram);

/// The value of a pair rounded to the returned type, by metric name.
double string_key(const std::string& metric, const Text& a, const Text& b, std::int64_t ngram, bool f64);

/// Rows of the corpus for one query in the order of (key, id); only those that `allows`.
std::vector<Entry> ranked_strings(const std::vector<Text>& corpus, const Text& query, const std::string& metric,
                                  std::int64_t ngram, bool f64, const std::function<bool(std::int64_t row)>& allows);

}  // namespace oracle
