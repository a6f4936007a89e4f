// See matches.hpp.
#include "cpu/rerank/matches.hpp"

#include <algorithm>

namespace vicinal::cpu {
namespace {

constexpr std::int64_t first_chunk = 16, largest_chunk = 65536;  // entries

}  // namespace

bool MatchBudget::take(std::int64_t bytes) noexcept {
  if (left_.fetch_sub(bytes, std::memory_order_relaxed) >= bytes) return true;
  give_back(bytes);
  return false;
}

void Matches::start(double radius, MatchBudget& budget, OutputCursor* cursor) noexcept {
  drop();
  radius_ = radius;
  budget_ = &budget;
  cursor_ = cursor;
  count_ = 0;
  overflowed_ = false;
}

void Matches::take(std::span<const Entry> entries) {
  if (cursor_ != nullptr) {
    const auto within = std::count_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key <= radius_; });
    std::int64_t at = cursor_->next.fetch_add(within, std::memory_order_relaxed);
    for (const Entry& entry : entries) {
      if (!(entry.key <= radius_)) continue;
      if (at >= cursor_->end) break;
      cursor_->out->ids[at] = entry.id;
      store_key(entry.key, cursor_->out->type, cursor_->descends, cursor_->out->distances, at++);
    }
    count_ += within;
    return;
  }
  for (const Entry& entry : entries) {
    if (!(entry.key <= radius_)) continue;
    ++count_;
    if (!overflowed_) keep(entry);
  }
}

void Matches::keep(const Entry& entry) {
  if (chunks_.empty() || used_ == chunks_.back().size()) {
    const std::int64_t size = chunks_.empty() ? first_chunk : std::min(largest_chunk, chunks_.back().size() * 2);
    if (!budget_->take(size * static_cast<std::int64_t>(sizeof(Entry)))) {
      overflowed_ = true;
      return drop();
    }
    chunks_.emplace_back(size);
    used_ = 0;
  }
  chunks_.back()[used_++] = entry;
}

void Matches::drop() noexcept {
  if (budget_ != nullptr)
    for (const Buffer<Entry>& chunk : chunks_) budget_->give_back(chunk.bytes());
  chunks_.clear();
  chunks_.shrink_to_fit();
  used_ = 0;
}

void Matches::copy_to(const RangeView& out, bool descends, std::int64_t at) const noexcept {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const std::int64_t used = i + 1 == chunks_.size() ? used_ : chunks_[i].size();
    for (std::int64_t j = 0; j < used; ++j, ++at) {
      out.ids[at] = chunks_[i][j].id;
      store_key(chunks_[i][j].key, out.type, descends, out.distances, at);
    }
  }
}

}  // namespace vicinal::cpu
