// The nth of some elements without branches on what is compared: on which side of a pivot one falls cannot be guessed,
// and a processor that guesses wrong loses the time of ten comparisons. It is std::nth_element for elements that are
// cheap to move.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vicinal {

/// Whether (high, low) comes before the other pair, in two instructions and no branch.
inline bool before_pair(std::uint64_t high, std::uint64_t low, std::uint64_t other_high,
                        std::uint64_t other_low) noexcept {
  __extension__ using Both = unsigned __int128;
  return (static_cast<Both>(high) << 64 | low) < (static_cast<Both>(other_high) << 64 | other_low);
}

/// The middle one of three.
template <class T, class Before>
T middle_of(const T& a, const T& b, const T& c, const Before& before) {
  const bool ab = before(a, b), bc = before(b, c), ac = before(a, c);
  const T* const end = ab == ac ? &c : &a;
  return *(ab == bc ? &b : end);
}

/// Moves the elements of [first, last) that come before the pivot to the front, and returns where they end. Blocks of
/// both ends note which of their elements are on the wrong side, and those are swapped (Edelkamp and Weiss,
/// BlockQuicksort, 2016).
template <class T, class Before>
T* partition_by(T* first, T* last, const T pivot, const Before& before) {
  constexpr std::ptrdiff_t block = 64;
  // Places of elements on the wrong side: from `first` on, and from `last` back.
  std::uint8_t left[block], right[block];
  int lefts = 0, rights = 0, left_at = 0, right_at = 0;
  while (last - first >= 2 * block) {
    if (lefts == 0) {
      left_at = 0;
      for (std::ptrdiff_t i = 0; i < block; ++i) {
        left[lefts] = static_cast<std::uint8_t>(i);
        lefts += before(first[i], pivot) ? 0 : 1;
      }
    }
    if (rights == 0) {
      right_at = 0;
      for (std::ptrdiff_t i = 0; i < block; ++i) {
        right[rights] = static_cast<std::uint8_t>(i);
        rights += before(last[-1 - i], pivot) ? 1 : 0;
      }
    }
    const int both = std::min(lefts, rights);
    for (int i = 0; i < both; ++i) std::swap(first[left[left_at + i]], last[-1 - right[right_at + i]]);
    lefts -= both, left_at += both;
    rights -= both, right_at += both;
    if (lefts == 0) first += block;
    if (rights == 0) last -= block;
  }
  T rest[2 * block];
  const std::ptrdiff_t count = last - first;
  std::copy(first, last, rest);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::ptrdiff_t is_before = before(rest[i], pivot) ? 1 : 0;
    *first = last[-1] = rest[i];
    first += is_before;
    last -= 1 - is_before;
  }
  return first;
}

template <class T, class Before>
void select_nth(T* first, T* nth, T* last, const Before& before);

/// Returns a pivot near the nth. Of many elements it is the nth of a sample that lies around it, a little to its far
/// side, so that most elements fall on the other side of it at once (Floyd and Rivest, Algorithm 489, 1975).
template <class T, class Before>
T pivot_for(T* first, T* nth, T* last, const Before& before) {
  const std::ptrdiff_t count = last - first;
  if (count < 600) return middle_of(*first, first[count / 2], last[-1], before);
  const auto n = static_cast<double>(count), share = static_cast<double>(nth - first) / n;
  const double sample = .5 * std::cbrt(n * n), spread = .5 * std::sqrt(std::log(n) * sample * (1 - sample / n));
  const double from = sample * share + (share < .5 ? spread : -spread);
  T* const begin = nth - static_cast<std::ptrdiff_t>(std::clamp(from, 0.0, static_cast<double>(nth - first)));
  T* const end = std::min(last, begin + static_cast<std::ptrdiff_t>(sample));
  select_nth(std::min(begin, nth), nth, std::max(end, nth + 1), before);
  return *nth;
}

/// Reorders [first, last) as std::nth_element does: *nth is what it would be if all were in order, and nothing after it
/// comes before it.
template <class T, class Before>
void select_nth(T* first, T* nth, T* last, const Before& before) {
  constexpr std::ptrdiff_t few = 4;
  constexpr int most_rounds = 64;  // more than pivots that halve what is left will need
  for (int round = 0; round < most_rounds && last - first > few; ++round) {
    const T pivot = pivot_for(first, nth, last, before);
    T* const below = partition_by(first, last, pivot, before);
    if (nth < below) {
      last = below;
    } else if (below != first) {
      first = below;
    } else {  // the pivot comes first, so that whatever equals it does
      T* const above = partition_by(first, last, pivot, [&](const T& a, const T& b) { return !before(b, a); });
      if (nth < above) return;
      first = above;
    }
  }
  if (first != last) std::nth_element(first, nth, last, before);
}

}  // namespace vicinal
