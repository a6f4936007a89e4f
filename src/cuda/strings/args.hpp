// What the kernels of strings are given: a corpus and queries as codes in ascending order of length, and a list for
// each query. Plain data, for both sides of a launch. Every pointer is to memory that the kernels reach.
#pragma once
#include <cstdint>

namespace vicinal::cuda {

/// A corpus or queries, as StringSet has them: string i is codes[offsets[i]] to codes[offsets[i + 1]], of row rows[i].
struct CodedStrings {
  const std::uint8_t* codes = nullptr;
  const std::int64_t* offsets = nullptr;
  const std::uint32_t* rows = nullptr;
  std::int64_t count = 0;
};

/// A match is one number that sorts as (distance, row).
inline constexpr int row_bits = 32;

struct StringsArgs {
  CodedStrings corpus, queries;
  int symbols = 0;                      // codes are below; 0 is of no string
  bool without_self = false;            // a string of the query's own row is none
  std::int32_t* thresholds = nullptr;   // [query] edits that are still wanted; below 0 none
  std::uint32_t* counts = nullptr;      // [query] strings within the threshold, also those for which there was no room
  const std::int64_t* begin = nullptr;  // [query + 1] where its list begins, and so how much room it has
  unsigned long long* matches = nullptr;  // distance << row_bits | row
};

/// A rectangle of the search: which strings against which queries.
struct StringsTile {
  StringsArgs args;
  std::int64_t first_string = 0, last_string = 0, first_query = 0, last_query = 0;
  std::int64_t tiles = 0;   // of strings, side by side
  int queries_at_once = 1;  // that have their tables in shared memory together
  int masks = 1;            // of 64 bits, a query (long ones)
};

struct StringsThresholds {
  StringsArgs args;
  std::int64_t k = 0, sample = 0;
};

struct StringsSelect {
  StringsArgs args;
  std::int64_t k = 0;
  unsigned long long* best = nullptr;  // [query][k], sorted; missing ones are all ones
};

}  // namespace vicinal::cuda
