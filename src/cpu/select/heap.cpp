// Truncated heap sort: a max-heap of the k smallest so far, whose root a smaller value replaces; at the end the heap is
// sorted in place. n log k steps.
#include <utility>

#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

/// Moves heap[at] down until neither child is larger.
template <class Key>
void sift_down(Ranked<Key>* heap, std::int64_t size, std::int64_t at) {
  const Ranked<Key> moving = heap[at];
  for (std::int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && before(heap[child], heap[child + 1])) ++child;
    if (!before(moving, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

template <class Key>
void heap(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  for (std::int64_t i = 0; i < k; ++i) best[i] = {keys[i], i};
  for (std::int64_t i = k / 2; i-- > 0;) sift_down(best, k, i);
  for (std::int64_t i = k; i < count; ++i) {
    if (keys[i] >= best[0].key) continue;  // an equal key further on comes later
    best[0] = {keys[i], i};
    sift_down(best, k, 0);
  }
  for (std::int64_t size = k; size-- > 1;) {
    std::swap(best[0], best[size]);
    sift_down(best, size, 0);
  }
}

}  // namespace

const Truncated truncated_heap = {"heap", &heap<std::uint32_t>, &heap<std::uint64_t>};

}  // namespace vicinal::cpu
