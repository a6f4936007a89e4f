// Truncated quick sort: after each partition the side that cannot hold one of the k smallest is dropped. The pivot is
// the median of three places drawn from a hash, so that no order of the input is a bad one.
#include <utility>
#include <vector>

#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t short_range = 16;  // sorted by insertion

template <class Key>
void sort_short(Ranked<Key>* row, std::int64_t count) {
  for (std::int64_t i = 1; i < count; ++i) {
    const Ranked<Key> moving = row[i];
    std::int64_t position = i;
    for (; position > 0 && before(moving, row[position - 1]); --position) row[position] = row[position - 1];
    row[position] = moving;
  }
}

template <class Key>
Ranked<Key> pivot_of(const Ranked<Key>* row, std::int64_t count, std::uint64_t& state) {
  Ranked<Key> drawn[3];
  for (Ranked<Key>& one : drawn) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    one = row[static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(count))];
  }
  sort_short(drawn, 3);
  return drawn[1];
}

/// The k smallest of row[0..count) to its front, in order. The longer side is the loop, the shorter the recursion.
template <class Key>
void sort_front(Ranked<Key>* row, std::int64_t count, std::int64_t k, std::uint64_t& state) {
  while (count > short_range && k > 0) {
    const Ranked<Key> pivot = pivot_of(row, count, state);
    std::int64_t left = 0, right = count - 1;
    while (left <= right) {
      while (before(row[left], pivot)) ++left;
      while (before(pivot, row[right])) --right;
      if (left <= right) std::swap(row[left++], row[right--]);
    }
    const std::int64_t below = right + 1, above = left;  // what lies between is the pivot
    if (below >= k) {
      count = below;
    } else if (below < count - above) {
      sort_front(row, below, below, state);
      row += above, count -= above, k -= above;
    } else {
      sort_front(row + above, count - above, k - above, state);
      count = below, k = below;
    }
  }
  if (k > 0) sort_short(row, count);
}

template <class Key>
void quick(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  std::vector<Ranked<Key>> row(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = {keys[i], i};
  std::uint64_t state = static_cast<std::uint64_t>(count);
  sort_front(row.data(), count, k, state);
  for (std::int64_t i = 0; i < k; ++i) best[i] = row[static_cast<std::size_t>(i)];
}

}  // namespace

const Truncated truncated_quick = {"quick", &quick<std::uint32_t>, &quick<std::uint64_t>};

}  // namespace vicinal::cpu
