// See matches.hpp.
#include "cpu/rerank/matches.hpp"

#include <algorithm>

namespace vicinal::cpu {
namespace {

constexpr std::int64_t first_chunk = 16, largest_chunk = 65536;  // entries

}  // namespace

bool Room::take(std::int64_t bytes) noexcept {
  if (left_.fetch_sub(bytes, std::memory_order_relaxed) >= bytes) return true;
  give_back(bytes);
  return false;
}

void Matches::start(double radius, Room& room, Place* place) noexcept {
  drop();
  radius_ = radius;
  room_ = &room;
  place_ = place;
  count_ = 0;
  lost_ = false;
}

void Matches::take(std::span<const Entry> entries) {
  if (place_ != nullptr) {
    const auto within = std::count_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key <= radius_; });
    std::int64_t at = place_->next.fetch_add(within, std::memory_order_relaxed);
    for (const Entry& entry : entries) {
      if (!(entry.key <= radius_)) continue;
      if (at >= place_->end) break;
      place_->out->ids[at] = entry.id;
      store_key(entry.key, place_->out->type, place_->descends, place_->out->distances, at++);
    }
    count_ += within;
    return;
  }
  for (const Entry& entry : entries) {
    if (!(entry.key <= radius_)) continue;
    ++count_;
    if (!lost_) keep(entry);
  }
}

void Matches::keep(const Entry& entry) {
  if (chunks_.empty() || used_ == chunks_.back().size()) {
    const std::int64_t size = chunks_.empty() ? first_chunk : std::min(largest_chunk, chunks_.back().size() * 2);
    if (!room_->take(size * static_cast<std::int64_t>(sizeof(Entry)))) {
      lost_ = true;
      return drop();
    }
    chunks_.emplace_back(size);
    used_ = 0;
  }
  chunks_.back()[used_++] = entry;
}

void Matches::drop() noexcept {
  if (room_ != nullptr)
    for (const Buffer<Entry>& chunk : chunks_) room_->give_back(chunk.bytes());
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
