// The matches of a call, written once and in place by the code that finds them.
#pragma once
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "backend/match.hpp"
#include "core/buffer.hpp"

namespace vicinal {

/// A MatchOutput has room for the matches of all pairs: address space for as many as there can be, of which what is
/// written takes memory.
class MatchOutput {
 public:
  MatchOutput(const MatchSpec& spec, DistanceType type);
  /// As a MatchAnswer. Throws OutOfMemory.
  MatchPlaces take(std::span<const std::int64_t> pairs, std::span<const std::int64_t> counts);
  /// Returns all matches, those of a pair after those of the pair before: as they lie, where they were taken so, else
  /// put in order by `threads` threads.
  Matches finish(int threads);

 private:
  /// Arrays for up to `room` matches, of which `used` are taken.
  struct Segment {
    Segment(std::int64_t room, DistanceType type);
    bool refused() const noexcept;
    MatchPlaces places() const;

    ReservedBytes rows, distances, ratios;
    DistanceType type;
    std::int64_t room, used = 0;
  };
  struct Taken {
    MatchPlaces places;
    std::int64_t count = 0;
  };

  Segment& segment_with(std::int64_t count);
  bool in_order() const;
  void put_in_order(std::span<const std::int64_t> offsets, int threads);

  DistanceType type_;
  std::int64_t most_ = 0;  // matches that there can be
  std::mutex taking_;
  std::list<Segment> segments_;
  std::vector<Taken> taken_;  // [pair]
};

}  // namespace vicinal
