// Truncated insertion sort: a sorted list of the k smallest so far. A value that is smaller than the last one moves
// into its place, and the last one leaves. n k steps at worst, few when large values come late.
#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

template <class Key>
void insertion(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  std::int64_t held = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (held == k && keys[i] >= best[k - 1].key) continue;  // an equal key further on comes later
    std::int64_t position = held < k ? held++ : k - 1;
    for (; position > 0 && keys[i] < best[position - 1].key; --position) best[position] = best[position - 1];
    best[position] = {keys[i], i};
  }
}

}  // namespace

const Truncated truncated_insertion = {"insertion", &insertion<std::uint32_t>, &insertion<std::uint64_t>};

}  // namespace vicinal::cpu
