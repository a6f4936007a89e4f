// Which rows may answer which query (Eligible, and the row itself in a graph), in the form that stages ask for it.
#pragma once
#include <cstdint>

#include "core/buffer.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// Throws InvalidArgument for conditions that do not fit the shapes.
void check_eligible(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t query_rows);

class RowFilter {
 public:
  RowFilter() = default;
  /// Arguments were checked. without_self: query i is row first_self + i, and may not answer itself.
  RowFilter(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t first_id, bool without_self,
            std::int64_t first_self = 0);
  /// Whether some rows may not answer some query, beside the query's own.
  static bool filters(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t first_id) noexcept;
  /// Bytes that the constructor takes.
  static std::int64_t bytes(const Eligible& eligible, std::int64_t corpus_rows) noexcept;

  /// Nothing is filtered.
  bool all() const noexcept { return all_; }
  /// Nothing but the row itself, in a graph.
  bool only_self() const noexcept { return without_self_ && !filtered_; }
  bool allows(std::int64_t query, std::int64_t row) const noexcept {
    if (all_) return true;
    if (row < begin_ || row >= end_) return false;
    if (!set(row)) return false;
    if (labels_ != Eligible::Labels::ignored &&
        (row_labels_[row] == query_labels_[query]) != (labels_ == Eligible::Labels::same))
      return false;
    return !without_self_ || row != first_self_ + query;
  }
  /// False when no row of [first, first + count) may answer any query.
  bool any(std::int64_t first, std::int64_t count) const noexcept;
  /// Rows that may answer this query.
  std::int64_t count(std::int64_t query) const noexcept;
  /// count() is the same for every query.
  bool uniform() const noexcept { return labels_ == Eligible::Labels::ignored && !(without_self_ && filtered_); }

  /// The same as plain addresses, for kernels. Rows of [begin, end) whose bits are set; labels null: ignored.
  struct View {
    std::int64_t begin, end;
    const std::uint64_t* bits;
    bool without_self, same_label;
    std::int64_t first_self;  // the row that query 0 is
    const std::int64_t *row_labels, *query_labels;
    std::int64_t queries;  // that have labels
  };
  View view() const noexcept {
    return {begin_,
            end_,
            bits_,
            without_self_,
            labels_ == Eligible::Labels::same,
            first_self_,
            labels_ == Eligible::Labels::ignored ? nullptr : row_labels_,
            query_labels_,
            queries_};
  }

 private:
  /// The row's bit; without a bitmap every row has one.
  bool set(std::int64_t row) const noexcept { return bits_ == nullptr || ((bits_[row >> 6] >> (row & 63)) & 1) != 0; }
  bool all_ = true, without_self_ = false, filtered_ = false;
  std::int64_t begin_ = 0, end_ = INT64_MAX, allowed_ = 0, first_self_ = 0;
  const std::uint64_t* bits_ = nullptr;
  Eligible::Labels labels_ = Eligible::Labels::ignored;
  const std::int64_t* row_labels_ = nullptr;
  const std::int64_t* query_labels_ = nullptr;
  std::int64_t queries_ = 0;
  Buffer<std::uint64_t> own_bits_;
  Buffer<std::int64_t> sorted_labels_;  // of the allowed rows
};

}  // namespace vicinal
