// What the kernels of strings are given: words and queries as codes in ascending order of length, and a list for each query. Plain
// data, for both sides of a launch. Every pointer is to memory that the kernels reach.
#pragma once
#include <cstdint>

namespace vicinal::cuda {

/// One side, as StringSet has it: string i is codes[offsets[i]] to codes[offsets[i + 1]], of row rows[i].
struct CodedStrings {
  const std::uint8_t* codes = nullptr;
  const std::int64_t* offsets = nullptr;
  const std::uint32_t* rows = nullptr;
  std::int64_t count = 0;
};

/// A found word in one number that sorts as (distance, row).
inline constexpr int row_bits = 32;

struct StringsArgs {
  CodedStrings words, queries;
  int symbols = 0;                      // codes are below; 0 is of no string
  bool without_self = false;            // a word of the query's own row is none
  std::int32_t* limits = nullptr;       // [query] edits that are still wanted; below 0 none
  std::uint32_t* counts = nullptr;      // [query] words within the limit, also those for which there was no room
  const std::int64_t* begin = nullptr;  // [query + 1] where its list begins, and so how much room it has
  unsigned long long* found = nullptr;  // distance << row_bits | row
};

/// A rectangle of the job: which words against which queries.
struct StringsTile {
  StringsArgs job;
  std::int64_t first_word = 0, last_word = 0, first_query = 0, last_query = 0;
  std::int64_t tiles = 0;   // of words, side by side
  int queries_at_once = 1;  // that have their tables in shared memory together
  int masks = 1;            // of 64 bits, a query (long ones)
};

struct StringsBound {
  StringsArgs job;
  std::int64_t k = 0, sample = 0;
};

struct StringsPick {
  StringsArgs job;
  std::int64_t k = 0;
  unsigned long long* best = nullptr;  // [query][k], sorted; missing ones are all ones
};

}  // namespace vicinal::cuda
