// See sampled_distances.hpp.
#include "prepare/sampled_distances.hpp"

#include <algorithm>
#include <cmath>

namespace vicinal {
namespace {

double near(const std::vector<double>& distances, double r) noexcept {
  return distances[std::min(static_cast<std::size_t>(r), distances.size() - 1)];
}
double counted(const std::vector<double>& distances, double distance) {
  return static_cast<double>(std::upper_bound(distances.begin(), distances.end(), distance) - distances.begin());
}

/// It returns the power of the distance with which the number of rows grows about the nearest of the sample.
double growth(const SampledScale& scale, const std::vector<double>& distances) {
  const double inner = near(distances, 4), outer = near(distances, 12);
  if (scale.products || !(inner > 0)) return 1e9;
  return std::log(13.0 / 5.0) / std::log(std::max(outer / inner, 1 + 1e-9));
}

/// It counts the rows that are seen within `reach`, at least `least`; where the sample has few, at most `most` of it.
double within(const SampledScale& scale, double reach, double least, double most, const std::vector<double>& seen) {
  const double count = counted(seen, reach), per_row = scale.per_row;
  if (count >= 4 || !(near(seen, 4) > 0) || scale.products) return std::max(least, count * per_row);
  const double few = 5 * per_row * std::pow(std::max(reach, 0.0) / near(seen, 4), growth(scale, seen));
  return std::clamp(few, std::min(least, most * per_row), most * per_row);
}

}  // namespace

double left_rows(const SampledScale& scale, double k, double eps, const std::vector<double>& truth,
                 const std::vector<double>& seen) {
  if (scale.radius) return within(scale, *scale.radius + eps, 1, 5, seen);
  const double rank = k / scale.per_row, power = rank < 4 ? growth(scale, truth) : 1;
  const double kth = rank < 4 ? near(truth, 4) * std::pow((rank + 1e-9) / 5, 1 / power) : near(truth, rank);
  if (!(kth > 0) || counted(seen, kth + eps) >= 4 || &seen != &truth) return within(scale, kth + eps, k, 4, seen);
  return std::min(k * std::pow(1 + eps / kth, power), 4 * scale.per_row);
}

}  // namespace vicinal
