// See matches.hpp.
#include "cpu/rerank/matches.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <iterator>
#include <limits>

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
  lost_ = false;
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
    if (!lost_) keep(entry);
  }
}

void Matches::keep(const Entry& entry) {
  if (chunks_.empty() || used_ == chunks_.back().size()) {
    const std::int64_t size = chunks_.empty() ? first_chunk : std::min(largest_chunk, chunks_.back().size() * 2);
    if (!budget_->take(size * static_cast<std::int64_t>(sizeof(Entry)))) {
      lost_ = true;
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

namespace {

/// Two arrays sorted as one: an iterator over pairs of references, so that a row of any length needs no copy.
template <class T>
struct Pairs {
  struct Value {
    T distance;
    std::int64_t id;
  };
  struct Reference {
    T* distance;
    std::int64_t* id;
    Reference(T* d, std::int64_t* i) : distance(d), id(i) {}
    Reference(const Reference&) = default;
    Reference& operator=(const Reference& other) { return *this = Value(other); }
    Reference& operator=(const Value& value) {
      *distance = value.distance;
      *id = value.id;
      return *this;
    }
    operator Value() const { return {*distance, *id}; }  // NOLINT(google-explicit-constructor): what std::sort copies
    friend void swap(Reference a, Reference b) {
      std::swap(*a.distance, *b.distance);
      std::swap(*a.id, *b.id);
    }
  };
  struct Iterator {
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Reference;
    T* distance = nullptr;
    std::int64_t* id = nullptr;
    Reference operator*() const { return {distance, id}; }
    Reference operator[](difference_type n) const { return {distance + n, id + n}; }
    Iterator& operator+=(difference_type n) {
      distance += n;
      id += n;
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    Iterator operator--(int) {
      Iterator old = *this;
      --*this;
      return old;
    }
    friend Iterator operator+(Iterator a, difference_type n) { return a += n; }
    friend Iterator operator+(difference_type n, Iterator a) { return a += n; }
    friend Iterator operator-(Iterator a, difference_type n) { return a -= n; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) { return a.id - b.id; }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.id == b.id; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.id <=> b.id; }
  };
};

template <class T>
void sort_pairs(T* distances, std::int64_t* ids, std::int64_t count, bool descends) {
  const typename Pairs<T>::Iterator begin{distances, ids};
  using Value = typename Pairs<T>::Value;
  if (descends) {
    std::sort(begin, begin + count, [](const Value& a, const Value& b) {
      return a.distance > b.distance || (a.distance == b.distance && a.id < b.id);
    });
  } else {
    std::sort(begin, begin + count, [](const Value& a, const Value& b) {
      return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
    });
  }
}

}  // namespace

void sort_matches(const RangeView& out, bool descends, std::int64_t at, std::int64_t count) {
  std::int64_t* ids = out.ids + at;
  if (out.type == DistanceType::f64) return sort_pairs(static_cast<double*>(out.distances) + at, ids, count, descends);
  if (out.type == DistanceType::u32)
    return sort_pairs(static_cast<std::uint32_t*>(out.distances) + at, ids, count, descends);
  sort_pairs(static_cast<float*>(out.distances) + at, ids, count, descends);
}

double radius_key(double radius, DistanceType type, bool descends) noexcept {
  constexpr double none = std::numeric_limits<double>::infinity();
  constexpr auto most = static_cast<double>(std::numeric_limits<float>::max());
  const double folded = descends ? -radius : std::max(radius, -1.0);  // no distance is negative
  if (type != DistanceType::f32 || std::isinf(folded)) return folded;
  if (folded >= most) return most;
  if (folded < -most) return -none;  // only what overflowed is beyond
  const auto nearest = static_cast<float>(folded);
  return static_cast<double>(
      static_cast<double>(nearest) <= folded ? nearest : std::nextafterf(nearest, -std::numeric_limits<float>::max()));
}

}  // namespace vicinal::cpu
