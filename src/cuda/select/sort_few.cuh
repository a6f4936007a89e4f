// A warp or a block sorts a few packed keys here: by as many high bits of the key as leave room for the position in 32
// bits, and by whole keys where that left neighbours in the wrong order.
#pragma once
#include "cuda/select/form.cuh"

namespace vicinal::cuda {

/// The power-of-two numbers of 32 * words lanes' words, ascending: number l * words + w is word w of lane l.
template <int words>
__device__ __forceinline__ void sort_in_warp(std::uint32_t (&word)[words]) {
#pragma unroll
  for (int size = 2; size <= 32 * words; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      if (stride >= words) {
        const int other = stride / words;
        const bool up = ((lane_index() * words) & size) == 0, first = (lane_index() & other) == 0;
#pragma unroll
        for (int w = 0; w < words; ++w) {
          const std::uint32_t theirs = __shfl_xor_sync(all_lanes, word[w], other);
          const std::uint32_t less = theirs < word[w] ? theirs : word[w], more = theirs < word[w] ? word[w] : theirs;
          word[w] = up == first ? less : more;
        }
      } else {
#pragma unroll
        for (int w = 0; w < words; ++w) {
          if ((w & stride) != 0) continue;
          const bool up = size < words ? (w & size) == 0 : ((lane_index() * words) & size) == 0;
          const std::uint32_t a = word[w], b = word[w + stride];
          const std::uint32_t less = b < a ? b : a, more = b < a ? a : b;
          word[w] = up ? less : more;
          word[w + stride] = up ? more : less;
        }
      }
    }
  }
}

/// Sorts a buffer of a power of two of words, by `threads` threads of which this is number t; sync() is their barrier.
template <class Word, class Sync>
__device__ __forceinline__ void sort_buffer(Word* buffer, int count, int t, int threads, const Sync& sync) {
  for (int size = 2; size <= count; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      for (int pair = t; pair < count / 2; pair += threads) {
        const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
        const Word a = buffer[i], b = buffer[j];
        if ((b < a) == ((i & size) == 0)) {
          buffer[i] = b;
          buffer[j] = a;
        }
      }
      sync();
    }
}

/// Sorts the first `count` words of a buffer of 32 * words, by the warp; their keys are
/// from `least` to `most`, their positions below 2^13, and the buffer ends with words
/// that stand for none. False, and nothing done, when the high bits were not enough.
template <int words>
__device__ __forceinline__ bool sort_by_high_bits(std::uint64_t* buffer, int count, std::uint32_t least,
                                                  std::uint32_t most) {
  constexpr std::uint32_t beyond = 0xffffffffu;
  constexpr int place_bits = words == 1 ? 5 : words == 2 ? 6 : words == 4 ? 7 : 8, room = 32 - place_bits;
  constexpr std::uint32_t place = (1u << place_bits) - 1;
  const std::uint32_t range = most - least;
  const int bits = range == 0 ? 0 : 32 - __clz(static_cast<int>(range));
  const int drop = bits >= room ? bits - room + 1 : 0;  // one more, so that no number is that of no word
  std::uint32_t number[words];
#pragma unroll
  for (int w = 0; w < words; ++w) {
    const int i = w * 32 + lane_index();
    number[w] =
        i < count ? (Packed::key(buffer[i]) - least) >> drop << place_bits | static_cast<std::uint32_t>(i) : beyond;
  }
  sort_in_warp(number);
  std::uint64_t word[words];
  const auto fetch = [&] {
#pragma unroll
    for (int w = 0; w < words; ++w) word[w] = number[w] == beyond ? Packed::last() : buffer[number[w] & place];
  };
  fetch();
  // Of neighbours, whether their keys are in the wrong order, or only their positions; and how many keys come before.
  bool keys_wrong = false, places_wrong = false;
  int steps = 0;
  std::uint64_t previous = __shfl_up_sync(all_lanes, word[words - 1], 1);
  if (lane_index() == 0) previous = word[0];
#pragma unroll
  for (int w = 0; w < words; ++w) {
    keys_wrong |= Packed::key(word[w]) < Packed::key(previous);
    places_wrong |= word[w] < previous;
    steps += Packed::key(word[w]) != Packed::key(previous);
    previous = word[w];
  }
  if (__any_sync(all_lanes, keys_wrong)) return false;
  if (__any_sync(all_lanes, places_wrong)) {
    int all;
    int rank = warp_sum_before(steps, all);
    previous = __shfl_up_sync(all_lanes, word[words - 1], 1);
    if (lane_index() == 0) previous = word[0];
#pragma unroll
    for (int w = 0; w < words; ++w) {
      rank += Packed::key(word[w]) != Packed::key(previous);
      previous = word[w];
      if (number[w] != beyond)
        number[w] = (static_cast<std::uint32_t>(rank) << 13 | static_cast<std::uint32_t>(Packed::position(word[w])))
                        << place_bits |
                    (number[w] & place);
    }
    sort_in_warp(number);
    fetch();
  }
  __syncwarp();
#pragma unroll
  for (int w = 0; w < words; ++w) buffer[lane_index() * words + w] = word[w];
  __syncwarp();
  return true;
}

}  // namespace vicinal::cuda
