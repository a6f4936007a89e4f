// A word is a key-index pair, which selections compare and move: it is smaller when its value comes earlier, ties by
// position. Its form says what it is made of:
//   Packed   a key of 32 bits and a position of 32 bits in one integer
//   Wide     a key and a position of 64 bits each: values of 64 bits, and rows beyond 2^32 - 1 columns
//   Alone    a key without a position, for values whose ids are not asked for; equal words are alike
// last() comes after every word of a row; middle() halves the words between two, both included.
#pragma once
#include <cstdint>

#include "cuda/device/primitives.cuh"
#include "select/ordered.hpp"

namespace vicinal::cuda {

struct __align__(16) WideWord {
  std::uint64_t key, position;
};
VICINAL_BOTH bool operator<(const WideWord& a, const WideWord& b) {
  return a.key < b.key || (a.key == b.key && a.position < b.position);
}
VICINAL_BOTH bool operator==(const WideWord& a, const WideWord& b) {
  return a.key == b.key && a.position == b.position;
}

/// Words that are integers.
template <class Integer>
struct IntegerWords {
  using Word = Integer;
  __device__ static Word first() { return 0; }
  __device__ static Word last() { return static_cast<Word>(~Word{0}); }
  __device__ static Word before(Word word) { return word - 1; }
  __device__ static Word after(Word word) { return word + 1; }
  __device__ static Word middle(Word low, Word high) { return low + (high - low) / 2; }
};

struct Packed : IntegerWords<std::uint64_t> {
  using Key = std::uint32_t;
  __device__ static Word make(Key key, std::int64_t position) {
    return static_cast<Word>(key) << 32 | static_cast<std::uint32_t>(position);
  }
  __device__ static Key key(Word word) { return static_cast<Key>(word >> 32); }
  __device__ static std::int64_t position(Word word) { return static_cast<std::uint32_t>(word); }
};

struct Wide {
  using Key = std::uint64_t;
  using Word = WideWord;
  __device__ static Word make(Key key, std::int64_t position) { return {key, static_cast<std::uint64_t>(position)}; }
  __device__ static Key key(const Word& word) { return word.key; }
  __device__ static std::int64_t position(const Word& word) { return static_cast<std::int64_t>(word.position); }
  __device__ static Word first() { return {0, 0}; }
  __device__ static Word last() { return {~0ull, ~0ull}; }
  __device__ static Word before(const Word& word) { return {word.key - (word.position == 0), word.position - 1}; }
  __device__ static Word after(const Word& word) { return {word.key + (word.position == ~0ull), word.position + 1}; }
  __device__ static Word middle(const Word& low, const Word& high) {
    if (low.key == high.key) return {low.key, low.position + (high.position - low.position) / 2};
    return {low.key + (high.key - low.key) / 2, ~0ull};
  }
};

template <class Integer>
struct Alone : IntegerWords<Integer> {
  using Key = Integer;
  __device__ static Integer make(Key key, std::int64_t) { return key; }
  __device__ static Key key(Integer word) { return word; }
};

/// The same words by a name that is known at run time only.
enum class FormName : std::uint8_t { packed, wide, alone32, alone64 };
inline std::int64_t word_size(FormName form) { return form == FormName::wide ? 16 : form == FormName::alone32 ? 4 : 8; }

/// Calls body.template operator()<Form>() for words with positions.
template <class Body>
void with_entries(FormName form, const Body& body) {
  if (form == FormName::packed) body.template operator()<Packed>();
  else body.template operator()<Wide>();
}
template <class Body>
void with_form(FormName form, const Body& body) {
  if (form == FormName::alone32) body.template operator()<Alone<std::uint32_t>>();
  else if (form == FormName::alone64) body.template operator()<Alone<std::uint64_t>>();
  else with_entries(form, body);
}

}  // namespace vicinal::cuda
