// Edit distances of one query to many words at once, the bit-parallel dynamic programme of Myers (1999) in the form of
// Hyyro (2003): a lane holds a column of one word's matrix as vertical differences, a bit a letter, and every letter of
// the query advances all lanes by a few instructions. Words of up to 8, 16, 32 or 64 letters have lanes of that width,
// longer ones strips of 64. One table an instruction set; distances are integers, so all give equal bits.
// myers_plain.cpp is the slow, obvious reference.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cpu/isa/complete.hpp"

namespace vicinal::cpu {

inline constexpr int most_lanes = 128;

/// A block of words and where their letters are: mask(symbol) has bit i of a lane set where letter i of its word is the
/// symbol. Rows of masks are [strips][block bytes] each; row 0 is of symbols that no word has, and holds zeros.
struct WordBlock {
  const std::byte* masks;
  const std::byte* lengths;  // [block bytes]: of the last strip, bits of letters that exist
  const std::uint64_t* row;  // [code]: offset of the symbol's masks in bytes
  int width;                 // bits a lane: 8, 16, 32 or 64
  int words;                 // lanes that hold a word
  std::int64_t strips;
};

/// What a call found: lanes whose distance is at most the limit, and the distance.
struct WordHits {
  int count;
  std::int32_t lane[most_lanes];
  std::int64_t distance[most_lanes];
};

/// One strip: the whole query at once.
struct MyersArgs {
  const WordBlock* block;
  const std::uint32_t* query;  // codes
  std::int64_t letters;
  std::int64_t limit;
  WordHits* hits;
};
using MyersFn = void (*)(const MyersArgs&);

/// Several strips: letters [from, to) of the query, so that a caller can stop
/// between calls. Only the strips that a distance within the limit can pass through
/// are advanced (Ukkonen's band); what they say beyond the limit is too much.
struct StripsArgs {
  const WordBlock* block;
  const std::uint32_t* query;
  std::int64_t letters, from, to;
  std::int64_t limit;
  std::int64_t shortest, longest;  // words of the block
  std::byte* state;                // strips * strip_bytes, for this query
  std::int64_t* band;              // [2]: first and last strip in use; set by the call with from == 0
  WordHits* hits;                  // set by the call with to == letters; a call may say so early when nothing is left
};
/// False: no word is within the limit, and hits is empty.
using StripsFn = bool (*)(const StripsArgs&);

/// A band of 16 diagonals in lanes of 16 bits, for words of one length, however long,
/// and limits of at most 15 (Hyyro 2003): the lanes follow the diagonal down, so masks
/// are windows of 16 letters, one for every letter that a window may begin with.
inline constexpr int band_bits = 16;
struct BandArgs {
  const std::byte* windows;  // [symbol][first letter + 15][block bytes]; symbol 0 has zeros
  const std::uint64_t* row;  // [code]: offset of the symbol's windows in bytes
  const std::uint32_t* query;
  std::int64_t letters, length;  // of the query, of the words; not further apart than the limit
  std::int64_t limit;
  int words;
  WordHits* hits;
};
using BandFn = void (*)(const BandArgs&);
/// Windows of one symbol out of single letters: bit 0 of window i says where letter i is the symbol.
using WindowsFn = void (*)(std::byte* windows, std::int64_t count);

struct Myers {
  int block_bytes;  // of the lanes of a block side by side
  int narrowest;    // bits of the narrowest lane
  int strip_bytes;  // of the state of a strip
  MyersFn near8, near16, near32, near64;
  StripsFn strips;
  BandFn band;  // null, and windows too: there is none
  WindowsFn windows;

  /// Lanes narrower than the narrowest have no kernel.
  consteval bool complete() const {
    return (narrowest > 8 || is_set(near8)) && (narrowest > 16 || is_set(near16)) &&
           (narrowest > 32 || is_set(near32)) && all_set(near64, strips) && is_set(band) == is_set(windows);
  }
};

}  // namespace vicinal::cpu
