// See row_filter.hpp.
#include "core/row_filter.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/text.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

std::int64_t words(std::int64_t rows) noexcept { return (rows + 63) / 64; }

bool labelled(const Eligible& eligible) noexcept { return eligible.labels != Eligible::Labels::ignored; }

/// It tells whether ids are a mask that is not of bools: more than two of them, every one 0 or 1. Their number is not
/// held against that of the rows, so that each part of a corpus decides as the whole does.
bool looks_like_mask(std::span<const std::int64_t> ids) noexcept {
  return ids.size() > 2 && std::all_of(ids.begin(), ids.end(), [](std::int64_t id) { return id == 0 || id == 1; });
}

}  // namespace

void check_eligible(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t query_rows) {
  if (eligible.first < 0 || eligible.last < eligible.first)
    refuse(cat("eligible ids ", eligible.first, " to ", eligible.last,
               " are no range of ids, which begin at 0 or later and are not counted from the end"));
  if (eligible.ids) {
    for (const std::int64_t id : *eligible.ids)
      if (id < 0) refuse(cat("eligible id ", id, " is negative"));
    if (looks_like_mask(*eligible.ids))
      refuse(cat("the ", eligible.ids->size(),
                 " eligible ids are all 0 or 1: a mask has bools, and as ids they name rows 0 and 1 alone"));
  }
  if (eligible.bitmap && eligible.bitmap_rows >= 0 && eligible.bitmap_rows != corpus_rows)
    refuse(cat("the mask of eligible rows has ", eligible.bitmap_rows, " entries, corpus has ", corpus_rows, " rows"));
  if (eligible.bitmap && static_cast<std::int64_t>(eligible.bitmap->size()) < words(corpus_rows))
    refuse(cat("the bitmap of eligible rows has ", eligible.bitmap->size() * 64, " bits, corpus has ", corpus_rows,
               " rows"));
  const auto rows = static_cast<std::int64_t>(eligible.corpus_labels.size());
  const auto queries = static_cast<std::int64_t>(eligible.query_labels.size());
  if (!labelled(eligible)) {
    if (rows + queries > 0) refuse("labels are given and the rule is missing; it is same or other");
    return;
  }
  if (rows != corpus_rows)
    refuse(cat(rows, " labels for the ", corpus_rows, " rows of the corpus; give one label a row"));
  if (queries != query_rows) refuse(cat(queries, " labels for the ", query_rows, " queries; give one label a query"));
}

std::int64_t RowFilter::bytes(const Eligible& eligible, std::int64_t corpus_rows) noexcept {
  return (eligible.ids ? words(corpus_rows) * 8 : 0) + (labelled(eligible) ? corpus_rows * 8 : 0);
}

bool RowFilter::filters(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t first_id) noexcept {
  return eligible.first > first_id || eligible.last - first_id < corpus_rows - 1 || eligible.ids || eligible.bitmap ||
         labelled(eligible);
}

RowFilter::RowFilter(const Eligible& eligible, std::int64_t corpus_rows, std::int64_t first_id, bool without_self,
                     std::int64_t first_self)
    : without_self_(without_self), first_self_(first_self), labels_(eligible.labels) {
  begin_ = std::clamp<std::int64_t>(eligible.first - first_id, 0, corpus_rows);
  end_ =
      eligible.last - first_id >= corpus_rows ? corpus_rows : std::max<std::int64_t>(eligible.last - first_id + 1, 0);
  end_ = std::max(begin_, end_);
  if (eligible.bitmap) bits_ = eligible.bitmap->data();
  if (eligible.ids) {
    own_bits_ = Buffer<std::uint64_t>(words(corpus_rows));
    std::memset(own_bits_.data(), 0, static_cast<std::size_t>(own_bits_.bytes()));
    for (const std::int64_t id : *eligible.ids) {
      const std::int64_t row = id - first_id;
      if (row < 0 || row >= corpus_rows || !set(row)) continue;
      own_bits_[row >> 6] |= std::uint64_t{1} << (row & 63);
    }
    bits_ = own_bits_.data();
  }
  filtered_ = filters(eligible, corpus_rows, first_id);
  all_ = !filtered_ && !without_self_;
  allowed_ = end_ - begin_;
  if (bits_ != nullptr) {
    allowed_ = 0;
    for (std::int64_t row = begin_; row < end_; ++row) {
      if ((row & 63) == 0 && row + 64 <= end_) {
        allowed_ += std::popcount(bits_[row >> 6]);
        row += 63;
      } else {
        allowed_ += static_cast<std::int64_t>(set(row));
      }
    }
  }
  if (!labelled(eligible)) return;
  row_labels_ = eligible.corpus_labels.data();
  query_labels_ = eligible.query_labels.data();
  queries_ = static_cast<std::int64_t>(eligible.query_labels.size());
  sorted_labels_ = Buffer<std::int64_t>(allowed_);
  std::int64_t used = 0;
  // The bitmap is the caller's: bits that another thread sets after they were counted have no place here.
  for (std::int64_t row = begin_; row < end_ && used < allowed_; ++row)
    if (set(row)) sorted_labels_[used++] = row_labels_[row];
  allowed_ = used;
  std::sort(sorted_labels_.data(), sorted_labels_.data() + used);
}

bool RowFilter::any(std::int64_t first, std::int64_t count) const noexcept {
  const std::int64_t begin = std::max(first, begin_), end = std::min(first + count, end_);
  if (all_ || bits_ == nullptr) return all_ || begin < end;
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t next = std::min(end, (row / 64 + 1) * 64);
    const std::uint64_t from = bits_[row >> 6] >> (row & 63);
    if ((next - row == 64 ? from : from & ((std::uint64_t{1} << (next - row)) - 1)) != 0) return true;
    row = next;
  }
  return false;
}

std::int64_t RowFilter::count(std::int64_t query) const noexcept {
  std::int64_t rows = allowed_;
  if (labels_ != Eligible::Labels::ignored) {
    const auto [low, high] =
        std::equal_range(sorted_labels_.data(), sorted_labels_.data() + allowed_, query_labels_[query]);
    rows = labels_ == Eligible::Labels::same ? high - low : allowed_ - (high - low);
  }
  const std::int64_t self = first_self_ + query;
  if (!without_self_ || self < begin_ || self >= end_ || !set(self)) return rows;
  // By label a row is its own neighbour under "same" and never under "other".
  const bool itself = labels_ == Eligible::Labels::ignored ||
                      (row_labels_[self] == query_labels_[query]) == (labels_ == Eligible::Labels::same);
  return itself ? rows - 1 : rows;
}

}  // namespace vicinal
