// What a device is asked by a permutation index: its side of the seam.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/search.hpp"
#include "core/key.hpp"
#include "vicinal/matrix.hpp"
#include "vicinal/metric.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// Orders of permutants as bytes, the rank of each, `stride` bytes from one object to the next.
struct RankRows {
  const std::uint8_t* ranks = nullptr;
  std::int64_t stride = 0, count = 0, permutants = 0;
};

/// Rows whose distances a device may measure itself, with what cosine and correlation need of each.
struct MeasuredRows {
  Points rows;
  const double *self = nullptr, *mean = nullptr;
  Metric metric = Metric::euclidean;
};

struct RankSearchSpec {
  RankRows queries;                       // ranks null: the device measures the permutants itself
  std::int64_t candidates = 0;            // 1 to the objects
  std::optional<MeasuredRows> rows = {};  // queries whose k nearest candidates are wanted; else the candidates are
  DistanceType type = DistanceType::f32;
  std::int64_t k = 0;
};

/// It takes the candidates of queries [first, first + count), in no order. Called from the calling thread, as is the
/// next.
using CandidatesAnswer = std::function<void(std::int64_t first, std::int64_t count, const std::uint32_t* candidates)>;
/// It takes the k nearest of them to one query, in order, with folded keys. A key of zero has lost its sign.
using NearestAnswer = std::function<void(std::int64_t query, std::span<const Entry> entries)>;

/// Footrules of a permutation index with queries, the cut, and where rows are given and fit, the distances of
/// candidates.
struct RankBackend {
  virtual ~RankBackend() = default;
  /// It takes ranks, and rows, to the device for many searches.
  virtual std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks,
                                                           const std::vector<std::uint32_t>& permutants,
                                                           const MeasuredRows* rows) const = 0;
  /// It tells whether it can measure the k nearest of the rows that it keeps.
  virtual bool measures(const PreparedCorpus& kept, std::int64_t k) const = 0;
  /// It searches. False: a distance to a permutant is not finite, which the host has words for; not where ranks are
  /// given.
  virtual bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                            const NearestAnswer& nearest, ThreadPool& thread_pool) const = 0;
};

}  // namespace vicinal
