// Truncated bitonic sort (TBiS, section III): lists of K, the power of two from k on, are sorted by bitonic networks,
// one up, one down; the smaller of each pair of entries of two such lists are the K smallest of both, a bitonic
// sequence that one merge sorts. The order of comparisons depends on n and k alone.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/divide.hpp"
#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

template <class Key>
void order(Ranked<Key>& a, Ranked<Key>& b, bool up) {
  if (before(b, a) == up) std::swap(a, b);
}

/// Sorts a bitonic list of a power of two.
template <class Key>
void merge_bitonic(Ranked<Key>* list, std::int64_t length, bool up) {
  for (std::int64_t half = length / 2; half > 0; half /= 2)
    for (std::int64_t begin = 0; begin < length; begin += 2 * half)
      for (std::int64_t i = begin; i < begin + half; ++i) order(list[i], list[i + half], up);
}

template <class Key>
void sort_bitonic(Ranked<Key>* list, std::int64_t length, bool up) {
  for (std::int64_t width = 2; width <= length; width *= 2)
    for (std::int64_t begin = 0; begin < length; begin += width)
      merge_bitonic(list + begin, width, width < length ? begin / width % 2 == 0 : up);
}

template <class Key>
void bitonic(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(k)));
  std::int64_t lists = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(divide_up(count, length))));
  constexpr Ranked<Key> absent = {std::numeric_limits<Key>::max(), std::numeric_limits<std::int64_t>::max()};
  std::vector<Ranked<Key>> row(static_cast<std::size_t>(lists * length), absent);
  for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = {keys[i], i};
  for (std::int64_t list = 0; list < lists; ++list) sort_bitonic(row.data() + list * length, length, list % 2 == 0);
  for (; lists > 1; lists /= 2) {
    for (std::int64_t pair = 0; pair < lists / 2; ++pair) {
      const Ranked<Key>*up = row.data() + 2 * pair * length, *down = up + length;
      Ranked<Key>* out = row.data() + pair * length;
      for (std::int64_t i = 0; i < length; ++i) out[i] = std::min(up[i], down[i], before<Key>);
      merge_bitonic(out, length, pair % 2 == 0);
    }
  }
  std::copy_n(row.begin(), k, best);
}

}  // namespace

const Truncated truncated_bitonic = {"bitonic", &bitonic<std::uint32_t>, &bitonic<std::uint64_t>};

}  // namespace vicinal::cpu
