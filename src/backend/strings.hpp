// What a search of strings is, apart from how it is carried out: the strings' side of the seam.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/key.hpp"
#include "core/row_filter.hpp"
#include "core/strings.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

struct StringSearchSpec {
  const StringSet& corpus;
  const StringSet& queries;  // the corpus itself, in a graph
  const Alphabet& alphabet;
  Metric metric = Metric::levenshtein;
  DistanceType type = DistanceType::u32;
  Encoding encoding = Encoding::utf8;
  std::int64_t ngram = 0;
  std::int64_t k = 0;  // what a query can really get; 0 with a radius
  std::int64_t first_id = 0;
  const RowFilter& filter;
  std::optional<double> radius = {};
  std::int64_t most = INT64_MAX;  // entries of a range result; what comes beyond is counted
  std::int64_t first_query = 0,
               last_query = INT64_MAX;  // those asked for, in the set's order: [first, last), as far as there are any

  std::int64_t query_end() const { return std::min(last_query, queries.count()); }
};

/// What a backend takes of a spec: queries before this one, and in a few words why not the others.
struct StringShare {
  std::int64_t end = 0;
  std::string why;
};

/// What is asked of plans: sizes alone.
struct StringSizes {
  std::int64_t rows = 0, symbols = 0, longest = 0;  // of the corpus
  std::int64_t queries = 0, query_symbols = 0, longest_query = 0;
  std::int64_t alphabet = 0;
};

/// The answer to query `row`: entries with folded keys and returned ids, in order. Called once a query, from any thread.
using StringAnswer = std::function<void(std::int64_t row, std::span<const Entry> entries)>;

}  // namespace vicinal
