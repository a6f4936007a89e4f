// What an index knows of objects: how many there are, and canonical distances from a query to some of them. The seam of
// evaluators on the host.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/ranks.hpp"
#include "core/parallel.hpp"
#include "core/true_distance.hpp"
#include "vicinal/options.hpp"

namespace vicinal {

/// Evaluates distances from one query at a time. It has memory of its own, so each thread takes one.
struct DistanceEvaluator {
  virtual ~DistanceEvaluator() = default;
  virtual void start(std::int64_t query) = 0;
  /// Canonical values in binary64, folded (smaller is nearer). Any number of objects, any order.
  virtual void measure(const std::uint32_t* objects, std::int64_t count, double* values) = 0;
};

/// Queries that were read and checked. Refers to the objects.
struct Queries {
  virtual ~Queries() = default;
  virtual std::int64_t count() const noexcept = 0;
  virtual std::unique_ptr<DistanceEvaluator> evaluator() const = 0;
  /// What a device needs to measure them; nothing where it cannot.
  virtual std::optional<MeasuredRows> measured_rows() const { return {}; }
};

/// A set of objects under its metric, read and checked.
struct Objects {
  virtual ~Objects() = default;
  virtual std::int64_t count() const noexcept = 0;
  /// Some of them as queries.
  virtual std::unique_ptr<Queries> some(std::vector<std::int64_t> ids) const = 0;
  virtual std::optional<MeasuredRows> measured_rows() const { return {}; }
  /// What values say of distances that obey the triangle inequality.
  virtual const TrueDistance& true_distance() const noexcept = 0;
  /// Memory held beyond what was borrowed.
  virtual std::int64_t bytes() const noexcept = 0;
  /// Bytes that one evaluator takes, for queries no longer than the objects.
  virtual std::int64_t evaluator_bytes() const noexcept = 0;
  /// Seconds a query of the k nearest by the library's exact search, asked for the objects `ids`; 0 where it has none.
  virtual double exact_seconds(const std::vector<std::int64_t>& ids, std::int64_t k, const Execution& run,
                               const Budget& memory) const = 0;
};

inline constexpr std::int64_t evaluator_block = 256;  // objects that are measured at a time

}  // namespace vicinal
