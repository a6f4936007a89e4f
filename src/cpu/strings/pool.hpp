// What is collected for one query, whatever the distance: the k nearest so far, or everything within the radius.
#pragma once
#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "backend/strings.hpp"
#include "core/nth.hpp"

namespace vicinal::cpu {

class StringPool {
 public:
  /// `entries` counts those of the whole search.
  StringPool(const StringSearchSpec& spec, std::int64_t query_row, std::atomic<std::int64_t>& entries)
      : spec_(spec), query_(query_row),
        entries_(entries), limit_{spec.radius ? *spec.radius : std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<std::int64_t>::max()} {}

  /// Entries beyond are of no use.
  double limit() const noexcept { return limit_.key; }
  /// Would this one be taken, were it eligible?
  bool wants(double key, std::int64_t row) const noexcept { return !before(limit_, {key, row + spec_.first_id}); }
  void take(double key, std::int64_t row) {
    const Entry entry{key, row + spec_.first_id};
    if (before(limit_, entry) || !spec_.filter.allows(query_, row)) return;
    if (spec_.radius) {
      if (!full_) found_.push_back(entry);
      if (++uncounted_ == at_once) count();
    } else {
      found_.push_back(entry);
      if (static_cast<std::int64_t>(found_.size()) >= 2 * spec_.k + 8) cut();
    }
  }
  /// The answer of this pool, sorted.
  std::vector<Entry>& finish() {
    spec_.radius ? count() : cut();
    std::sort(found_.begin(), found_.end(), [](const Entry& a, const Entry& b) { return before(a, b); });
    return found_;
  }
  static std::int64_t most_bytes(std::int64_t k) noexcept {
    return (4 * k + 16) * static_cast<std::int64_t>(sizeof(Entry));
  }

 private:
  static constexpr std::int64_t at_once = 256;  // entries between looks at what all threads have found
  void count() {
    full_ = entries_.fetch_add(uncounted_, std::memory_order_relaxed) + uncounted_ > spec_.most;
    uncounted_ = 0;
  }
  void cut() {
    const auto k = static_cast<std::size_t>(spec_.k);
    if (found_.size() < k) return;
    select_nth(found_.data(), found_.data() + k - 1, found_.data() + found_.size(), before_by_number);
    found_.resize(k);
    limit_ = found_[k - 1];
  }
  const StringSearchSpec& spec_;
  std::int64_t query_;
  std::atomic<std::int64_t>& entries_;
  Entry limit_;
  std::int64_t uncounted_ = 0;
  bool full_ = false;  // the result will be refused: what comes now is only counted
  std::vector<Entry> found_;
};

}  // namespace vicinal::cpu
