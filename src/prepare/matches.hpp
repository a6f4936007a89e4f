// What every backend asks of the matches of a range search: which keys are within the radius, and their order.
#pragma once
#include <cstdint>

#include "backend/search.hpp"

namespace vicinal {

/// It sorts entries [at, at + count) of out in place by the total order.
void sort_matches(const RangeView& out, bool descends, std::int64_t at, std::int64_t count);

/// It folds the radius: the largest key that is within it.
double radius_key(double radius, DistanceType type, bool descends) noexcept;

}  // namespace vicinal
