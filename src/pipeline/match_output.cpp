// See match_output.hpp.
#include "pipeline/match_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "core/metric.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"

namespace vicinal {
namespace {

std::size_t bytes_of(std::int64_t count, std::size_t size) { return static_cast<std::size_t>(count) * size; }

}  // namespace

void MatchPlaces::put(std::int64_t at, const FoundMatch& match) const {
  rows[at] = {match.a, match.b};
  ratios[at] = match.ratio;
  switch (type) {
    case DistanceType::f64: static_cast<double*>(distances)[at] = match.distance; return;
    case DistanceType::u32:
      static_cast<std::uint32_t*>(distances)[at] = static_cast<std::uint32_t>(match.distance);
      return;
    case DistanceType::automatic:
    case DistanceType::f32: break;
  }
  const auto value = static_cast<float>(match.distance);
  if (!std::isfinite(value))
    fail(ErrorCode::range_error, cat("the distance ", match.distance, " of rows ", match.a, " and ", match.b,
                                     " is beyond float32; convert one image to float64"));
  static_cast<float*>(distances)[at] = value;
}

MatchPlaces MatchPlaces::from(std::int64_t at) const {
  return {rows + at, static_cast<std::byte*>(distances) + bytes_of(at, distance_size(type)), ratios + at, type};
}

void give_matches(const MatchAnswer& answer, std::int64_t pair, std::span<const FoundMatch> matches) {
  const std::int64_t count = std::ssize(matches);
  const MatchPlaces places = answer({&pair, 1}, {&count, 1});
  for (std::int64_t i = 0; i < count; ++i) places.put(i, matches[static_cast<std::size_t>(i)]);
}

MatchOutput::Segment::Segment(std::int64_t room, DistanceType type)
    : rows(bytes_of(room, sizeof(Matches::Rows))), distances(bytes_of(room, distance_size(type))),
      ratios(bytes_of(room, sizeof(double))), type(type), room(room) {}

bool MatchOutput::Segment::refused() const noexcept {
  return room > 0 && (rows.at() == nullptr || distances.at() == nullptr || ratios.at() == nullptr);
}

MatchPlaces MatchOutput::Segment::places() const {
  return {static_cast<Matches::Rows*>(rows.at()), distances.at(), static_cast<double*>(ratios.at()), type};
}

MatchOutput::MatchOutput(const MatchSpec& spec, DistanceType type) : type_(type), taken_(spec.pairs.size()) {
  for (const ImagePair& pair : spec.pairs) {
    const std::int64_t a = spec.images[static_cast<std::size_t>(pair[0])].rows,
                       b = spec.images[static_cast<std::size_t>(pair[1])].rows;
    most_ += spec.mutual == Mutual::one_way ? a : std::min(a, b);
  }
}

MatchOutput::Segment& MatchOutput::segment_with(std::int64_t count) {
  if (!segments_.empty() && segments_.back().room - segments_.back().used >= count) return segments_.back();
  // Where the system has no address space for all there can be, as much of it as there is.
  for (std::int64_t room = std::max(most_, count);; room = std::max(room / 2, count)) {
    segments_.emplace_back(room, type_);
    if (!segments_.back().refused()) return segments_.back();
    segments_.pop_back();
    if (room == count) throw std::bad_alloc();
  }
}

MatchPlaces MatchOutput::take(std::span<const std::int64_t> pairs, std::span<const std::int64_t> counts) {
  std::int64_t count = 0;
  for (const std::int64_t of_pair : counts) count += of_pair;
  const std::lock_guard lock(taking_);
  Segment& segment = segment_with(count);
  const MatchPlaces places = segment.places().from(std::exchange(segment.used, segment.used + count));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    taken_[static_cast<std::size_t>(pairs[i])] = {places.from(at), counts[i]};
    at += counts[i];
  }
  return places;
}

bool MatchOutput::in_order() const {
  if (segments_.size() > 1) return false;
  const Matches::Rows* next = segments_.empty() ? nullptr : segments_.front().places().rows;
  return std::all_of(taken_.begin(), taken_.end(), [&](const Taken& taken) {
    return taken.count == 0 || taken.places.rows == std::exchange(next, next + taken.count);
  });
}

void MatchOutput::put_in_order(std::span<const std::int64_t> offsets, int threads) {
  std::list<Segment> parts = std::exchange(segments_, {});
  most_ = offsets.back();
  Segment& whole = segment_with(most_);
  whole.used = most_;
  ThreadPool thread_pool(threads, nullptr, {}, 0);
  thread_pool.for_each(std::ssize(taken_), [&](std::int64_t pair, int) {
    const auto& [from, count] = taken_[static_cast<std::size_t>(pair)];
    if (count == 0) return;
    const MatchPlaces to = whole.places().from(offsets[static_cast<std::size_t>(pair)]);
    std::memcpy(to.rows, from.rows, bytes_of(count, sizeof *to.rows));
    std::memcpy(to.distances, from.distances, bytes_of(count, distance_size(type_)));
    std::memcpy(to.ratios, from.ratios, bytes_of(count, sizeof *to.ratios));
  });
}

Matches MatchOutput::finish(int threads) {
  Matches all;
  all.offsets.reserve(taken_.size() + 1);
  for (const Taken& taken : taken_) all.offsets.push_back(all.offsets.back() + taken.count);
  const std::int64_t count = all.offsets.back();
  if (!in_order()) put_in_order(all.offsets, threads);
  if (segments_.empty()) segments_.emplace_back(0, type_);
  Segment& segment = segments_.front();
  segment.rows.trim(bytes_of(count, sizeof(Matches::Rows)));
  segment.distances.trim(bytes_of(count, distance_size(type_)));
  segment.ratios.trim(bytes_of(count, sizeof(double)));
  const MatchPlaces places = segment.places();
  const auto keep = [](ReservedBytes& bytes) { return std::make_shared<const ReservedBytes>(std::move(bytes)); };
  const auto size = static_cast<std::size_t>(count);
  all.rows = {keep(segment.rows), places.rows, size};
  all.distances = {keep(segment.distances), places.distances, size, type_};
  all.ratios = {keep(segment.ratios), places.ratios, size};
  return all;
}

}  // namespace vicinal
