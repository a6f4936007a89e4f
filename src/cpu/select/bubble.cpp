// Truncated bubble sort: k passes, each of which carries the smallest of the rest to the front. n k comparisons.
#include <utility>
#include <vector>

#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

template <class Key>
void bubble(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  std::vector<Ranked<Key>> row(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = {keys[i], i};
  for (std::int64_t pass = 0; pass < k; ++pass) {
    bool sorted = true;
    for (std::int64_t i = count - 1; i > pass; --i) {
      Ranked<Key>&left = row[static_cast<std::size_t>(i - 1)], &right = row[static_cast<std::size_t>(i)];
      if (!before(right, left)) continue;
      std::swap(left, right);
      sorted = false;
    }
    if (sorted) break;
  }
  for (std::int64_t i = 0; i < k; ++i) best[i] = row[static_cast<std::size_t>(i)];
}

}  // namespace

const Truncated truncated_bubble = {"bubble", &bubble<std::uint32_t>, &bubble<std::uint64_t>};

}  // namespace vicinal::cpu
