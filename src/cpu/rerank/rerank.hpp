// RERANK: canonical fp64 distance of chosen rows for one query, and the pool that keeps the best k in the total order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/buffer.hpp"
#include "core/key.hpp"
#include "core/nth.hpp"
#include "cpu/prepare/prepare.hpp"

namespace vicinal::cpu {

inline constexpr std::int64_t rank_block = 256;   // rows ranked at a time
inline constexpr std::int64_t gather_block = 32;  // the same when rows must be gathered first

inline constexpr std::int64_t most_sorted = 64;  // entries of a pool that may be kept in order

/// A Pool keeps the best entries seen so far. Its memory, for `capacity`
/// > k entries, belongs to the session; it is trimmed when full.
struct Pool {
  Entry* entries = nullptr;
  std::int64_t count = 0, k = 0, capacity = 0;
  Entry worst{infinite, INT64_MAX};  // an entry that is not before this one cannot be among the best k

  void offer(const Entry& entry) noexcept {
    if (!before(entry, worst)) return;
    entries[count++] = entry;
    if (count == capacity) trim();
  }
  /// The same for few, which are kept in order.
  void insert(const Entry& entry) noexcept {
    if (k == 0 || !before(entry, worst)) return;
    std::int64_t at = count < k ? count++ : k - 1;
    for (; at > 0 && before(entry, entries[at - 1]); --at) entries[at] = entries[at - 1];
    entries[at] = entry;
    if (count == k) worst = entries[k - 1];
  }
  /// Keeps the best k. Afterwards `worst` is the k-th, if there are k.
  void trim() noexcept {
    if (count < k) return;
    if (k == 0) return void(count = 0);  // none was eligible when rows were counted, and by now some are
    bring_nearest(k);
    count = k;
    worst = entries[k - 1];
  }
  /// Brings the `nearest` best to the front, the last of them last.
  void bring_nearest(std::int64_t nearest) noexcept {
    select_nth(entries, entries + (nearest - 1), entries + count, before_by_number);
  }
  void sort() noexcept {
    std::sort(entries, entries + count, [](const Entry& a, const Entry& b) { return before(a, b); });
  }
  bool full() const noexcept { return count >= k; }
  /// For searches whose threshold is the k-th: few are kept in order, so that `worst` is up to date after each.
  void take(const Entry& entry) noexcept { k <= most_sorted ? insert(entry) : offer(entry); }
  /// Called now and then between takes. The first k say much; after that a few more at a time.
  void tighten() noexcept {
    if (k > most_sorted && full() && (worst.key == infinite || count > k + k / 8)) trim();
  }
};

/// Entries of a pool of k, which is trimmed when so many are there.
inline std::int64_t pool_capacity(std::int64_t k) noexcept { return k + std::clamp<std::int64_t>(k / 2, 32, 4096); }

/// RankScratch holds what one thread ranks with.
struct RankScratch {
  RankScratch(std::int64_t dims, DType corpus, bool plain);
  static std::int64_t bytes(std::int64_t dims, DType corpus, bool plain) noexcept;
  Buffer<double> query, values, shifts;
  Buffer<Entry> entries;
  Buffer<std::uint32_t> bits;
  Buffer<std::byte> rows;  // gathered rows, and the raw query for hamming
};

/// A Ranker ranks rows of a chunk for one query at a time.
class Ranker {
 public:
  Ranker(const Kernels& kernels, const SearchSpec& spec, const Points& queries, RankScratch& scratch);

  /// Loads row `row` of the queries.
  void start(std::int64_t row, const QueryFacts& facts);
  /// Ranks at most rank_block rows of the chunk: index[i], or first + i when index is null. Valid until the next call.
  std::span<const Entry> rank(const PackedRows& chunk, const std::uint32_t* index, std::int64_t first,
                              std::int64_t count);
  /// True where the canonical value rounds to nothing though it is not zero. For metrics without norms only.
  bool underflows(std::int64_t corpus_row);

 private:
  void sums(const Points& rows, const std::uint32_t* index, std::int64_t count, const double* shifts, double* out);
  const Kernels& kernels_;
  const SearchSpec& spec_;
  const Points& queries_;
  RankScratch& scratch_;
  const CanonicalFn* sums_;
  bool plain_;
  double self_ = 0;
};

}  // namespace vicinal::cpu
