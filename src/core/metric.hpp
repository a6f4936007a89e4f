// What the library needs to know of a metric beyond the public table: the other columns of metric.def.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/both.hpp"
#include "core/sums.hpp"
#include "vicinal/metric.hpp"

namespace vicinal {

/// What the two sides of a distance are. indexed_rows: rows of numbers, by a permutation index alone.
enum class Compares : unsigned char { rows, strings, rows_or_strings, indexed_rows };
/// How a value is made of the sum (core/canonical.hpp).
enum class Finish : unsigned char { itself, root, cosine };
/// The rows whose sum a low-precision filter estimates: as they are, or divided by their norms, of which it takes
/// squares of differences whatever the metric's own sum is (core/bound.hpp). none: there is no filter.
enum class FilterRows : unsigned char { plain, unit, none };
enum class Direction : unsigned char { ascending, descending };
enum class Result : unsigned char { real, count };
/// The function of a value that obeys the triangle inequality: the value itself, its root (the value is a square of a
/// distance), the root of its double (the chord between unit vectors), or none.
enum class Triangle : unsigned char { distance, square, chord, none };

struct MetricRow {
  Compares compares;
  Sum sum;
  Finish finish;
  FilterRows filter;
  Direction direction;
  Result result;
  Triangle triangle;
};

/// The row of metric.def. A metric without a row does not compile (-Werror=switch).
VICINAL_HOST_DEVICE constexpr MetricRow row_of(Metric metric) noexcept {
  switch (metric) {
#define METRIC(name, aliases, compares, sum, finish, filter, direction, result, triangle, formula) \
  case Metric::name:                                                                               \
    return {Compares::compares,   Sum::sum,       Finish::finish,    FilterRows::filter,           \
            Direction::direction, Result::result, Triangle::triangle};
#include "core/metric.def"
#undef METRIC
  }
  return {};
}

/// The names of the metrics for which the fact holds: &MetricInfo::vectors, &MetricInfo::strings.
std::vector<std::string> metric_names(bool MetricInfo::*fact);

/// The sum that the metric is made of, and the one that a low-precision filter estimates.
VICINAL_HOST_DEVICE constexpr Sum sum_of(Metric metric) noexcept { return row_of(metric).sum; }
VICINAL_HOST_DEVICE constexpr Sum filter_sum_of(Metric metric) noexcept {
  const MetricRow row = row_of(metric);
  return row.filter == FilterRows::none ? Sum::none : row.filter == FilterRows::unit ? Sum::squares : row.sum;
}
/// It tells whether core/bound.hpp proves what a filter of the metric excludes. Its theta_of_key takes from `triangle`
/// how the value follows from the estimated sum, its key_absolute knows the root of a sum by euclidean alone: another
/// row needs its case there before its line here.
constexpr bool has_proved_filter(Metric metric) noexcept {
  const MetricRow row = row_of(metric);
  const auto is = [&](Finish finish, Triangle triangle, Direction direction = Direction::ascending) {
    return row.finish == finish && row.triangle == triangle && row.direction == direction;
  };
  if (row.filter == FilterRows::unit) return row.sum == Sum::products && is(Finish::cosine, Triangle::chord);
  switch (bounded(row.sum)) {
    case BoundedSum::squares:
      return metric == Metric::euclidean ? is(Finish::root, Triangle::distance) : is(Finish::itself, Triangle::square);
    case BoundedSum::products: return is(Finish::itself, Triangle::none, Direction::descending);
    case BoundedSum::magnitudes:
    case BoundedSum::largest: return is(Finish::itself, Triangle::distance);
    case BoundedSum::none: break;
  }
  return false;
}
#define METRIC(name, ...)                                                                           \
  static_assert(row_of(Metric::name).filter == FilterRows::none || has_proved_filter(Metric::name), \
                "core/bound.hpp proves no filter of this metric: none in metric.def");
#include "core/metric.def"
#undef METRIC

/// A bit for each metric for which the fact holds: one shift where a kernel asks, and no table.
using MetricSet = std::uint32_t;
template <class Fact>
constexpr MetricSet metrics_where(const Fact& holds) noexcept {
  MetricSet set = 0;
#define METRIC(name, ...)                                                        \
  static_assert(static_cast<int>(Metric::name) < 32, "a MetricSet has 32 bits"); \
  if (holds(row_of(Metric::name))) set |= MetricSet{1} << static_cast<int>(Metric::name);
#include "core/metric.def"
#undef METRIC
  return set;
}
VICINAL_HOST_DEVICE constexpr bool holds_for(MetricSet set, Metric metric) noexcept {
  return (set >> static_cast<int>(metric) & 1) != 0;
}

inline constexpr MetricSet metrics_of_counts =
    metrics_where([](const MetricRow& row) { return row.result == Result::count; });
inline constexpr MetricSet metrics_of_roots =
    metrics_where([](const MetricRow& row) { return row.finish == Finish::root; });
inline constexpr MetricSet metrics_with_norms =
    metrics_where([](const MetricRow& row) { return row.finish == Finish::cosine; });
inline constexpr MetricSet metrics_descending =
    metrics_where([](const MetricRow& row) { return row.direction == Direction::descending; });

/// Distances are counts, returned as u32.
VICINAL_HOST_DEVICE constexpr bool counts(Metric metric) noexcept { return holds_for(metrics_of_counts, metric); }

/// Rows are divided by their norm, so a zero (or constant) row has no distance.
VICINAL_HOST_DEVICE constexpr bool needs_norms(Metric metric) noexcept { return holds_for(metrics_with_norms, metric); }
VICINAL_HOST_DEVICE constexpr bool descending(Metric metric) noexcept { return holds_for(metrics_descending, metric); }

}  // namespace vicinal
