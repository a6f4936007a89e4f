// Truncated radix sort: values are dealt by their most significant byte, and only the bytes up to that of the k-th
// smallest are dealt further. Dealing keeps the order of positions, so ties need no care.
#include <algorithm>
#include <array>
#include <vector>

#include "cpu/select/truncated.hpp"

namespace vicinal::cpu {
namespace {

constexpr std::int64_t short_bucket = 32;

/// The k smallest of row[0..count), which stands in the order of
/// positions, to best in order; bytes above `shift` are equal.
template <class Key>
void deal(std::vector<Ranked<Key>> row, std::int64_t k, int shift, Ranked<Key>* best) {
  const auto count = static_cast<std::int64_t>(row.size());
  if (shift < 0 || count <= short_bucket) {
    std::partial_sort(row.begin(), row.begin() + k, row.end(), before<Key>);
    std::copy_n(row.begin(), k, best);
    return;
  }
  const auto digit = [shift](Key key) { return static_cast<std::size_t>(key >> shift & 255); };
  std::array<std::int64_t, 256> sizes = {};
  for (const Ranked<Key>& one : row) ++sizes[digit(one.key)];
  std::size_t last = 0;  // the digit of the k-th smallest
  for (std::int64_t seen = sizes[0]; seen < k; seen += sizes[last]) ++last;
  std::vector<std::vector<Ranked<Key>>> piles(last + 1);
  for (std::size_t pile = 0; pile <= last; ++pile) piles[pile].reserve(static_cast<std::size_t>(sizes[pile]));
  for (const Ranked<Key>& one : row)
    if (digit(one.key) <= last) piles[digit(one.key)].push_back(one);
  row = {};
  for (std::vector<Ranked<Key>>& pile : piles) {
    const std::int64_t wanted = std::min(k, static_cast<std::int64_t>(pile.size()));
    if (wanted > 0) deal(std::move(pile), wanted, shift - 8, best);
    best += wanted, k -= wanted;
  }
}

template <class Key>
void radix(const Key* keys, std::int64_t count, std::int64_t k, Ranked<Key>* best) {
  std::vector<Ranked<Key>> row(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) row[static_cast<std::size_t>(i)] = {keys[i], i};
  deal(std::move(row), k, static_cast<int>(sizeof(Key) * 8 - 8), best);
}

}  // namespace

const Truncated truncated_radix = {"radix", &radix<std::uint32_t>, &radix<std::uint64_t>};

}  // namespace vicinal::cpu
