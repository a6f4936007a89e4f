// Truncated merge sort: lists of one value are merged in pairs, and no list grows beyond k: what lies beyond is
// dropped, so that from length k on every round halves what is left. n log k steps.
#include <algorithm>
#include <vector>

#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

template <class Key>
void merge(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  std::vector<Ranked<Key>> row(static_cast<std::size_t>(count)), next(row.size());
  for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = {keys[i], i};
  // Lists lie one after another, each of `length` entries but the last, which may be shorter.
  std::int64_t length = 1, held = count;
  while (held > length) {
    std::int64_t out = 0;
    for (std::int64_t begin = 0; begin < held; begin += 2 * length) {
      std::int64_t left = begin, right = std::min(begin + length, held);
      const std::int64_t middle = right, end = std::min(begin + 2 * length, held),
                         stop = out + std::min(k, end - begin);
      while (out < stop) {
        const bool take_left = right == end || (left < middle && before(row[static_cast<std::size_t>(left)],
                                                                        row[static_cast<std::size_t>(right)]));
        next[static_cast<std::size_t>(out++)] = row[static_cast<std::size_t>(take_left ? left++ : right++)];
      }
    }
    row.swap(next);
    held = out;
    length = std::min(2 * length, k);
  }
  std::copy_n(row.begin(), k, best);
}

}  // namespace

const Truncated truncated_merge = {"merge", &merge<std::uint32_t>, &merge<std::uint64_t>};

}  // namespace vicinal::cpu
