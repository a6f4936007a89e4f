// What a range search has found of one query in one split: entries in chunks that double, taken from a budget that all
// queries of the batch share. When the budget is used up a query gives its chunks back and only counts; it is searched
// again once its position in the result is known, and then writes straight there.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/search.hpp"
#include "core/buffer.hpp"
#include "core/key.hpp"

namespace vicinal::cpu {

/// A MatchBudget counts the bytes that matches may still take.
class MatchBudget {
 public:
  void reset(std::int64_t bytes) noexcept { left_.store(bytes, std::memory_order_relaxed); }
  bool take(std::int64_t bytes) noexcept;
  void give_back(std::int64_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> left_{0};
};

/// `next` is the next free entry of one query's part of the result; the splits of the query share it.
struct OutputCursor {
  const RangeView* out = nullptr;
  bool descends = false;
  std::int64_t end = 0;               // entries from here on are of the next query
  std::atomic<std::int64_t> next{0};  // beyond `end`: rows changed after they were counted
};

/// Matches collects the entries within the radius.
class Matches {
 public:
  /// radius: folded key of the farthest match. cursor: where matches
  /// are written; null while that is not known, and they are kept.
  void start(double radius, MatchBudget& budget, OutputCursor* cursor) noexcept;
  void take(std::span<const Entry> entries);
  std::int64_t count() const noexcept { return count_; }
  /// True where matches were counted and not kept, for want of memory.
  bool overflowed() const noexcept { return overflowed_; }
  /// Writes what is kept to entries [at, at + count()) of out.
  void copy_to(const RangeView& out, bool descends, std::int64_t at) const noexcept;

 private:
  void keep(const Entry& entry);
  void drop() noexcept;
  double radius_ = 0;
  MatchBudget* budget_ = nullptr;
  OutputCursor* cursor_ = nullptr;
  std::int64_t count_ = 0, used_ = 0;  // used_: entries of the last chunk
  bool overflowed_ = false;
  std::vector<Buffer<Entry>> chunks_;
};

}  // namespace vicinal::cpu
